#include <gtest/gtest.h>

#include "lib/checkpoint/load.h"
#include "lib/kernels/sha256.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

class DigestTest : public DirTest {
 protected:
  const Layout layout_ = UglyLayout();
};

// The dumb twin: names sorted by hand, whole tensors.
std::string SlowDigest(const Layout& layout, const State& state) {
  Sha256 sha;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    for (const char* name : {"a.weight", "b.large", "count", "mean", "scalar", "z.first"}) {
      for (const Placed& tensor : layout.tensors()) {
        if (tensor.spec.name != name || (slot > 0 && tensor.spec.kind == TensorKind::kBuffer))
          continue;
        sha.Update({reinterpret_cast<const std::byte*>(state.slots[slot].data() + tensor.offset),
                    static_cast<size_t>(tensor.count) * sizeof(float)});
      }
    }
  }
  return sha.HexFinish();
}

TEST_F(DigestTest, IsTheSameForAStateAndItsCheckpointHoweverItWasCut) {
  const State state = MakeState(layout_, 4);
  const std::string digest = Digest(layout_, state.Views());
  EXPECT_EQ(digest, SlowDigest(layout_, state));
  for (size_t writers : {1, 2, 5}) {
    const auto manifest = Save(dir_, layout_, state, 1, static_cast<int64_t>(writers), writers);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const auto stored = Digest(dir_, *manifest);
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_EQ(*stored, digest);
  }
}

TEST_F(DigestTest, OfACheckpointCanBeStopped) {
  const auto manifest = Save(dir_, layout_, MakeState(layout_, 4), 1, 1, 1);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  std::stop_source stop;
  EXPECT_TRUE(Digest(dir_, *manifest, stop.get_token()).ok());
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Digest(dir_, *manifest, stop.get_token()).status()));
}

TEST_F(DigestTest, DoesNotDependOnTheChunkGrid) {
  const Layout coarse = *Layout::Make(UglyTensors(), kMaxChunkBytes);
  ASSERT_EQ(coarse.elements(), layout_.elements());
  const State state = MakeState(layout_, 4);
  EXPECT_EQ(Digest(coarse, state.Views()), Digest(layout_, state.Views()));
}

TEST_F(DigestTest, HoldsEveryElementAndNoHole) {
  const State state = MakeState(layout_, 4);
  const std::string digest = Digest(layout_, state.Views());
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    for (size_t i = 0; i < state.slots[slot].size(); ++i) {
      State other = state;
      other.slots[slot][i] += 1;
      const bool hole = layout_.TensorsIn(static_cast<int64_t>(i), 1).empty();
      EXPECT_EQ(Digest(layout_, other.Views()) == digest, hole)
          << "slot " << slot << " element " << i;
    }
  }
}

}  // namespace
}  // namespace muster
