#include "random_sequences.h"

#include <ATen/ops/rand.h>

#include "muster/torch/module_task.h"

namespace transformer {
namespace {

// Keeps this use of a job's seed apart from the others.
constexpr uint64_t kDataStream = 0x64617461;

}  // namespace

RandomSequences MakeRandomSequences(const SequenceSizes& sizes, uint64_t seed) {
  muster::torch::Seed(seed, kDataStream);
  return {.source = at::rand({sizes.samples, sizes.source_length, sizes.width}),
          .target = at::rand({sizes.samples, sizes.target_length, sizes.width})};
}

}  // namespace transformer
