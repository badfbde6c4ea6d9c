#include "coordinator/state/plan.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kChunks = 4;

ChunkSet Set(const std::vector<int>& bits) { return ChunkSet(bits.begin(), bits.end()); }

LocalState At(int64_t step, std::vector<int> lanes = {},
              ChunkSet results = ChunkSet(kChunks, false)) {
  LocalState h;
  h.has_state = true;
  h.lineage = LineageNumber(1);
  h.step = Step(step);
  h.results = results;
  h.sums = results;
  for (int l : lanes) h.lanes.emplace_back(l);
  return h;
}
LocalState WithPrevious(LocalState h) {
  h.previous_results = true;
  return h;
}

Candidate Worker(const std::string& name, std::optional<int> rank, LocalState local_state,
                 const std::string& node = "host") {
  Candidate c;
  c.member = {{name, {1, 1}}, Role::kWorker, node, name, Rank(-1), -1};
  if (rank) c.rank = Rank(*rank);
  c.local_state = std::move(local_state);
  return c;
}
Candidate Server(const std::string& name, std::optional<int> rank, LocalState local_state) {
  Candidate c = Worker(name, rank, std::move(local_state));
  c.member.role = Role::kServer;
  return c;
}

PlanInput InputOf(std::vector<Candidate> candidates, int32_t lanes = 6) {
  PlanInput input;
  input.job = "job";
  input.number = ViewNumber(7);
  input.lanes = lanes;
  input.chunks = kChunks;
  input.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  input.candidates = std::move(candidates);
  input.rewind_cause = "a loss";
  input.end = Step(100);
  return input;
}
PlanInput ServerInputOf(std::vector<Candidate> candidates, int32_t lanes = 6) {
  PlanInput input = InputOf(std::move(candidates), lanes);
  input.sync = Sync::kServer;
  return input;
}

std::vector<std::string> Names(const Planned& planned) {
  std::vector<std::string> names;
  for (const ViewMember& m : planned.view.members) names.push_back(m.id.name);
  return names;
}
std::vector<int32_t> Numbers(const std::vector<LaneId>& lanes) {
  std::vector<int32_t> numbers;
  for (LaneId l : lanes) numbers.push_back(l.value());
  return numbers;
}

// ---- ranks

TEST(Ranks, SurvivorsKeepTheirsAndJoinersGetTheLowestFree) {
  const Planned planned = PlanView(
      InputOf({Worker("a", std::nullopt, {}), Worker("b", 2, At(5)), Worker("c", 0, At(5))}));
  EXPECT_THAT(Names(planned), ElementsAre("c", "a", "b"));
}

TEST(Ranks, OneThatIsTooHighTakesTheLowestFree) {
  const Planned planned = PlanView(InputOf({Worker("a", 3, At(5)), Worker("b", 1, At(5))}));
  EXPECT_THAT(Names(planned), ElementsAre("a", "b"));
}

TEST(Ranks, WhoHoldsAStateComesBeforeWhoDoesNot) {
  const Planned planned = PlanView(InputOf(
      {Worker("a", std::nullopt, {}), Worker("b", std::nullopt, {}), Worker("c", 5, At(5))}, 1));
  EXPECT_THAT(Names(planned), ElementsAre("c", "a", "b"));
  EXPECT_EQ(planned.heal.base, Step(5));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kHold, HealBy::kNothing, HealBy::kNothing));
}

TEST(Ranks, ServersGoByNameWhateverTheirRankWas) {
  const Planned planned =
      PlanView(ServerInputOf({Server("server-1", 0, At(5)), Server("server-0", std::nullopt, At(5)),
                              Worker("worker-0", 0, At(5))}));
  EXPECT_THAT(Names(planned), ElementsAre("worker-0", "server-0", "server-1"));
  EXPECT_EQ(planned.view.members[1].rank, Rank(0));
  EXPECT_EQ(planned.view.members[2].rank, Rank(1));
}

