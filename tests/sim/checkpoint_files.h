// Reads and writes checkpoints on the simulated disk, and tells what fails there.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/member/state/actions.h"
#include "tests/sim/disk.h"
#include "tests/sim/memory.h"

namespace muster::sim {

// A member's part of a checkpoint of state(step), on its way to disk.
struct PartCopy {
  LineageNumber lineage;
  Step step;
  std::map<std::pair<int32_t, int32_t>, Value> content;
};
PartCopy CopyPart(const Terms& terms, const SimState& state, LineageNumber lineage, Step step,
                  const std::vector<ChunkId>& chunks);

// The entries as the segment's table would list them.
std::vector<SegmentEntry> EntriesOf(const PartCopy& part);

SimState EmptyState(const Terms& terms, bool slots);
// Makes state(make.step) of the chunks that `make` names. kDataLoss: the checkpoint is damaged.
absl::StatusOr<SimState> MakeState(const Terms& terms, const Disk& disk, const Make& make);

FingerprintPart FingerprintOf(const Terms& terms, const SimState& state,
                              const std::vector<ChunkId>& chunks, bool whole);

}  // namespace muster::sim
