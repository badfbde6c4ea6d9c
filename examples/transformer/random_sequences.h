// The data of the `transformer` task: pairs of sequences of random vectors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace transformer {

struct RandomSequences {
  at::Tensor source;  // (samples, source_length, width), uniform in [0, 1)
  at::Tensor target;  // (samples, target_length, width), uniform in [0, 1)
};

struct SequenceSizes {
  int64_t samples = 0;
  int64_t source_length = 0;
  int64_t target_length = 0;
  int64_t width = 0;
};

// Depends on its arguments alone; draws from torch's default generator, which it seeds.
RandomSequences MakeRandomSequences(const SequenceSizes& sizes, uint64_t seed);

}  // namespace transformer
