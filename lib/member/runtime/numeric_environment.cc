#include "lib/member/runtime/numeric_environment.h"

#include <array>
#include <vector>

#include "absl/strings/str_format.h"
#include "lib/base/hash.h"
#include "lib/kernels/fingerprint.h"
#include "lib/kernels/float_env.h"
#include "lib/optim/optim.h"
#include "lib/optim/schedule.h"

namespace muster {
namespace {

constexpr size_t kProbeSize = 97;  // fills no vector
constexpr int64_t kProbeSteps = 4;

// In [-1, 1), the same everywhere.
float Draw(uint64_t stream, size_t i) {
  return static_cast<float>(static_cast<int64_t>(Mix64(stream, i) >> 40) - (int64_t{1} << 23)) *
         0x1p-23f;
}

// A few steps of the job's optimizer at the job's rates, on numbers that are always the same.
std::string OptimizerProbe(const TrainingSpec& training) {
  std::vector<float> values(kProbeSize), gradient(kProbeSize);
  std::array<std::vector<float>, kMaxSlots> memory;
  Slots slots;
  for (int s = 0; s < SlotCount(training.optimizer.kind); ++s) {
    memory[static_cast<size_t>(s)].resize(kProbeSize);
    slots[static_cast<size_t>(s)] = absl::MakeSpan(memory[static_cast<size_t>(s)]);
  }
  for (size_t i = 0; i < kProbeSize; ++i) values[i] = Draw(1, i);
  Fingerprint sum;
  for (int64_t step = 0; step < kProbeSteps; ++step) {
    for (size_t i = 0; i < kProbeSize; ++i) gradient[i] = Draw(2 + static_cast<uint64_t>(step), i);
    const double rate = LearningRate(training.optimizer, training.schedule, step, kProbeSteps);
    ApplyUpdate(training.optimizer, step, rate, gradient, values, absl::MakeSpan(values), slots);
    sum += FingerprintOf(static_cast<uint64_t>(step), 0, 0, values);
  }
  return ToHex(sum);
}

}  // namespace

std::map<std::string, std::string> KernelProperties(const TrainingSpec& training) {
  return {{"float_environment", FloatEnvironmentIsSet() ? "nearest, denormals are zero" : "unset"},
          {"instruction_set", InstructionSet()},
          {"optimizer_probe", OptimizerProbe(training)}};
}

std::string SyncOrder(absl::Span<const std::string> phases) {
  uint64_t hash = phases.size();
  for (const std::string& phase : phases) hash = HashBytes(phase, hash);
  return absl::StrFormat("%d phases, %016x", phases.size(), hash);
}

}  // namespace muster
