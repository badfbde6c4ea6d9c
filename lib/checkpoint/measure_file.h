// How good the state of a checkpoint is, by the measure that its job keeps the best one of
// (checkpoint.keep: {best: validation.METRIC}): a small file beside its manifest, "validation.loss
// 0.25" with a checksum. It is written once the state is measured, which is after the checkpoint is
// committed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/ids.h"
#include "lib/checkpoint/files.h"
#include "lib/domain/best_state.h"
#include "lib/domain/manifest.h"

namespace muster {

inline constexpr char kMeasureFile[] = "checkpoint.measure";
// Relative to the job's checkpoint directory.
std::string MeasureFileOf(LineageNumber lineage, Step step);

// kNotFound: it has none; kDataLoss: what lies there is none. Others as CheckpointFiles::Open.
absl::StatusOr<StateMeasure> ReadMeasure(const CheckpointFiles& files, LineageNumber lineage,
                                         Step step);
struct BestFound {
  std::optional<size_t> best{};  // of those that have a measure that can be read; nothing: none is
  // Each of these may be the best one in truth: its measure lies there and cannot be read.
  std::vector<size_t> unread{};
  absl::Status why{};  // that of the first of them
};
// Which of them is the best by the rule, of those that are finite. Where the rule asks for none, no
// file is read. kUnavailable: one cannot be read just now.
absl::StatusOr<BestFound> FindBest(const CheckpointFiles& files,
                                   const std::vector<Manifest>& manifests, const BestRule& rule);
// It lies there whole or not at all; where it lies there already, nothing is written. Errors as
// CheckpointFiles::Replace.
absl::Status WriteMeasure(CheckpointFiles& files, LineageNumber lineage, Step step,
                          const StateMeasure& measure);

}  // namespace muster
