// What one peer has of our open step.
#include "lib/member/state/peer_progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

constexpr int64_t kOpen = 7;

struct InventoryCase {
  const char* name;
  int64_t step;  // the peer's open step
  std::vector<int> partials, results;
  std::vector<int32_t> partials_to_send, results_to_send;  // of chunks 0, 1, 2
  int64_t seen_at;                                         // where it is taken to be
};

class PeersInventory : public testing::TestWithParam<InventoryCase> {};

TEST_P(PeersInventory, TellsWhatIsStillToBeSent) {
  const InventoryCase& c = GetParam();
  const Inventory inventory{LineageNumber(1), ViewNumber(1), Step(c.step), Bits(c.partials),
                            Bits(c.results)};
  PeerProgress peer = PeerProgress::FromInventory(inventory, Step(kOpen));
  EXPECT_EQ(peer.step(), Step(c.seen_at));
  EXPECT_EQ(peer.PartialsToSend(Chunks({0, 1, 2})), Chunks(c.partials_to_send));
  EXPECT_EQ(peer.ResultsToSend(Chunks({0, 1, 2})), Chunks(c.results_to_send));
}

INSTANTIATE_TEST_SUITE_P(
    PeerProgress, PeersInventory,
    testing::Values(InventoryCase{"has_nothing", 7, {0, 0, 0}, {0, 0, 0}, {0, 1, 2}, {0, 1, 2}, 7},
                    InventoryCase{"has_some", 7, {1, 0, 0}, {0, 0, 1}, {1, 2}, {0, 1}, 7},
                    InventoryCase{"is_one_step_behind", 6, {0, 1, 0}, {1, 1, 0}, {0, 2}, {2}, 6},
                    // It says what it has of the step after ours; of ours it has all.
                    InventoryCase{"is_one_step_ahead", 8, {0, 0, 0}, {0, 0, 0}, {}, {}, 8},
                    InventoryCase{"is_stale", 5, {1, 1, 1}, {1, 1, 1}, {0, 1, 2}, {0, 1, 2}, 7}),
    [](const auto& test) { return test.param.name; });

TEST(PeerProgress, WhatWasSentIsNotSentAgain) {
  PeerProgress peer(Step(kOpen), 3);
  EXPECT_EQ(peer.PartialsToSend(Chunks({1})), Chunks({1}));
  EXPECT_EQ(peer.PartialsToSend(Chunks({1, 2})), Chunks({2}));
  EXPECT_EQ(peer.ResultsToSend(Chunks({1, 2})), Chunks({1, 2})) << "results are counted apart";
  EXPECT_EQ(peer.ResultsToSend(Chunks({0, 1, 2})), Chunks({0}));
}

}  // namespace
}  // namespace muster
