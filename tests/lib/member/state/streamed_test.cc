// What members of a job do whose data is a stream (docs/decisions/0112-streams.md). Whole runs are
// the simulator's.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/member/state/member.h"
#include "tests/lib/member/state/outcome_of.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const MemberId kWorker0{"worker-0", {1, 1}}, kWorker1{"worker-1", {2, 2}};
const MemberId kServer0{"server-0", {3, 3}};
const ChunkId kZero(0), kOne(1);

MemberConfig ConfigOf(const MemberId& id, Sync sync = Sync::kAllreduce) {
  MemberConfig config;
  config.job = "job";
  config.id = id;
  config.role = id.name[0] == 's' ? Role::kServer : Role::kWorker;
  config.chunks.assign(2, TensorKind::kParameter);
  config.training.batch = 2;
  config.training.lanes = 2;
  config.training.sync = sync;
  config.training.on_nan = OnNan::kContinue;
  config.training.stream = StreamFrom::kFolder;
  config.environment.samples = kMostSamples;
  return config;
}

// `members`, of which the chunks belong to `owners` and the lanes to `holders`.
View ViewOf(int64_t number, int64_t first_step, const std::vector<MemberId>& members,
            std::vector<int32_t> owners, std::vector<int32_t> holders) {
  View view;
  view.job = "job";
  view.number = ViewNumber(number);
  view.lineage = LineageNumber(1);
  for (const MemberId& id : members) {
    ViewMember member;
    member.id = id;
    member.role = id.name[0] == 's' ? Role::kServer : Role::kWorker;
    view.members.push_back(member);
  }
  view.owner_of = std::move(owners);
  view.lanes.holder_of = view.first_lanes.holder_of = std::move(holders);
  view.first_step = Step(first_step);
  view.first_done = {false, false};
  view.end = Step(int64_t{1} << 39);
  return view;
}

HealPlan PlanOf(const View& view, std::vector<HealBy> how) {
  HealPlan plan;
  plan.lineage = view.lineage;
  plan.base = view.first_step;
  plan.members = view.members;
  plan.how = std::move(how);
  plan.values_from = plan.owner_of = view.owner_of;
  plan.slots_from = plan.catch_up_from = plan.done_from = {-1, -1};
  plan.done = {false, false};
  plan.first_lanes = view.first_lanes;
  return plan;
}

ResultMeta Meta() { return {2, 1.0, 0, 0}; }

class Streamed {
 public:
  explicit Streamed(MemberConfig config) : member(std::move(config)) {}

  Outcome Coordinator(FromCoordinator message) {
    return member.Handle(CoordinatorSays{std::move(message)});
  }
  Outcome Peer(const MemberId& from, PeerMessage message) {
    return member.Handle(PeerSays{from, std::move(message)});
  }
  Outcome Told(uint64_t positions, std::optional<uint64_t> end = std::nullopt) {
    return Coordinator(StreamIs{TermNumber(), positions, end, {}});
  }
  void Heal(const View& view, const HealPlan& plan) {
    Coordinator(Seal{TermNumber(), view.number});
    const Outcome healing = Coordinator(muster::Heal{TermNumber(), view.number, plan});
    for (const Abandon& abandon : Of<Abandon>(healing)) member.Handle(Abandoned{abandon.id, 0});
    if (!Of<Make>(healing).empty()) member.Handle(Made{});
  }
  Outcome Enter(const View& view, std::vector<HealBy> how) {
    Heal(view, PlanOf(view, std::move(how)));
    return Coordinator(Activate{view});
  }
  // Alone, from its lanes on; what follows when the step is applied.
  Outcome RunStep(const Compute& compute) {
    member.Handle(Ready{compute.id, {kZero, kOne}, {{{0, 2}, 2, 1.0, 0}}});
    for (const ChunkId chunk : {kZero, kOne})
      applies = Of<Apply>(member.Handle(Summed{compute.step, chunk, Meta()}));
    EXPECT_THAT(applies, SizeIs(1));
    return member.Handle(Applied{compute.step});
  }

