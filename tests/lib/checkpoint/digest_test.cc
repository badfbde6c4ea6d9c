#include <gtest/gtest.h>

#include "lib/checkpoint/load.h"
#include "tests/lib/checkpoint/state_digest.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

class DigestTest : public DirTest {
 protected:
  // The digest of a checkpoint of the state.
  std::string Saved(const Layout& layout, const State& state, int64_t chunk_bytes) {
    const auto manifest = Save(*files_, layout, state, 1, ++step_, 1, chunk_bytes);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const auto digest = Digest(*files_, *manifest);
    EXPECT_TRUE(digest.ok()) << digest.status();
    return digest.value_or("");
  }
  std::string Saved(const State& state) { return Saved(layout_, state, kUglyChunkBytes); }

  const Layout layout_ = UglyLayout();
  int64_t step_ = 0;
};

TEST_F(DigestTest, EqualsItsTwinHoweverTheCheckpointWasCut) {
  const State state = MakeState(layout_, 4);
  for (size_t writers : {1, 2, 5}) {
    const auto manifest = Save(*files_, layout_, state, 1, static_cast<int64_t>(writers), writers);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    const auto digest = Digest(*files_, *manifest);
    ASSERT_TRUE(digest.ok()) << digest.status();
    EXPECT_EQ(*digest, StateDigest(layout_, state.slots));
  }
}

TEST_F(DigestTest, OfACheckpointCanBeStopped) {
  const auto manifest = Save(*files_, layout_, MakeState(layout_, 4), 1, 1, 1);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  std::stop_source stop;
  EXPECT_TRUE(Digest(*files_, *manifest, stop.get_token()).ok());
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(Digest(*files_, *manifest, stop.get_token()).status()));
}

TEST_F(DigestTest, DoesNotDependOnTheChunkGrid) {
  const Layout coarse = *Layout::Make(UglyTensors(), kMaxChunkBytes);
  ASSERT_EQ(coarse.elements(), layout_.elements());
  ASSERT_LT(coarse.chunk_count(), layout_.chunk_count());
  EXPECT_EQ(Saved(coarse, MakeState(layout_, 4), kMaxChunkBytes), Saved(MakeState(layout_, 4)));
}

TEST_F(DigestTest, HoldsBothEndsOfEveryTensorInEverySlot) {
  const std::string digest = Saved(MakeState(layout_, 4));
  for (size_t slot = 0; slot <= kSlots; ++slot) {
    for (const Placed& tensor : layout_.tensors()) {
      if (slot > 0 && tensor.spec.kind == TensorKind::kBuffer) continue;
      for (const int64_t at : {tensor.offset, tensor.offset + tensor.count - 1}) {
        State other = MakeState(layout_, 4);
        other.slots[slot][static_cast<size_t>(at)] += 1;
        EXPECT_NE(Saved(other), digest) << "slot " << slot << " element " << at;
      }
    }
  }
}

TEST_F(DigestTest, HoldsNoHole) {
  const std::string digest = Saved(MakeState(layout_, 4));
  State other = MakeState(layout_, 4);
  int64_t holes = 0;
  for (std::vector<float>& slot : other.slots) {
    for (size_t i = 0; i < slot.size(); ++i) {
      if (!layout_.TensorsIn(static_cast<int64_t>(i), 1).empty()) continue;
      slot[i] += 1;
      ++holes;
    }
  }
  ASSERT_GT(holes, 0);
  EXPECT_EQ(Saved(other), digest);
}

}  // namespace
}  // namespace muster