TEST(Ranks, LocalRanksAreDensePerHost) {
  const Planned planned = PlanView(InputOf(
      {Worker("a", 0, At(5), "x"), Worker("b", 1, At(5), "y"), Worker("c", 2, At(5), "x")}));
  EXPECT_EQ(planned.view.members[0].local_rank, 0);
  EXPECT_EQ(planned.view.members[1].local_rank, 0);
  EXPECT_EQ(planned.view.members[2].local_rank, 1);
}

// ---- base with all-reduce

TEST(Base, IsTheHighestStepOfASurvivorAndTheOthersCatchUp) {
  const Planned planned =
      PlanView(InputOf({Worker("a", 0, At(5, {0, 1}, Set({1, 1, 0, 0}))),
                        Worker("b", 1, WithPrevious(At(6))), Worker("c", std::nullopt, {})}));
  EXPECT_FALSE(planned.rewind.has_value());
  EXPECT_EQ(planned.heal.base, Step(6));
  EXPECT_EQ(planned.view.first_step, Step(6));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kCatchUp, HealBy::kHold, HealBy::kCopy));
  EXPECT_THAT(planned.heal.catch_up_from, Each(1))
      << "rather from who has finished the step: the record comes with it";
  EXPECT_THAT(planned.heal.values_from, Each(1));
  EXPECT_THAT(planned.heal.slots_from, Each(1));
}

TEST(Base, WhoIsFartherBehindCopies) {
  const Planned planned =
      PlanView(InputOf({Worker("a", 0, At(3)), Worker("b", 1, WithPrevious(At(6)))}));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kCopy, HealBy::kHold));
}

TEST(Base, WithoutTheResultsOfTheStepBeforeNobodyCatchesUp) {
  const Planned planned = PlanView(InputOf({Worker("a", 0, At(5)), Worker("b", 1, At(6))}));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kCopy, HealBy::kHold));
}

TEST(Base, CopiesComeFromAllWhoHoldIt) {
  const Planned planned = PlanView(
      InputOf({Worker("a", 0, At(5)), Worker("b", 1, At(5)), Worker("c", std::nullopt, {})}));
  EXPECT_THAT(planned.heal.values_from, ElementsAre(0, 1, 0, 1));
}

TEST(Base, ResultsOfTheOpenStepAreDone) {
  const Planned planned = PlanView(InputOf({Worker("a", 0, At(5, {0, 1, 2}, Set({1, 0, 0, 0}))),
                                            Worker("b", 1, At(5, {3, 4, 5}, Set({0, 0, 1, 0})))}));
  EXPECT_EQ(planned.heal.done, Set({1, 0, 1, 0}));
  EXPECT_THAT(planned.heal.done_from, ElementsAre(0, -1, 1, -1));
  EXPECT_EQ(planned.view.first_done, Set({1, 0, 1, 0}));
}

TEST(Base, AStateOfAVoidedLineageDoesNotCount) {
  PlanInput input = InputOf({Worker("a", 0, At(9)), Worker("b", 1, At(5))});
  input.lineages.push_back({LineageNumber(2), LineageNumber(1), Step(4), "a loss"});
  input.candidates[1].local_state.lineage = LineageNumber(2);
  const Planned planned = PlanView(input);
  EXPECT_EQ(planned.heal.base, Step(5));
  EXPECT_EQ(planned.heal.lineage, LineageNumber(2));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kCopy, HealBy::kHold));
}

// ---- lanes

