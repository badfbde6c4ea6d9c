#include "lib/data/data_memory.h"

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/memory_cgroup.h"

namespace muster {
namespace {

std::atomic<uint64_t> taken{0};  // of this process's memory, which is one, too

uint64_t Most() { return static_cast<uint64_t>(MemoryForUs()) / 2; }

}  // namespace

DataMemory::~DataMemory() { taken -= bytes_; }

DataMemory::DataMemory(DataMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, 0)), most_(other.most_) {}

DataMemory& DataMemory::operator=(DataMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(most_, other.most_);
  return *this;
}

absl::Status DataMemory::Take(absl::string_view what, uint64_t bytes) {
  if (most_ == 0) most_ = Most();
  uint64_t before = taken.load();
  do {
    if (bytes > most_ || before > most_ - bytes)
      return absl::ResourceExhaustedError(absl::StrCat(
          what, ": ", bytes, " bytes more are to be held in memory; all data may have ", most_,
          ", half of what this process may have, and has ", before));
  } while (!taken.compare_exchange_weak(before, before + bytes));
  bytes_ += bytes;
  return absl::OkStatus();
}

uint64_t DataMemory::Left() {
  const uint64_t most = Most(), now = taken.load();
  return now < most ? most - now : 0;
}

}  // namespace muster
