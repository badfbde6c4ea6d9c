// The header of a frame of gradients: 4 chunks of 2 subtrees each.
#include <benchmark/benchmark.h>

#include "lib/wire/message_codec.h"

namespace muster {
namespace {

PeerMessage FourChunks() {
  Partials partials{LineageNumber(1), ViewNumber(7), Step(12345), {}, {}};
  for (int32_t c = 0; c < 4; ++c)
    partials.chunks.push_back(
        {ChunkId(100 + c), {{{0, 4}, 256, 511.25, 0x12345678}, {{4, 6}, 128, 255.5, 0x9abcdef0}}});
  return partials;
}

void EncodePartials(benchmark::State& state) {
  const PeerMessage message = FourChunks();
  for (auto _ : state) benchmark::DoNotOptimize(Encode(message));
  state.counters["bytes"] = static_cast<double>(Encode(message).size());
}
BENCHMARK(EncodePartials);

void DecodePartials(benchmark::State& state) {
  const std::string header = Encode(FourChunks());
  for (auto _ : state) benchmark::DoNotOptimize(DecodePeerMessage(header));
}
BENCHMARK(DecodePartials);

}  // namespace
}  // namespace muster

BENCHMARK_MAIN();
