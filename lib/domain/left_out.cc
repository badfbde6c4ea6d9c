#include "lib/domain/left_out.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/domain/grid.h"
#include "lib/domain/layout.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"

namespace muster {
namespace {

constexpr int64_t kBits = 24;  // fp32 holds every whole number below 2^24
constexpr int64_t kMostWhole = int64_t{1} << kBits;

}  // namespace

TensorSpec LeftOutTensor(const TrainingSpec& training) {
  return {kLeftOutName, {(training.batch + kBits - 1) / kBits}, TensorKind::kSum};
}

// All subtrees of the chunk that a member can hold must fit into one frame, as those of others do
// (lib/domain/grid.h); but this chunk is not cut.
int64_t MostSamplesWithPlaces(const TrainingSpec& training) {
  TrainingSpec widest = training;
  widest.chunk_bytes = kMaxChunkBytes;
  const int64_t measures = training.validation.wanted() ? kMostBytesOfMeasures : 0;
  const int64_t floats = (ChunkBytes(widest) - measures) / static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(floats * kBits, 0, kMostSamplesWithPlaces);
}

void WriteLeftOut(absl::Span<const uint64_t> positions, absl::Span<float> places) {
  for (const uint64_t position : positions) {
    const uint64_t at = position / kBits;
    MUSTER_CHECK(at < places.size(), "a place for each sample of a step");
    places[at] += static_cast<float>(int64_t{1} << position % kBits);
  }
}

std::vector<uint64_t> ReadLeftOut(absl::Span<const float> places) {
  std::vector<uint64_t> positions;
  for (size_t at = 0; at < places.size(); ++at) {
    if (!(places[at] > 0 && places[at] < static_cast<float>(kMostWhole))) continue;
    const auto bits = static_cast<uint64_t>(places[at]);
    for (uint64_t bit = 0; bit < kBits; ++bit)
      if ((bits >> bit & 1) != 0) positions.push_back(at * kBits + bit);
  }
  return positions;
}

uint64_t FirstOfLane(const TrainingSpec& training, uint64_t samples, Step step, LaneId lane) {
  return LaneSamples(training, samples, step, lane).first -
         StepSamples(training, samples, step).first;
}

}  // namespace muster
