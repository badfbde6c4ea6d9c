// Throughput of the kernels on one thread. bytes_per_second counts one operand (4 bytes per
// element), not all traffic. The argument is the number of elements: a chunk of 256 KiB, which
// stays in cache, and 64 MiB, which does not.
#include <benchmark/benchmark.h>

#include <vector>

#include "lib/kernels/add.h"
#include "lib/kernels/crc.h"
#include "lib/kernels/fingerprint.h"
#include "lib/kernels/float_env.h"
#include "lib/kernels/norm.h"
#include "lib/optim/optim.h"

namespace muster {
namespace {

std::vector<float> Values(const benchmark::State& state) {
  return std::vector<float>(static_cast<size_t>(state.range(0)), 1e-3f);
}

void CountBytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) * 4);
}

absl::Span<const std::byte> AsBytes(absl::Span<const float> values) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4);
}

void BM_Add(benchmark::State& state) {
  auto into = Values(state);
  const auto from = Values(state);
  for (auto _ : state) {
    Add(into, from, absl::MakeSpan(into));
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}

// Slices as gRPC delivers them: 16 KiB less a few bytes, so that every slice cuts a value.
void BM_SumSlices(benchmark::State& state) {
  auto into = Values(state);
  const auto from = Values(state);
  constexpr size_t kSlice = 16 * 1024 - 9;
  std::vector<absl::Span<const std::byte>> slices;
  const auto bytes = AsBytes(from);
  for (size_t at = 0; at < bytes.size(); at += kSlice) slices.push_back(bytes.subspan(at, kSlice));
  for (auto _ : state) {
    SumSlices(slices, 0, into, absl::MakeSpan(into));
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}

void BM_SumOfSquares(benchmark::State& state) {
  const auto values = Values(state);
  for (auto _ : state) benchmark::DoNotOptimize(SumOfSquares(values));
  CountBytes(state);
}

void BM_Fingerprint(benchmark::State& state) {
  const auto values = Values(state);
  for (auto _ : state) benchmark::DoNotOptimize(FingerprintOf(1, 0, 0, values));
  CountBytes(state);
}

void BM_Crc32c(benchmark::State& state) {
  const auto values = Values(state);
  for (auto _ : state) benchmark::DoNotOptimize(Crc32c(AsBytes(values)));
  CountBytes(state);
}

void Update(benchmark::State& state, OptimizerKind kind) {
  const OptimizerSpec spec = {.kind = kind, .learning_rate = 1e-6};
  const auto gradient = Values(state);
  auto parameters = Values(state), slot0 = Values(state), slot1 = Values(state);
  const Slots slots = {absl::MakeSpan(slot0), absl::MakeSpan(slot1)};
  int64_t step = 0;
  for (auto _ : state) {
    ApplyUpdate(spec, step++, spec.learning_rate, gradient, parameters, absl::MakeSpan(parameters),
                slots);
    benchmark::ClobberMemory();
  }
  CountBytes(state);
}

void BM_Sgd(benchmark::State& state) { Update(state, OptimizerKind::kSgd); }
void BM_Momentum(benchmark::State& state) { Update(state, OptimizerKind::kMomentum); }
void BM_Adam(benchmark::State& state) { Update(state, OptimizerKind::kAdam); }
void BM_Lamb(benchmark::State& state) { Update(state, OptimizerKind::kLamb); }
void BM_Lars(benchmark::State& state) { Update(state, OptimizerKind::kLars); }

constexpr int64_t kChunk = 64 << 10, kModel = 16 << 20;
BENCHMARK(BM_Add)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_SumSlices)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_SumOfSquares)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Fingerprint)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Crc32c)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Sgd)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Momentum)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Adam)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Lamb)->Arg(kChunk)->Arg(kModel);
BENCHMARK(BM_Lars)->Arg(kChunk)->Arg(kModel);

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  muster::SetFloatEnvironment();
  benchmark::AddCustomContext("instruction_set", muster::InstructionSet());
  benchmark::RunSpecifiedBenchmarks();
}
