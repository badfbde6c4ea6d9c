// Which samples of a step are left out because they cannot be read (data.on_bad_sample: skip;
// docs/decisions/0105): one bit of a tensor of the kind kSum for each sample of a step. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "muster/tensor.h"

namespace muster {

// More than any record of a step has to name.
inline constexpr int64_t kMostSamplesWithPlaces = 65536;

inline constexpr char kLeftOutName[] = "data/left_out";

inline bool LeavesOut(const TrainingSpec& training) {
  return training.data.on_bad_sample == OnBadSample::kSkip;
}

// Of a job that leaves out: 24 samples of a step in each float. Lanes bring bits that no other lane
// brings, so their sum is exact, in any order and under any cut of the tree.
TensorSpec LeftOutTensor(const TrainingSpec& training);

// So many samples of a step have a place in one chunk, beside what is measured.
int64_t MostSamplesWithPlaces(const TrainingSpec& training);

// What a lane brings: `positions` are those in the step's samples; `places`, the tensor, was all
// +0.0.
void WriteLeftOut(absl::Span<const uint64_t> positions, absl::Span<float> places);
// Ascending.
std::vector<uint64_t> ReadLeftOut(absl::Span<const float> places);

// Where the samples of the lane begin in those of the step.
uint64_t FirstOfLane(const TrainingSpec& training, uint64_t samples, Step step, LaneId lane);

}  // namespace muster