  Member member;
  std::vector<Apply> applies;
};

// The only worker, at state(step).
Outcome Alone(Streamed& streamed, int64_t step = 0, HealBy how = HealBy::kMake) {
  return streamed.Enter(ViewOf(1, step, {kWorker0}, {0, 0}, {0, 0}), {how});
}

TEST(Streamed, NoLaneIsRunOfAStepThatIsNotKnown) {
  Streamed streamed(ConfigOf(kWorker0));
  EXPECT_THAT(Of<Compute>(Alone(streamed)), IsEmpty());
  EXPECT_TRUE(streamed.member.awaits_stream());
  EXPECT_EQ(streamed.member.Phase(), "waiting for more of the stream");
  EXPECT_THAT(streamed.Told(2).actions, IsEmpty()) << "it may be the last step, and nobody knows";
  const auto first = Of<Compute>(streamed.Told(3));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].step, Step(0));
  EXPECT_EQ(first[0].samples, kMostSamples);
  EXPECT_FALSE(first[0].next_is_known);
  EXPECT_FALSE(streamed.member.awaits_stream());
  EXPECT_THAT(streamed.Told(6).actions, IsEmpty()) << "its lanes run already";
  const auto next = Of<Compute>(streamed.RunStep(first[0]));
  ASSERT_THAT(next, SizeIs(1)) << "that became known meanwhile";
  EXPECT_EQ(next[0].step, Step(1));
  EXPECT_FALSE(next[0].next_is_known);
}

TEST(Streamed, WhatIsReadAheadIsKnown) {
  Streamed streamed(ConfigOf(kWorker0));
  streamed.Told(5);
  const auto first = Of<Compute>(Alone(streamed));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_TRUE(first[0].next_is_known);
}

TEST(Streamed, EndsWithItsDataWhateverTheViewSays) {
  MemberConfig config = ConfigOf(kWorker0);
  config.fingerprint_every = 1000;
  Streamed streamed(std::move(config));
  streamed.Told(3, 3);
  const auto first = Of<Compute>(Alone(streamed));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].samples, 3u);
  const auto last = Of<Compute>(streamed.RunStep(first[0]));
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_FALSE(last[0].next_is_known);
  const Outcome end = streamed.RunStep(last[0]);
  EXPECT_EQ(streamed.applies.at(0).samples, 3u);
  EXPECT_TRUE(streamed.member.halted());
  EXPECT_THAT(Of<Compute>(end), IsEmpty());
  const auto boundary = Of<StepBoundary>(end);
  ASSERT_THAT(boundary, SizeIs(1));
  EXPECT_EQ(boundary[0].step, Step(2));
  EXPECT_TRUE(boundary[0].fingerprint);
  EXPECT_THAT(boundary[0].part, ElementsAre(kZero, kOne));
  const auto records =
      Told<Records>(streamed.member.Handle(StepBoundaryDone{Step(2), FingerprintPart{1, 2, true}}));
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_EQ(records[0].records.at(0).samples, (SampleRange{0, 2, 1}));
}

TEST(Streamed, WhoLearnsAtTheLastStateThatItIsTheLastSavesItThen) {
  Streamed streamed(ConfigOf(kWorker0));
  EXPECT_THAT(Of<StepBoundary>(Alone(streamed, 2, HealBy::kLoad)), IsEmpty());
  EXPECT_FALSE(streamed.member.halted());
  const Outcome told = streamed.Told(3, 3);
  EXPECT_TRUE(streamed.member.halted());
  ASSERT_THAT(Of<StepBoundary>(told), SizeIs(1));
  EXPECT_EQ(Of<StepBoundary>(told)[0].step, Step(2));
  EXPECT_THAT(Of<StepBoundary>(told)[0].part, ElementsAre(kZero, kOne));
  EXPECT_THAT(streamed.Told(3, 3).actions, IsEmpty()) << "once is enough";
}