TEST(Lanes, StayWithWhoHasFoldedThem) {
  const Planned planned =
      PlanView(InputOf({Worker("a", 0, At(5, {0, 1})), Worker("c", 2, At(5, {4, 5}))}));
  EXPECT_THAT(planned.view.first_lanes.holder_of, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(Numbers(planned.reassigned), ElementsAre(2, 3));
  EXPECT_THAT(planned.view.lanes.holder_of, ElementsAre(0, 0, 0, 1, 1, 1));
}

TEST(Lanes, AJoinerGetsOnlyWhatNobodyHasButItsPartFromTheNextStep) {
  const Planned planned =
      PlanView(InputOf({Worker("a", 0, At(5, {0, 1, 2})), Worker("b", 1, At(5, {3, 4, 5})),
                        Worker("c", std::nullopt, {})}));
  EXPECT_THAT(planned.view.first_lanes.holder_of, ElementsAre(0, 0, 0, 1, 1, 1));
  EXPECT_THAT(planned.reassigned, IsEmpty());
  EXPECT_THAT(planned.view.lanes.holder_of, ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(Lanes, OfAMemberBehindTheBaseAreOfAnotherStep) {
  const Planned planned = PlanView(InputOf({Worker("a", 0, At(5, {0, 1, 2}, Set({1, 1, 1, 1}))),
                                            Worker("b", 1, WithPrevious(At(6, {3})))}));
  EXPECT_THAT(Numbers(planned.reassigned), ElementsAre(0, 1, 2, 4, 5));
  EXPECT_EQ(planned.view.first_lanes.holder_of[3], 1);
}

TEST(Lanes, AreNotRunAgainWhenEverySumIsComplete) {
  const Planned planned = PlanView(
      InputOf({Worker("a", 0, At(5, {0, 1}, Set({1, 1, 1, 1}))), Worker("c", 2, At(5, {4, 5}))}));
  EXPECT_EQ(planned.view.first_done, Set({1, 1, 1, 1}));
  EXPECT_THAT(planned.reassigned, IsEmpty());
  EXPECT_THAT(planned.view.first_lanes.holder_of, Each(testing::Ge(0))) << "but each has a holder";
}

TEST(Lanes, OfOneThatWasGivenUpAndCameBackLateAreOthers) {
  const Planned planned = PlanView(InputOf(
      {Worker("a", 0, At(5, {0, 1, 2, 3, 4, 5})), Worker("late", std::nullopt, At(5, {2, 3}))}));
  EXPECT_THAT(planned.view.first_lanes.holder_of, Each(0));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kHold, HealBy::kCopy));
}

TEST(Lanes, MoreWorkersThanLanesLeaveSpares) {
  const Planned planned = PlanView(InputOf(
      {Worker("a", 0, At(5, {0})), Worker("b", 1, At(5, {1})), Worker("c", std::nullopt, {})}, 2));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kHold, HealBy::kHold, HealBy::kNothing));
  EXPECT_THAT(planned.view.owner_of, ElementsAre(0, 1, 0, 1)) << "a spare owns nothing";
}

// ---- base with servers

TEST(ServerBase, IsTheLowestStepOfTheServersWithWhatIsDoneOfIt) {
  const Planned planned =
      PlanView(ServerInputOf({Worker("w", 0, At(5)), Server("s0", 0, WithPrevious(At(6))),
                              Server("s1", 1, At(5, {}, Set({0, 0, 0, 1})))}));
  EXPECT_FALSE(planned.rewind.has_value());
  EXPECT_EQ(planned.heal.base, Step(5));
  EXPECT_THAT(planned.view.owner_of, ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(planned.heal.done, Set({1, 0, 1, 1}));
  EXPECT_THAT(planned.heal.done_from, ElementsAre(1, -1, 1, 2));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kHold, HealBy::kHold, HealBy::kHold));
}

TEST(ServerBase, TheLossOfAllWorkersIsNoRewind) {
  const Planned planned = PlanView(ServerInputOf(
      {Worker("w", std::nullopt, {}), Server("s0", 0, At(5)), Server("s1", 1, At(5))}));
  EXPECT_FALSE(planned.rewind.has_value());
  EXPECT_EQ(planned.heal.base, Step(5));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kCopy, HealBy::kHold, HealBy::kHold));
  EXPECT_THAT(planned.heal.values_from, ElementsAre(1, 2, 1, 2));
}

TEST(ServerBase, ACompleteSumThatWaitsForTheGlobalNormIsNotSummedAgain) {
  LocalState waits = At(5);
  waits.sums = Set({1, 0, 0, 0});
  const Planned planned = PlanView(
      ServerInputOf({Worker("w", 0, At(5)), Server("s0", 0, waits), Server("s1", 1, At(5))}));
  EXPECT_EQ(planned.view.first_done, Set({1, 0, 0, 0}));
  EXPECT_EQ(planned.heal.done, Set({0, 0, 0, 0}));
}

