// Which samples a lane works on: a pure function of (training specification, size of the data set,
// step, lane). Those of a stream are used in the order in which they come. Else an epoch's order is
// a permutation that is computed, never stored: a Feistel network over the next power of four,
// walked until it lands inside (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002).
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/ids.h"
#include "lib/domain/job.h"

namespace muster {

class EpochOrder {
 public:
  EpochOrder(uint64_t seed, int64_t epoch, uint64_t n);  // n at least 1
  // That of the job: a stream has none but its own.
  EpochOrder(const TrainingSpec& training, int64_t epoch, uint64_t n)
      : EpochOrder(training.seed, epoch, n) {
    as_they_come_ = IsStreamed(training);
  }
  uint64_t At(uint64_t position) const;        // position < n; a bijection onto 0 … n-1
  uint64_t PositionOf(uint64_t sample) const;  // the other way; sample < n

 private:
  uint64_t Encrypt(uint64_t x) const;
  uint64_t Decrypt(uint64_t x) const;
  uint64_t n_;
  bool as_they_come_ = false;
  int half_bits_;
  uint64_t keys_[6];
};

// Positions [first, first + count) of an epoch's order.
struct SampleRange {
  int64_t epoch = 0;
  uint64_t first = 0;
  uint64_t count = 0;
  bool operator==(const SampleRange&) const = default;
};

SampleRange StepSamples(const TrainingSpec& training, uint64_t n, Step step);
// Contiguous parts of the step's range, extra samples to the first lanes; count may be 0.
SampleRange LaneSamples(const TrainingSpec& training, uint64_t n, Step step, LaneId lane);
std::vector<uint64_t> SampleIds(const TrainingSpec& training, uint64_t n, const SampleRange& range);

// The step and lane that use the sample in an epoch; sample < n, and the epoch is one of the job.
struct SamplePlace {
  Step step;
  LaneId lane;
  bool operator==(const SamplePlace&) const = default;
};
SamplePlace PlaceOfSample(const TrainingSpec& training, uint64_t n, int64_t epoch, uint64_t sample);

// Seed of every random generator a lane uses.
uint64_t LaneSeed(uint64_t seed, Step step, LaneId lane);

}  // namespace muster