TEST(Streamed, AStateAtWhichMoreIsKnownIsNotSavedForThat) {
  Streamed streamed(ConfigOf(kWorker0));
  Alone(streamed, 2, HealBy::kLoad);
  EXPECT_THAT(Of<StepBoundary>(streamed.Told(7)), IsEmpty());
}

TEST(Streamed, TheLastStepOfTheJobNeedsNoSampleMore) {
  MemberConfig config = ConfigOf(kWorker0);
  config.training.steps = 1;
  Streamed streamed(std::move(config));
  Alone(streamed);
  const auto only = Of<Compute>(streamed.Told(2));
  ASSERT_THAT(only, SizeIs(1));
  streamed.RunStep(only[0]);
  EXPECT_TRUE(streamed.member.halted());
}

// A view in whose first step the first worker runs no lane: the others' results alone carry it on.
View LanesElsewhere() {
  View view = ViewOf(1, 0, {kWorker0, kWorker1}, {0, 1}, {0, 1});
  view.first_lanes.holder_of = {1, 1};
  return view;
}

TEST(Streamed, NoStepIsAppliedBeforeItIsKnown) {
  Streamed streamed(ConfigOf(kWorker0));
  streamed.Enter(LanesElsewhere(), {HealBy::kMake, HealBy::kMake});
  streamed.member.Handle(PeerUp{kWorker1});
  const Partials partials{
      LineageNumber(1), ViewNumber(1), Step(0), {{kZero, {{{0, 2}, 2, 1.0, 0}}}}, {}};
  EXPECT_THAT(Of<FoldIn>(streamed.Peer(kWorker1, partials)), SizeIs(1));
  streamed.member.Handle(Summed{Step(0), kZero, Meta()});
  const Results results{LineageNumber(1), ViewNumber(1), Step(0), {{kOne, Meta()}}, {}};
  EXPECT_THAT(Of<Apply>(streamed.Peer(kWorker1, results)), IsEmpty());
  const auto applied = Of<Apply>(streamed.Told(2, 2));
  ASSERT_THAT(applied, SizeIs(1));
  EXPECT_EQ(applied[0].samples, 2u);
  EXPECT_TRUE(streamed.member.applies_last_step());
}

TEST(Streamed, ServersApplyNoStepBeforeItIsKnown) {
  Streamed streamed(ConfigOf(kServer0, Sync::kServer));
  streamed.Enter(ViewOf(1, 0, {kServer0, kWorker1}, {0, 0}, {1, 1}),
                 {HealBy::kMake, HealBy::kMake});
  streamed.member.Handle(PeerUp{kWorker1});
  const Partials partials{LineageNumber(1),
                          ViewNumber(1),
                          Step(0),
                          {{kZero, {{{0, 2}, 2, 1.0, 0}}}, {kOne, {{{0, 2}, 2, 1.0, 0}}}},
                          {}};
  EXPECT_THAT(Of<FoldIn>(streamed.Peer(kWorker1, partials)), SizeIs(2));
  for (const ChunkId chunk : {kZero, kOne})
    EXPECT_THAT(Of<ApplyChunks>(streamed.member.Handle(Summed{Step(0), chunk, Meta()})), IsEmpty());
  const auto apply = Of<ApplyChunks>(streamed.Told(3));
  ASSERT_THAT(apply, SizeIs(1));
  EXPECT_THAT(apply[0].chunks, ElementsAre(kZero, kOne));
  EXPECT_THAT(Of<ApplyChunks>(streamed.Told(4)), IsEmpty());
  streamed.member.Handle(ChunksApplied{Step(0), {{kZero, Meta()}, {kOne, Meta()}}});
  EXPECT_EQ(streamed.member.step(), Step(1));
  EXPECT_TRUE(streamed.member.awaits_stream());
}

