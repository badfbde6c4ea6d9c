#include "worker/tasks/random_sequences.h"

#include <ATen/ops/rand.h>

#include "lib/base/hash.h"
#include "worker/torch/flat_module.h"

namespace muster::worker {
namespace {

// Keeps this use of a job's seed apart from the others.
constexpr uint64_t kDataStream = 0x64617461;

}  // namespace

RandomSequences MakeRandomSequences(const SequenceSizes& sizes, uint64_t seed) {
  SeedTorch(Mix64(seed, kDataStream));
  return {.source = at::rand({sizes.samples, sizes.source_length, sizes.width}),
          .target = at::rand({sizes.samples, sizes.target_length, sizes.width})};
}

}  // namespace muster::worker
