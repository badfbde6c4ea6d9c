// Saves whole checkpoints the way a job does, for the tests with real processes and real disks.
#pragma once

#include <functional>

#include "tests/lib/checkpoint/support.h"

namespace muster {

inline bool Any(LineageNumber, Step) { return true; }
inline constexpr int32_t kKeep = 2;

inline std::vector<TensorSpec> LargeTensors() { return {{"weight", {1000, 97}}, {"bias", {1000}}}; }
inline constexpr int64_t kLargeChunkBytes = 64 * 1024;
inline Layout LargeLayout() { return *Layout::Make(LargeTensors(), kLargeChunkBytes); }

// One checkpoint of MakeState(step) by two writers, committed, older ones pruned; `stage` hears of
// each stage.
inline absl::Status SaveOne(Catalogue& catalogue, CheckpointFiles& files, const Layout& layout,
                            int64_t step, uint64_t attempt,
                            const std::function<void(const std::string&)>& stage) {
  files.MakeFolder().IgnoreError();  // what cannot be made is told by the first write
  const State state = MakeState(layout, static_cast<uint64_t>(step));
  const std::vector<PartView> parts = PartsOf<PartView>(layout, state);
  const size_t half = parts.size() / 2;
  std::vector<Segment> segments;
  for (const auto& part :
       {absl::MakeConstSpan(parts).first(half), absl::MakeConstSpan(parts).subspan(half)}) {
    const std::string writer = absl::StrCat("w", segments.size(), "-", attempt);
    auto segment = WriteSegment(files, SegmentFile(LineageNumber(1), Step(step), writer),
                                {kJob, LineageNumber(1), Step(step)}, part);
    if (!segment.ok()) return segment.status();
    segments.push_back(*std::move(segment));
    stage("segment");
  }
  const Manifest manifest = MakeManifest(LineageNumber(1), Step(step), std::move(segments),
                                         LargeTensors(), kLargeChunkBytes);
  if (absl::Status status = catalogue.Commit(manifest); !status.ok()) return status;
  stage(absl::StrCat("committed ", step));
  return catalogue.Prune(kJob, Any, kKeep, files);
}

}  // namespace muster
