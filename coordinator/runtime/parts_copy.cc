#include "coordinator/runtime/parts_copy.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"

namespace muster::coordinator {
namespace {

constexpr size_t kBytesInMemory = size_t{64} << 20;

}  // namespace

std::string PartsCopy::NextName() const {
  std::random_device random;
  return absl::StrCat(writer_, "-", absl::Hex(uint32_t{random()}, absl::kZeroPad8),
                      absl::Hex(uint32_t{random()}, absl::kZeroPad8), "-", written_.size());
}

absl::Status PartsCopy::Add(int32_t slot, ChunkId chunk, std::vector<float> values) {
  held_ += values.size() * sizeof(float);
  parts_.push_back({slot, chunk, std::move(values)});
  return held_ < kBytesInMemory ? absl::OkStatus() : Write();
}

absl::Status PartsCopy::Write() {
  if (parts_.empty()) return absl::OkStatus();
  std::vector<PartView> views;
  for (const Part& part : parts_) views.push_back({part.slot, part.chunk, part.values});
  const std::string file = SegmentFile(meta_.lineage, meta_.step, NextName());
  MUSTER_ASSIGN_OR_RETURN(Segment segment, WriteSegment(to_, file, meta_, views));
  segment.finite = finite;
  written_.push_back(std::move(segment));
  parts_.clear();
  held_ = 0;
  return absl::OkStatus();
}

std::vector<Segment> PartsCopy::Release() { return std::exchange(written_, {}); }

void PartsCopy::Drop() {
  for (const Segment& segment : std::exchange(written_, {})) to_.Remove(segment.file).IgnoreError();
  to_.RemoveFolder(CheckpointFolder(meta_.lineage, meta_.step));
  to_.RemoveFolder("");
}

}  // namespace muster::coordinator
