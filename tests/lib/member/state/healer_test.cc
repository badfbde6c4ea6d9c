// One heal plan being carried out.
#include "lib/member/state/healer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const MemberId kMe = NameOf("worker-0"), kDonor = NameOf("worker-1");

// To state(4), with us as the first of two; the other one is the donor of everything.
HealPlan PlanFor(HealBy how, size_t chunks = 2) {
  HealPlan plan;
  plan.lineage = LineageNumber(3);
  plan.base = Step(4);
  plan.members = PartSeat({0, 1}, {0, 1}).view.members;
  plan.how = {how, HealBy::kHold};
  plan.values_from.assign(chunks, 1);
  plan.slots_from.assign(chunks, -1);
  plan.catch_up_from.assign(chunks, 1);
  plan.done = ChunkSet(chunks, false);
  plan.done_from.assign(chunks, 1);
  plan.owner_of.assign(chunks, 0);
  return plan;
}

Healer HealerFor(const HealPlan& plan, const ChunkSet& held = Bits({0, 0})) {
  MemberConfig config = PartConfig(Role::kWorker, Sync::kAllreduce, false);
  config.chunks.assign(plan.owner_of.size(), TensorKind::kParameter);
  return Healer(Shared(config), ViewNumber(9), plan, 0, held);
}

Pieces PiecesOf(PieceKind kind, int64_t step, const std::vector<int32_t>& chunks) {
  Pieces pieces{ViewNumber(9), LineageNumber(3), kind, 0, Step(step), {}, {}, {}};
  for (int32_t c : chunks) pieces.chunks.push_back({ChunkId(c), {}});
  return pieces;
}

// The chunks of these pieces that were wanted.
std::vector<ChunkId> Wanted(Healer& healer, std::optional<HeldState>& state, const Pieces& pieces) {
  Outcome out;
  healer.Handle(kDonor, pieces, state, out);
  for (const StoreResults& store : Of<StoreResults>(out.actions)) return store.chunks;
  for (const StorePieces& store : Of<StorePieces>(out.actions)) return store.chunks;
  EXPECT_EQ(out.fate, Fate::kDropped);
  return {};
}

std::optional<HeldState> StateAt(int64_t step) {
  const ConfigPtr config = Shared(PartConfig(Role::kWorker, Sync::kAllreduce, false));
  return HeldState{LineageNumber(3), OpenStep(config, Step(step)), {}};
}

struct WayCase {
  const char* name;
  HealBy how;
  bool needs_state, brings_state, copies, makes;
  Healer::Next first;  // with the open step one before the base
};

class Way : public testing::TestWithParam<WayCase> {};

TEST_P(Way, IsWhatThePlanSays) {
  const WayCase& c = GetParam();
  const Healer healer = HealerFor(PlanFor(c.how));
  EXPECT_EQ(healer.NeedsState(), c.needs_state);
  EXPECT_EQ(healer.BringsState(), c.brings_state);
  EXPECT_THAT(Of<PrepareCopy>(healer.Begin()), SizeIs(c.copies ? 1 : 0));
  const auto make = Of<Make>(healer.Begin());
  ASSERT_THAT(make, SizeIs(c.makes ? 1 : 0));
  for (const Make& m : make) {
    EXPECT_EQ(m.chunks, Chunks({0, 1})) << "a worker has the whole state";
    EXPECT_EQ(m.lineage, LineageNumber(3));
    EXPECT_EQ(m.step, Step(4));
  }
  EXPECT_EQ(healer.NextFor(Step(3)), c.first);
}

INSTANTIATE_TEST_SUITE_P(
    Healer, Way,
    testing::Values(
        WayCase{"hold", HealBy::kHold, true, false, false, false, Healer::Next::kBase},
        WayCase{"catch_up", HealBy::kCatchUp, true, false, false, false, Healer::Next::kWait},
        WayCase{"copy", HealBy::kCopy, false, true, true, false, Healer::Next::kWait},
        WayCase{"make", HealBy::kMake, false, true, false, true, Healer::Next::kBase},
        WayCase{"load", HealBy::kLoad, false, true, false, true, Healer::Next::kBase},
        WayCase{"nothing", HealBy::kNothing, false, false, false, false, Healer::Next::kBase}),
    [](const auto& test) { return test.param.name; });

TEST(Healer, AServerMakesOnlyItsOwnChunks) {
  HealPlan plan = PlanFor(HealBy::kMake);
  plan.members[0].role = Role::kServer;
  plan.owner_of = {1, 0};
  const Healer healer(Shared(PartConfig(Role::kServer, Sync::kServer, false)), ViewNumber(9), plan,
                      0, Bits({0, 0}));
  EXPECT_EQ(Of<Make>(healer.Begin()).at(0).chunks, Chunks({1}));
}

TEST(Healer, ACopyAsksForEachChunkUntilItIsHere) {
  Healer healer = HealerFor(PlanFor(HealBy::kCopy));
  std::optional<HeldState> state;
  EXPECT_THAT(healer.Ask({kMe}), IsEmpty()) << "there is no session to the donor";
  const auto asked = Of<Send>(healer.Ask({kMe, kDonor}));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].to, kDonor);
  EXPECT_EQ(std::get<Fetch>(asked[0].message).chunks, Chunks({0, 1}));
  EXPECT_EQ(Wanted(healer, state, PiecesOf(PieceKind::kValues, 4, {0})), Chunks({0}));
  EXPECT_THAT(Wanted(healer, state, PiecesOf(PieceKind::kValues, 4, {0})), IsEmpty())
      << "it came already";
  EXPECT_THAT(Wanted(healer, state, PiecesOf(PieceKind::kValues, 3, {1})), IsEmpty())
      << "of another state";
  EXPECT_EQ(std::get<Fetch>(Of<Send>(healer.Ask({kDonor})).at(0).message).chunks, Chunks({1}))
      << "after a break only the rest is asked for";
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kWait);
  EXPECT_EQ(Wanted(healer, state, PiecesOf(PieceKind::kValues, 4, {0, 1})), Chunks({1}));
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kBase);
}