TEST(ServerBase, TheLossOfAServerIsARewindToTheCheckpoint) {
  PlanInput input = ServerInputOf(
      {Worker("w", 0, At(5)), Server("s0", 0, At(5)), Server("s1", std::nullopt, {})});
  Manifest checkpoint;
  checkpoint.lineage = LineageNumber(1);
  checkpoint.step = Step(4);
  input.checkpoint = checkpoint;
  const Planned planned = PlanView(input);
  ASSERT_TRUE(planned.rewind.has_value());
  EXPECT_EQ(*planned.rewind, (Lineage{LineageNumber(2), LineageNumber(1), Step(4), "a loss"}));
  EXPECT_THAT(planned.heal.how, Each(HealBy::kLoad));
  EXPECT_EQ(planned.heal.base, Step(4));
  EXPECT_EQ(planned.view.lineage, LineageNumber(2));
  EXPECT_EQ(Numbers(planned.reassigned).size(), 6u);
}

// ---- rewind and start

TEST(Rewind, WithoutACheckpointIsToTheBeginningMadeByTheHolderOfLaneZero) {
  const Planned planned =
      PlanView(InputOf({Worker("a", std::nullopt, {}), Worker("b", std::nullopt, {})}));
  ASSERT_TRUE(planned.rewind.has_value());
  EXPECT_EQ(planned.rewind->parent, LineageNumber(0));
  EXPECT_EQ(planned.rewind->fork, Step(0));
  EXPECT_THAT(planned.heal.how, ElementsAre(HealBy::kMake, HealBy::kCopy));
  EXPECT_THAT(planned.heal.values_from, Each(0));
}

TEST(Rewind, IsDoneWhenAskedForWhateverIsHeld) {
  PlanInput input = InputOf({Worker("a", 0, At(5)), Worker("b", 1, At(5))});
  input.must_rewind = true;
  EXPECT_TRUE(PlanView(input).rewind.has_value());
}

// ---- ancestry of checkpoints

Layout LayoutOf(int64_t elements) {
  return Layout::Make({{"w", {elements}, TensorKind::kParameter}}, 256 * 1024).value();
}

TEST(PlanFits, SoManyParametersAndNoMore) {
  constexpr int64_t kBillion = 1'000'000'000;
  EXPECT_TRUE(CheckPlanFits(LayoutOf(2 * kBillion), 2).ok());
  EXPECT_TRUE(CheckPlanFits(LayoutOf(5 * kBillion), 0).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(CheckPlanFits(LayoutOf(3 * kBillion), 2)));
}

TEST(OnAncestry, FollowsTheForks) {
  const std::vector<Lineage> lineages = {{LineageNumber(1), LineageNumber(0), Step(0), ""},
                                         {LineageNumber(2), LineageNumber(1), Step(8), ""},
                                         {LineageNumber(3), LineageNumber(1), Step(4), ""},
                                         {LineageNumber(4), LineageNumber(3), Step(6), ""}};
  EXPECT_TRUE(OnAncestry(lineages, LineageNumber(4), Step(9)));
  EXPECT_TRUE(OnAncestry(lineages, LineageNumber(3), Step(6))) << "state(fork) is the ancestor's";
  EXPECT_FALSE(OnAncestry(lineages, LineageNumber(3), Step(7)));
  EXPECT_TRUE(OnAncestry(lineages, LineageNumber(1), Step(4)));
  EXPECT_FALSE(OnAncestry(lineages, LineageNumber(1), Step(5)));
  EXPECT_FALSE(OnAncestry(lineages, LineageNumber(2), Step(8))) << "a voided branch";
  EXPECT_FALSE(OnAncestry({}, LineageNumber(1), Step(0)));
}

}  // namespace
}  // namespace muster::coordinator
