#include "lib/storage/faulty.h"

#include <algorithm>
#include <utility>

#include "lib/base/status.h"

namespace muster {

FaultyKv::FaultyKv(std::unique_ptr<Kv> durable, std::vector<std::string> families)
    : families_(std::move(families)), durable_(std::move(durable)) {}

absl::StatusOr<std::unique_ptr<FaultyKv>> FaultyKv::Wrap(std::unique_ptr<Kv> durable,
                                                         const std::vector<std::string>& families) {
  std::unique_ptr<FaultyKv> kv(new FaultyKv(std::move(durable), families));
  std::lock_guard lock(kv->mutex_);
  MUSTER_RETURN_IF_ERROR(kv->ReloadLocked());
  return kv;
}

absl::Status FaultyKv::ReloadLocked() {
  seen_ = OpenMemory(families_);
  Batch all;
  for (const std::string& family : families_) {
    MUSTER_RETURN_IF_ERROR(
        durable_->Scan(family, "", "", [&](absl::string_view key, absl::string_view value) {
          all.Put(family, key, value);
          return true;
        }));
  }
  return seen_->Write(all, Durability::kBuffered);
}

absl::Status FaultyKv::CountCallLocked() const {
  if (calls_until_failure_ < 0) return absl::OkStatus();
  return calls_until_failure_-- == 0 ? planned_error_ : absl::OkStatus();
}

absl::StatusOr<std::string> FaultyKv::Get(absl::string_view family, absl::string_view key) const {
  std::lock_guard lock(mutex_);
  MUSTER_RETURN_IF_ERROR(CountCallLocked());
  return seen_->Get(family, key);
}

absl::Status FaultyKv::Write(const Batch& batch, Durability durability) {
  std::lock_guard lock(mutex_);
  MUSTER_RETURN_IF_ERROR(CountCallLocked());
  MUSTER_RETURN_IF_ERROR(seen_->Write(batch, durability));
  unsynced_.push_back(batch);
  if (durability == Durability::kBuffered) return absl::OkStatus();
  for (const Batch& earlier : unsynced_)
    MUSTER_RETURN_IF_ERROR(durable_->Write(earlier, Durability::kSynced));
  unsynced_.clear();
  return absl::OkStatus();
}

absl::Status FaultyKv::Scan(absl::string_view family, absl::string_view first,
                            absl::string_view last, const Visit& visit) const {
  std::vector<std::pair<std::string, std::string>> pairs;
  {
    std::lock_guard lock(mutex_);
    MUSTER_RETURN_IF_ERROR(CountCallLocked());
    MUSTER_ASSIGN_OR_RETURN(pairs, ScanAll(*seen_, family, first, last));
  }
  for (const auto& [key, value] : pairs) {
    if (!visit(key, value)) break;
  }
  return absl::OkStatus();
}

void FaultyKv::FailCall(int64_t n, absl::Status error) {
  std::lock_guard lock(mutex_);
  calls_until_failure_ = n;
  planned_error_ = std::move(error);
}

absl::Status FaultyKv::Crash(size_t survivors) {
  std::lock_guard lock(mutex_);
  survivors = std::min(survivors, unsynced_.size());
  for (size_t i = 0; i < survivors; ++i)
    MUSTER_RETURN_IF_ERROR(durable_->Write(unsynced_[i], Durability::kSynced));
  unsynced_.clear();
  return ReloadLocked();
}

size_t FaultyKv::unsynced() const {
  std::lock_guard lock(mutex_);
  return unsynced_.size();
}

}  // namespace muster