TEST(Healer, AFetchNamesABoundedNumberOfChunks) {
  const Healer healer = HealerFor(PlanFor(HealBy::kCopy, 20), ChunkSet(20, false));
  size_t chunks = 0;
  for (const Send& send : Of<Send>(healer.Ask({kDonor}))) {
    const Fetch& fetch = std::get<Fetch>(send.message);
    EXPECT_LE(fetch.chunks.size(), 8u);
    EXPECT_EQ(fetch.view, ViewNumber(9));
    chunks += fetch.chunks.size();
  }
  EXPECT_EQ(chunks, 20u);
}

TEST(Healer, CatchingUpAppliesTheLastStepOnceItsResultsAreHere) {
  Healer healer = HealerFor(PlanFor(HealBy::kCatchUp), Bits({0, 1}));
  std::optional<HeldState> state = StateAt(3);
  EXPECT_TRUE(healer.CatchesUp(Step(3)));
  EXPECT_EQ(healer.NextFor(Step(3)), Healer::Next::kWait);
  EXPECT_EQ(Wanted(healer, state, PiecesOf(PieceKind::kResult, 3, {0, 1})), Chunks({0}))
      << "the result of chunk 1 was here";
  EXPECT_TRUE(state->open.HasResult(ChunkId(0)));
  EXPECT_EQ(healer.NextFor(Step(3)), Healer::Next::kApply);
  EXPECT_FALSE(healer.CatchesUp(Step(4)));
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kBase);
}

// The record of the step comes with it: what we would make of our own view could be wrong.
TEST(Healer, CatchingUpAsksForTheResultOfChunkZeroAlsoWhereItIsHeld) {
  Healer healer = HealerFor(PlanFor(HealBy::kCatchUp), Bits({1, 1}));
  std::vector<ChunkId> asked;
  for (const Send& send : Of<Send>(healer.Ask({kDonor})))
    for (ChunkId c : std::get<Fetch>(send.message).chunks) asked.push_back(c);
  EXPECT_EQ(asked, Chunks({0}));
  EXPECT_EQ(healer.NextFor(Step(3)), Healer::Next::kWait);
}

TEST(Healer, AtTheBaseTheDoneResultsAreFetchedAndThenTheCoordinatorIsTold) {
  HealPlan plan = PlanFor(HealBy::kHold);
  plan.done = Bits({1, 1});
  Healer healer = HealerFor(plan);
  std::optional<HeldState> state = StateAt(4);
  ASSERT_EQ(healer.NextFor(Step(4)), Healer::Next::kBase);
  healer.ReachBase(Bits({0, 1}));
  EXPECT_TRUE(healer.at_base());
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kWait);
  EXPECT_EQ(Wanted(healer, state, PiecesOf(PieceKind::kResult, 4, {0, 1})), Chunks({0}))
      << "chunk 1's is held";
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kTellBase);
  healer.Told();
  EXPECT_EQ(healer.NextFor(Step(4)), Healer::Next::kWait) << "it is told once";
}

struct PiecesCase {
  const char* name;
  MemberId from;
  int64_t lineage;
  Fate fate;
};

class PiecesThatCome : public testing::TestWithParam<PiecesCase> {};

TEST_P(PiecesThatCome, AreCheckedBeforeTheyChangeAnything) {
  Healer healer = HealerFor(PlanFor(HealBy::kCatchUp));
  std::optional<HeldState> state = StateAt(3);
  Pieces pieces = PiecesOf(PieceKind::kResult, 3, {0});
  pieces.lineage = LineageNumber(GetParam().lineage);
  Outcome out;
  healer.Handle(GetParam().from, pieces, state, out);
  EXPECT_EQ(out.fate, GetParam().fate);
  EXPECT_EQ(state->open.HasResult(ChunkId(0)), out.fate == Fate::kTaken);
}

INSTANTIATE_TEST_SUITE_P(
    Healer, PiecesThatCome,
    testing::Values(PiecesCase{"from_the_donor", kDonor, 3, Fate::kTaken},
                    PiecesCase{"from_a_stranger", NameOf("worker-9"), 3, Fate::kRefused},
                    PiecesCase{"of_another_lineage", kDonor, 2, Fate::kRefused}),
    [](const auto& test) { return test.param.name; });

TEST(Healer, TheDonorsRecordIsKeptForTheStepThatIsCaughtUp) {
  for (int64_t of_step : {2, 3}) {
    Healer healer = HealerFor(PlanFor(HealBy::kCatchUp));
    std::optional<HeldState> state = StateAt(3);
    Pieces pieces = PiecesOf(PieceKind::kResult, 3, {0});
    pieces.record.emplace().step = Step(of_step);
    Wanted(healer, state, pieces);
    EXPECT_EQ(std::move(state->open).Close().record.has_value(), of_step == 3);
  }
}

TEST(Healer, OnlyThePlansMembersAreNamed) {
  const Healer healer = HealerFor(PlanFor(HealBy::kHold));
  EXPECT_TRUE(healer.Names(kDonor));
  EXPECT_FALSE(healer.Names(NameOf("worker-9")));
}

}  // namespace
}  // namespace muster