// Sums that were complete when the view changed are applied in the next one, and not before.
TEST(Streamed, ServersApplyNoStepThatTheyDoNotKnowAsAViewBegins) {
  Streamed streamed(ConfigOf(kServer0, Sync::kServer));
  const std::vector<MemberId> members = {kServer0, kWorker1};
  streamed.Enter(ViewOf(1, 0, members, {0, 0}, {1, 1}), {HealBy::kMake, HealBy::kMake});
  for (const ChunkId chunk : {kZero, kOne}) streamed.member.Handle(Summed{Step(0), chunk, Meta()});
  View next = ViewOf(2, 0, members, {0, 0}, {1, 1});
  next.first_done = {true, true};
  EXPECT_THAT(Of<ApplyChunks>(streamed.Enter(next, {HealBy::kHold, HealBy::kHold})), IsEmpty());
  EXPECT_THAT(Of<ApplyChunks>(streamed.Told(3)), SizeIs(1));
}

TEST(Streamed, HealingGoesOnWhenTheStepIsKnown) {
  Streamed streamed(ConfigOf(kWorker0));
  streamed.Enter(LanesElsewhere(), {HealBy::kMake, HealBy::kMake});
  const View next = ViewOf(2, 1, {kWorker0, kWorker1}, {0, 1}, {0, 1});
  HealPlan plan = PlanOf(next, {HealBy::kCatchUp, HealBy::kHold});
  plan.catch_up_from = {1, 1};
  streamed.Heal(next, plan);
  Pieces pieces{ViewNumber(2),
                LineageNumber(1),
                PieceKind::kResult,
                0,
                Step(0),
                {{kZero, Meta()}, {kOne, Meta()}},
                {},
                {}};
  pieces.record = StepRecord();
  pieces.record->lineage = LineageNumber(1);
  EXPECT_THAT(Of<Apply>(streamed.Peer(kWorker1, pieces)), IsEmpty());
  ASSERT_THAT(Of<Apply>(streamed.Told(3)), SizeIs(1));
  EXPECT_THAT(Told<HoldsBase>(streamed.member.Handle(Applied{Step(0)})), SizeIs(1));
  EXPECT_THAT(Of<Compute>(streamed.Coordinator(Activate{next})), IsEmpty());
  EXPECT_THAT(Of<Compute>(streamed.Told(5)), SizeIs(1));
}

TEST(Streamed, EachSessionBeginsWithHowMuchIsKnown) {
  Streamed streamed(ConfigOf(kWorker0));
  const auto told_of = [&] {
    return Told<Join>(streamed.member.Handle(CoordinatorUp{})).at(0).stream_positions;
  };
  EXPECT_EQ(told_of(), 0u);
  streamed.Told(7);
  EXPECT_EQ(told_of(), 7u);
  streamed.Told(6);
  EXPECT_EQ(told_of(), 7u) << "nothing that was known is forgotten";
  EXPECT_EQ(streamed.Coordinator(StreamIs{TermNumber(5), 8, std::nullopt, {}}).fate, Fate::kTaken);
  EXPECT_EQ(streamed.Told(9).fate, Fate::kDropped) << "of a coordinator that has a successor";
  EXPECT_EQ(told_of(), 8u);
}

TEST(Streamed, AJobWithoutAStreamIsToldOfNone) {
  MemberConfig config = ConfigOf(kWorker0);
  config.training.stream.reset();
  config.environment.samples = 100;
  Streamed streamed(std::move(config));
  const auto first = Of<Compute>(Alone(streamed));
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].samples, 100u);
  EXPECT_TRUE(first[0].next_is_known);
  EXPECT_EQ(streamed.Told(3, 3).fate, Fate::kDropped);
  EXPECT_THAT(Of<Compute>(streamed.RunStep(first[0])), SizeIs(1));
}

}  // namespace
}  // namespace muster
