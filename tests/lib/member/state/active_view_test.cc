// What a member exchanges with its peers in one active view. Whole views are member_test's.
#include "lib/member/state/active_view.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::IsEmpty;

const MemberId kPeer = NameOf("worker-1");

// worker-0 of two, at step 5, with lane 0 and chunk 0.
struct Rig {
  explicit Rig(int64_t checkpoint_every = 0, std::optional<Step> unsaved_end = std::nullopt,
               bool saves_measured = false, int64_t checkpoint_epochs = 0) {
    MemberConfig with = PartConfig(Role::kWorker, Sync::kAllreduce, false);
    with.checkpoint_every = checkpoint_every;
    with.unsaved_end = unsaved_end;
    with.saves_measured = saves_measured;
    with.checkpoint_epochs = checkpoint_epochs;
    with.training.validation.every_steps = 4;
    config = Shared(std::move(with));
    known.emplace(*config);
    view.emplace(config, std::make_shared<const Seat>(PartSeat({0, 1}, {0, 1})), *known);
    state.emplace(HeldState{LineageNumber(1), OpenStep(config, Step(5)), {}});
  }
  Outcome Begin() {
    Outcome out;
    view->Begin({kPeer}, *state, last_id, out);
    return out;
  }
  template <class M>
  Outcome Peer(const M& message) {
    Outcome out;
    view->Handle(kPeer, message, *state, out);
    return out;
  }
  Outcome PeerHas(int64_t step) {
    return Peer(Inventory{LineageNumber(1), ViewNumber(1), Step(step), Bits({0, 0}), Bits({0, 0})});
  }
  Outcome Ready() {
    Outcome out;
    state->open.Finish({last_id, Chunks({0, 1}), {{{0, 1}, 1, 0.5, 0}}});
    view->PassOn(Chunks({0, 1}), *state, out);
    return out;
  }

  ConfigPtr config;
  std::optional<KnownSteps> known;
  std::optional<ActiveView> view;
  std::optional<HeldState> state;
  int64_t last_id = 10;
};

TEST(ActiveView, BeginsWithOurLanesAndOurInventory) {
  Rig rig;
  const Outcome out = rig.Begin();
  ASSERT_EQ(Of<Compute>(out.actions).size(), 1u);
  EXPECT_EQ(Of<Compute>(out.actions)[0].id, 11) << "ids grow over all views";
  ASSERT_EQ(Of<Send>(out.actions).size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Inventory>(Of<Send>(out.actions)[0].message));
}

TEST(ActiveView, PartialsGoToAPeerOnceItsInventoryIsHere) {
  Rig rig;
  rig.Begin();
  EXPECT_THAT(Of<Send>(rig.Ready().actions), IsEmpty()) << "who knows what it has";
  const auto sent = Of<Send>(rig.PeerHas(5).actions);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Partials>(sent[0].message).chunks.at(0).chunk, ChunkId(1));
  EXPECT_THAT(Of<Send>(rig.Ready().actions), IsEmpty()) << "it has them now";
  rig.view->SessionEnds(kPeer);
  EXPECT_EQ(Of<Send>(rig.PeerHas(5).actions).size(), 1u) << "a new session begins anew";
}

TEST(ActiveView, ARefusedMessageChangesNothing) {
  Rig rig;
  rig.Begin();
  Results results{
      LineageNumber(1), ViewNumber(1), Step(5), {{ChunkId(1), {}}, {ChunkId(0), {}}}, {}};
  EXPECT_EQ(rig.Peer(results).fate, Fate::kRefused) << "chunk 0 is ours";
  EXPECT_EQ(rig.state->open.result_count(), 0);
  results.chunks.pop_back();
  EXPECT_EQ(Of<StoreResults>(rig.Peer(results).actions).size(), 1u);
}

struct SaveCase {
  const char* name;
  int64_t step, every;
  std::vector<int32_t> saved;
  std::optional<Step> unsaved_end = std::nullopt;
  bool saves_measured = false;
  int64_t epochs = 0;
};

class Saves : public testing::TestWithParam<SaveCase> {};

TEST_P(Saves, OurChunksOnceForEachCheckpoint) {
  Rig rig(GetParam().every, GetParam().unsaved_end, GetParam().saves_measured, GetParam().epochs);
  rig.state.emplace(HeldState{LineageNumber(1), OpenStep(rig.config, Step(GetParam().step)), {}});
  EXPECT_EQ(rig.view->ChunksToSave(*rig.state), Chunks(GetParam().saved));
  EXPECT_THAT(rig.view->ChunksToSave(*rig.state), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(ActiveView, Saves,
                         testing::Values(SaveCase{"never_asked", 6, 0, {}},
                                         SaveCase{"not_the_beginning", 0, 3, {}},
                                         SaveCase{"every_third", 6, 3, {0}},
                                         SaveCase{"between", 7, 3, {}},
                                         SaveCase{"the_end", 50, 0, {0}},
                                         SaveCase{"the_unsaved_end", 50, 10, {}, Step(50)},
                                         SaveCase{"before_it", 40, 10, {0}, Step(50)},
                                         SaveCase{"stopped_before_it", 50, 0, {0}, Step(90)},
                                         SaveCase{"an_epoch", 8, 3, {0}, {}, false, 4},
                                         SaveCase{"amid_an_epoch", 7, 3, {}, {}, false, 4},
                                         SaveCase{"measured", 8, 3, {0}, {}, true},
                                         SaveCase{"not_measured", 10, 3, {}, {}, true},
                                         SaveCase{"every_third_besides", 9, 3, {0}, {}, true},
                                         SaveCase{"nobody_keeps_the_best", 8, 3, {}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace muster
