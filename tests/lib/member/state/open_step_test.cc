// What belongs to one open step.
#include "lib/member/state/open_step.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ChunkId kZero(0), kOne(1);

OpenStep StepWith(MemberConfig config) { return OpenStep(Shared(std::move(config)), Step(5)); }
OpenStep WorkerStep(bool buffer = false) {
  return StepWith(PartConfig(Role::kWorker, Sync::kAllreduce, true, buffer));
}
OpenStep ServerStep(bool clips, OnNan on_nan = OnNan::kContinue) {
  MemberConfig config = PartConfig(Role::kServer, Sync::kServer, clips);
  config.training.on_nan = on_nan;
  return StepWith(std::move(config));
}
Partial Leaf(int32_t lane) { return {{lane, lane + 1}, 1, 0.5, 0}; }
ResultMeta MetaWith(double squares) { return {2, 1.0, squares, 0}; }
ResultMeta NotFinite() { return {2, 1.0, 0, 0, false}; }

// ---- lanes

struct LanesCase {
  const char* name;
  std::vector<int32_t> before;  // lane map of the view before; empty: there was none
  std::vector<int32_t> now;
  std::vector<int> done;
  std::vector<int32_t> issued;  // asked of the train thread now
  std::vector<int32_t> all;     // held afterwards
};

class Lanes : public testing::TestWithParam<LanesCase> {};

TEST_P(Lanes, OnlyWhatIsMissingIsIssued) {
  const LanesCase& c = GetParam();
  OpenStep step = WorkerStep();
  if (!c.before.empty()) {
    ASSERT_TRUE(step.IssueLanes(PartSeat({0, 1}, c.before), 1).has_value());
  }
  Seat seat = PartSeat({0, 1}, c.now);
  seat.view.first_step = Step(5);
  seat.view.first_done = Bits(c.done);
  const std::optional<Compute> compute = step.IssueLanes(seat, 2);
  std::vector<LaneId> issued = compute ? compute->lanes : std::vector<LaneId>();
  EXPECT_EQ(issued, std::vector<LaneId>(c.issued.begin(), c.issued.end()));
  EXPECT_EQ(step.lanes(), std::vector<LaneId>(c.all.begin(), c.all.end()));
  if (compute) {
    EXPECT_EQ(compute->subtrees, Subtrees(step.lanes(), 2)) << "of all lanes held in the step";
  }
}

INSTANTIATE_TEST_SUITE_P(
    OpenStep, Lanes,
    testing::Values(LanesCase{"the_first", {}, {0, 1}, {0, 0}, {0}, {0}},
                    LanesCase{"none_is_ours", {}, {1, 1}, {0, 0}, {}, {}},
                    LanesCase{"one_more", {1, 0}, {0, 0}, {0, 0}, {0}, {0, 1}},
                    LanesCase{"nothing_new", {0, 1}, {0, 1}, {0, 0}, {}, {0}},
                    LanesCase{"some_chunks_are_done", {}, {0, 1}, {1, 0}, {0}, {0}},
                    LanesCase{"every_chunk_is_done", {}, {0, 1}, {1, 1}, {}, {}}),
    [](const auto& test) { return test.param.name; });

TEST(OpenStep, ReadyCountsOnlyForTheComputeThatWasIssuedLast) {
  OpenStep step = WorkerStep();
  EXPECT_FALSE(step.Finish({0, {kZero}, {Leaf(0)}})) << "nothing was issued";
  step.IssueLanes(PartSeat({0, 1}, {0, 1}), 1);
  EXPECT_FALSE(step.Finish({2, {kZero}, {Leaf(0)}}));
  EXPECT_TRUE(step.Finish({1, {kZero}, {Leaf(0)}}));
  EXPECT_THAT(step.ReadyChunks(), ElementsAre(kZero));
  EXPECT_FALSE(step.computed());
  step.IssueLanes(PartSeat({0, 1}, {0, 0}), 2);
  EXPECT_THAT(step.ReadyChunks(), IsEmpty()) << "a lane was added";
  EXPECT_FALSE(step.Finish({1, {kZero}, {Leaf(0)}})) << "of before that";
  EXPECT_TRUE(step.Finish({2, {kZero, kOne}, {{{0, 2}, 2, 1.0, 0}}}));
  EXPECT_TRUE(step.computed());
}

TEST(OpenStep, ABufferChunkGoesOutFromLaneZeroAlone) {
  OpenStep first = WorkerStep(true), second = WorkerStep(true);
  first.IssueLanes(PartSeat({0, 1}, {0, 0}), 1);
  first.Finish({1, {kZero, kOne}, {{{0, 2}, 2, 1.0, 0}}});
  EXPECT_EQ(first.PartialsOf(kZero).at(0).node, (TreeNode{0, 2}));
  EXPECT_EQ(first.PartialsOf(kOne).at(0).node, (TreeNode{0, 1}));
  second.IssueLanes(PartSeat({0, 1}, {1, 0}), 1);
  second.Finish({1, {kZero, kOne}, {Leaf(1)}});
  EXPECT_EQ(second.PartialsOf(kZero).at(0).node, (TreeNode{1, 2}));
  EXPECT_THAT(second.PartialsOf(kOne), IsEmpty());
}

// ---- phases

// Chunk 0 is a parameter's, chunks 1 and 2 are of phases.
MemberConfig SyncConfig() {
  MemberConfig config = PartConfig(Role::kWorker, Sync::kAllreduce, true);
  config.chunks = {TensorKind::kParameter, TensorKind::kPhase, TensorKind::kPhase};
  config.layers = {{ChunkId(1), "bn1"}, {ChunkId(2), "bn2"}};
  config.training.sync_batch_norm = true;
  return config;
}

TEST(Phases, TotalsAreGivenOnceAndAllOfThemWithNewLanes) {
  OpenStep step = StepWith(SyncConfig());
  step.AddResult({ChunkId(1), {}}, {});
  EXPECT_FALSE(step.TakeTotals()) << "no lane waits";
  std::optional<Compute> compute = step.IssueLanes(PartSeat({0, 1, 1}, {0, 1}), 1);
  ASSERT_TRUE(compute);
  EXPECT_THAT(compute->totals, ElementsAre(ChunkId(1)));
  EXPECT_FALSE(step.TakeTotals()) << "it came with the lanes";
  step.AddResult({ChunkId(2), {}}, {});
  step.AddResult({ChunkId(2), {}}, {});
  step.AddResult({ChunkId(0), {}}, {});
  const std::optional<GiveTotals> given = step.TakeTotals();
  ASSERT_TRUE(given);
  EXPECT_EQ(given->step, Step(5));
  EXPECT_THAT(given->chunks, ElementsAre(ChunkId(2)));
  EXPECT_FALSE(step.TakeTotals());
  Seat seat = PartSeat({0, 1, 1}, {0, 0});
  seat.view.first_step = Step(5);
  seat.view.first_done = Bits({0, 1, 1});
  compute = step.IssueLanes(seat, 2);
  ASSERT_TRUE(compute);
  EXPECT_THAT(compute->lanes, ElementsAre(LaneId(1)));
  EXPECT_THAT(compute->totals, ElementsAre(ChunkId(1), ChunkId(2)));
  EXPECT_FALSE(step.TakeTotals());
}

TEST(Phases, TheirSumsWeighNothingAndAreToldAgainWithNewLanes) {
  OpenStep step = StepWith(SyncConfig());
  step.IssueLanes(PartSeat({0, 0, 0}, {0, 1}), 1);
  EXPECT_TRUE(step.Finish({1, {ChunkId(1)}, {{{0, 1}, 0, 0, 0}}}));
  EXPECT_THAT(step.ReadyChunks(), ElementsAre(ChunkId(1)));
  EXPECT_TRUE(step.Finish({1, {ChunkId(0)}, {Leaf(0)}}));
  EXPECT_EQ(step.PartialsOf(ChunkId(0)).at(0).weight, 1);
  ASSERT_EQ(step.PartialsOf(ChunkId(1)).size(), 1u);
  const Partial terms = step.PartialsOf(ChunkId(1))[0];
  EXPECT_EQ(terms.node, (TreeNode{0, 1}));
  EXPECT_EQ(terms.weight, 0);
  EXPECT_EQ(terms.loss, 0);
  step.IssueLanes(PartSeat({0, 0, 0}, {0, 0}), 2);
  EXPECT_THAT(step.ReadyChunks(), IsEmpty()) << "their sums are over other lanes";
}

// People are told whom a lane waits for.
TEST(Phases, WhoIsWaitedForIsTheOwnerOrWhoHasBroughtNothing) {
  OpenStep step = StepWith(SyncConfig());
  const Seat seat = PartSeat({0, 0, 1}, {0, 1});
  step.BeginIn(seat);
  step.IssueLanes(seat, 1);
  EXPECT_FALSE(step.AwaitedPhase()) << "our lanes run";
  step.Finish({1, {ChunkId(1)}, {{{0, 1}, 0, 0, 0}}});
  EXPECT_EQ(step.AwaitedPhase(), ChunkId(1));
  ASSERT_TRUE(step.Fold(0, {ChunkId(1), step.PartialsOf(ChunkId(1))}, true).ok());
  EXPECT_EQ(step.MissingOf(seat, ChunkId(1)), 1) << "it is ours, and worker-1 brings its part";
  step.AddResult({ChunkId(1), {}}, {});
  EXPECT_FALSE(step.AwaitedPhase());
  step.Finish({1, {ChunkId(2)}, {{{0, 1}, 0, 0, 0}}});
  EXPECT_EQ(step.AwaitedPhase(), ChunkId(2));
  EXPECT_EQ(step.MissingOf(seat, ChunkId(2)), 1) << "its owner";
}

TEST(Phases, TellNeitherWeightNorLoss) {
  const ConfigPtr config = [] {
    MemberConfig phases_first = SyncConfig();
    std::swap(phases_first.chunks[0], phases_first.chunks[2]);
    return Shared(std::move(phases_first));
  }();
  OpenStep step(config, Step(5));
  for (int32_t c = 0; c < 2; ++c) step.AddResult({ChunkId(c), {}}, {});
  step.AddResult({ChunkId(2), {6, 3.5, 0, 0}}, {});
  const StepRecord record = RecordOf(*config, KnownSteps(*config), PartSeat({0, 0, 0}, {0, 1}).view,
                                     LineageNumber(4), std::move(step).Close());
  EXPECT_EQ(record.weight, 6);
  EXPECT_EQ(record.loss, 3.5);
}

// ---- sums

TEST(OpenStep, AFoldNamesWhatCameAndTheTotalAtTheEnd) {
  OpenStep step = WorkerStep();
  step.BeginIn(PartSeat({0, 1}, {0, 1}));
  const absl::StatusOr<FoldIn> one = step.Fold(1, {kZero, {Leaf(1)}}, false);
  ASSERT_TRUE(one.ok());
  EXPECT_THAT(one->arrived, ElementsAre(TreeNode{1, 2}));
  EXPECT_FALSE(one->total.has_value());
  EXPECT_TRUE(absl::IsAlreadyExists(step.Fold(1, {kZero, {Leaf(1)}}, false).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(step.Fold(1, {kOne, {Leaf(0)}}, false).status()));
  const absl::StatusOr<FoldIn> both = step.Fold(0, {kZero, {Leaf(0)}}, true);
  ASSERT_TRUE(both.ok());
  EXPECT_TRUE(both->own);
  EXPECT_THAT(both->folds, ElementsAre(Fold{{0, 1}, {1, 2}, {0, 2}}));
  ASSERT_TRUE(both->total.has_value());
  EXPECT_EQ(both->total->weight, 2);
}

TEST(OpenStep, IncompleteSumsEndWithTheViewAndCompleteOnesDoNot) {
  for (const Role role : {Role::kWorker, Role::kServer}) {
    OpenStep step = StepWith(PartConfig(role, Sync::kServer, false));
    step.BeginIn(PartSeat({0, 0}, {0, 1}));
    // Lanes that a worker has folded stay; what was added of others' does not.
    if (role == Role::kWorker) step.IssueLanes(PartSeat({0, 0}, {0, 1}), 1);
    ASSERT_TRUE(step.Fold(1, {kZero, {Leaf(1)}}, false).ok());
    step.AddSum(kOne, MetaWith(0));
    step.BeginIn(PartSeat({0, 0}, {0, 1}));
    EXPECT_FALSE(step.HasPartialsFrom(1, kZero));
    EXPECT_THAT(step.CompleteSums(), ElementsAre(kOne));
  }
}

struct ApplyCase {
  const char* name;
  bool clips;
  std::vector<double> norms;  // of chunks 0, 1 …, as far as they came
  std::vector<int32_t> sums;
  std::vector<int32_t> applied;
};

class SumsToApply : public testing::TestWithParam<ApplyCase> {};

TEST_P(SumsToApply, WaitForTheGlobalNormWhereTheJobClips) {
  const ApplyCase& c = GetParam();
  OpenStep step = ServerStep(c.clips);
  for (size_t i = 0; i < c.norms.size(); ++i)
    step.AddNorms({{ChunkId(static_cast<int32_t>(i)), MetaWith(c.norms[i])}});
  EXPECT_EQ(step.DecideGlobalNorm(), c.norms.size() == 2);
  for (int32_t chunk : c.sums) step.AddSum(ChunkId(chunk), MetaWith(0));
  const ApplyChunks apply = step.BeginApplying();
  EXPECT_EQ(apply.chunks, Chunks(c.applied));
  EXPECT_EQ(step.applying(), !c.applied.empty());
  if (c.norms.size() == 2) {
    EXPECT_EQ(apply.norm, 5.0);
  }
  EXPECT_FALSE(apply.skip);
  EXPECT_THAT(step.BeginApplying().chunks, IsEmpty()) << "each is applied once";
}

INSTANTIATE_TEST_SUITE_P(OpenStep, SumsToApply,
                         testing::Values(ApplyCase{"without_clipping_at_once", false, {}, {1}, {1}},
                                         ApplyCase{"no_norm", true, {}, {0, 1}, {}},
                                         ApplyCase{"one_norm_is_missing", true, {9}, {0, 1}, {}},
                                         ApplyCase{"all_norms", true, {9, 16}, {0, 1}, {0, 1}},
                                         ApplyCase{"norms_before_sums", true, {9, 16}, {}, {}}),
                         [](const auto& test) { return test.param.name; });

TEST(OpenStep, TheGlobalNormIsDecidedOnce) {
  OpenStep step = ServerStep(true);
  step.AddNorms({{kZero, MetaWith(9)}, {kOne, MetaWith(16)}});
  EXPECT_TRUE(step.DecideGlobalNorm());
  EXPECT_FALSE(step.DecideGlobalNorm());
  EXPECT_EQ(step.global_norm(), (StepNorm{5.0, true}));
}

struct FiniteCase {
  const char* name;
  OnNan on_nan;
  bool owner_applies;
  bool bad;  // the gradient of chunk 0
  bool skips;
  bool ends_job;
};

class NotFiniteStep : public testing::TestWithParam<FiniteCase> {};

TEST_P(NotFiniteStep, IsAppliedOnlyWhereTheJobSaysSo) {
  const FiniteCase& c = GetParam();
  MemberConfig config = PartConfig(c.owner_applies ? Role::kServer : Role::kWorker,
                                   c.owner_applies ? Sync::kServer : Sync::kAllreduce, false);
  config.training.on_nan = c.on_nan;
  OpenStep step = StepWith(config);
  const ResultMeta first = c.bad ? NotFinite() : MetaWith(0);
  if (c.owner_applies) {
    step.AddSum(kOne, MetaWith(0));
    EXPECT_EQ(step.BeginApplying().chunks.empty(), c.on_nan != OnNan::kContinue)
        << "chunk 0 may still be bad";
    step.AddNorms({{kZero, first}, {kOne, MetaWith(0)}});
    EXPECT_TRUE(step.DecideGlobalNorm());
    step.AddSum(kZero, first);
    const ApplyChunks apply = step.BeginApplying();
    EXPECT_THAT(apply.chunks, testing::Contains(kZero));
    EXPECT_EQ(apply.skip, c.skips);
    EXPECT_FALSE(apply.norm.has_value()) << "the job does not clip";
  } else {
    step.IssueLanes(PartSeat({0, 1}, {0, 1}), 1);
    step.AddResult({kZero, first}, {});
    step.AddResult({kOne, MetaWith(0)}, {});
    const std::optional<Apply> apply = step.ApplyWhenComplete();
    ASSERT_TRUE(apply.has_value());
    EXPECT_EQ(apply->skip, c.skips);
    EXPECT_EQ(apply->examine, c.skips ? std::vector<LaneId>{LaneId(0)} : std::vector<LaneId>());
  }
  const ClosedStep closed = std::move(step).Close();
  EXPECT_EQ(closed.skipped, c.skips);
  EXPECT_EQ(
      RecordOf(config, KnownSteps(config), PartSeat({0, 1}, {0, 1}).view, LineageNumber(1), closed)
          .norm,
      c.on_nan == OnNan::kContinue ? std::nullopt : std::optional<double>(0))
      << "known where the gradient is looked at";
  EXPECT_EQ(closed.Stops(), c.ends_job);
  EXPECT_EQ(
      RecordOf(config, KnownSteps(config), PartSeat({0, 1}, {0, 1}).view, LineageNumber(1), closed)
          .skipped,
      c.skips);
}

INSTANTIATE_TEST_SUITE_P(
    OpenStep, NotFiniteStep,
    testing::Values(FiniteCase{"finite", OnNan::kStop, false, false, false, false},
                    FiniteCase{"stop", OnNan::kStop, false, true, true, true},
                    FiniteCase{"skip", OnNan::kSkip, false, true, true, false},
                    FiniteCase{"go_on", OnNan::kContinue, false, true, false, false},
                    FiniteCase{"server_finite", OnNan::kSkip, true, false, false, false},
                    FiniteCase{"server_stop", OnNan::kStop, true, true, true, true},
                    FiniteCase{"server_skip", OnNan::kSkip, true, true, true, false},
                    FiniteCase{"server_go_on", OnNan::kContinue, true, true, false, false}),
    [](const auto& test) { return test.param.name; });

// ---- results and the end

TEST(OpenStep, CommandsRideInTheResultOfChunkZeroOnly) {
  OpenStep step = WorkerStep();
  const JobCommand stop{7, JobCommandKind::kStop};
  step.AddResult({kOne, MetaWith(16)}, {stop});
  EXPECT_THAT(step.commands(), IsEmpty());
  EXPECT_FALSE(step.ApplyWhenComplete().has_value());
  step.AddResult({kZero, MetaWith(9)}, {stop});
  EXPECT_THAT(step.commands(), ElementsAre(stop));
  EXPECT_EQ(step.result_count(), 2);
  ASSERT_TRUE(step.ApplyWhenComplete().has_value());
  EXPECT_EQ(step.ApplyWhenComplete()->norm, 5.0) << "the job clips";
}

TEST(OpenStep, ClosesIntoWhatOthersMayStillNeed) {
  OpenStep step = ServerStep(true);
  const JobCommand stop{7, JobCommandKind::kStop};
  step.AddResult({kOne, MetaWith(16)}, {});
  step.AddResult({kZero, MetaWith(9)}, {stop});
  step.SetGlobalNorm({5.0, true});
  StepRecord told;
  told.view = ViewNumber(3);
  step.SetRecord(told);
  const ClosedStep closed = std::move(step).Close();
  EXPECT_EQ(closed.step, Step(5));
  EXPECT_EQ(closed.meta, (std::vector<ResultMeta>{MetaWith(9), MetaWith(16)}));
  EXPECT_THAT(closed.commands, ElementsAre(stop));
  EXPECT_TRUE(closed.Stops());
  EXPECT_EQ(closed.global_norm, (StepNorm{5.0, true}));
  EXPECT_EQ(closed.record, told);
}

TEST(HeldState, TheNextStepBeginsWithNothingOfTheOneBefore) {
  const ConfigPtr config = Shared(PartConfig(Role::kServer, Sync::kServer, true));
  HeldState state{LineageNumber(1), OpenStep(config, Step(5)), {}};
  state.open.IssueLanes(PartSeat({0, 1}, {0, 1}), 1);
  state.open.AddSum(kZero, MetaWith(9));
  state.open.AddResult({kZero, MetaWith(9)}, {{7, JobCommandKind::kCheckpoint}});
  state.open.SetGlobalNorm({5.0, true});
  state.Advance(config);
  EXPECT_EQ(state.step(), Step(6));
  EXPECT_EQ(state.closed->step, Step(5));
  EXPECT_THAT(state.open.lanes(), IsEmpty());
  EXPECT_THAT(state.open.CompleteSums(), IsEmpty());
  EXPECT_EQ(state.open.result_count(), 0);
  EXPECT_THAT(state.open.commands(), IsEmpty());
  EXPECT_FALSE(state.open.global_norm().has_value());
  EXPECT_FALSE(state.open.Finish({1, {kZero}, {Leaf(0)}})) << "lanes of the step before";
}

struct HaltCase {
  const char* name;
  int64_t end;
  std::vector<JobCommand> commands;  // of the step before
  bool halts;
};

class Halts : public testing::TestWithParam<HaltCase> {};

TEST_P(Halts, AtTheEndAndWhenToldToStop) {
  const ConfigPtr config = Shared(PartConfig(Role::kWorker, Sync::kAllreduce, false));
  HeldState state{LineageNumber(1), OpenStep(config, Step(5)), {}};
  state.open.AddResult({kZero, MetaWith(9)}, GetParam().commands);
  state.Advance(config);
  View view = PartSeat({0, 1}, {0, 1}).view;
  view.end = Step(GetParam().end);
  EXPECT_EQ(state.HaltsIn(view, KnownSteps(*config)), GetParam().halts);
}

INSTANTIATE_TEST_SUITE_P(
    HeldState, Halts,
    testing::Values(HaltCase{"goes_on", 7, {}, false}, HaltCase{"at_the_end", 6, {}, true},
                    HaltCase{"told_to_stop", 7, {{1, JobCommandKind::kStop}}, true},
                    HaltCase{
                        "a_checkpoint_is_no_stop", 7, {{1, JobCommandKind::kCheckpoint}}, false}),
    [](const auto& test) { return test.param.name; });

// A buffer has one contributor, lane 0, and so the weight of that lane.
TEST(RecordOf, TheWeightIsThatOfAParameter) {
  struct Case {
    std::string what;
    Role role;
    std::vector<int32_t> owners;
    int64_t weight;
    double loss;
    bool without_weight;
  };
  // Of three chunks the first is a buffer.
  const std::vector<Case> cases = {
      {"a worker has all results", Role::kWorker, {1, 1, 1}, 6, 3.5, false},
      {"a server of both kinds", Role::kServer, {0, 1, 0}, 6, 3.25, false},
      {"a server of parameters", Role::kServer, {1, 0, 1}, 6, 3.5, false},
      {"a server of buffers", Role::kServer, {0, 1, 1}, 0, 0, true},
  };
  for (const Case& c : cases) {
    MemberConfig config = PartConfig(c.role, Sync::kServer, false);
    config.id = NameOf("worker-0");
    config.chunks = {TensorKind::kBuffer, TensorKind::kParameter, TensorKind::kParameter};
    const ConfigPtr shared = Shared(config);
    const View view = PartSeat(c.owners, {0, 1}).view;
    OpenStep step(shared, Step(5));
    const std::vector<ResultMeta> metas = {{9, 9, 0, 0}, {6, 3.5, 0, 0}, {6, 3.25, 0, 0}};
    for (int32_t i = 0; i < 3; ++i)
      if (c.role == Role::kWorker || c.owners[static_cast<size_t>(i)] == 0)
        step.AddResult({ChunkId(i), metas[static_cast<size_t>(i)]}, {});
    const StepRecord record =
        RecordOf(*shared, KnownSteps(*shared), view, LineageNumber(4), std::move(step).Close());
    EXPECT_EQ(record.weight, c.weight) << c.what;
    EXPECT_EQ(record.loss, c.loss) << c.what;
    EXPECT_EQ(record.without_weight, c.without_weight) << c.what;
  }
}

// A job that measures in step 5, with a chunk of sums behind one of parameters.
MemberConfig MeasuringConfig(Role role) {
  MemberConfig config = PartConfig(role, Sync::kServer, false);
  config.id = NameOf("worker-0");
  config.chunks = {TensorKind::kParameter, TensorKind::kSum};
  config.training.validation = {.every_steps = 5, .patience = 1};
  return config;
}

MeasuredState MeasuredAt(int64_t step, bool enough) {
  MeasuredState measured{{{2, 4}}, Step(step), {}};
  measured.learned.enough = enough;
  measured.learned.cuts = 3;
  measured.learned.cuts_before = 2;
  return measured;
}

ClosedStep Closed(const ConfigPtr& config, std::optional<MeasuredState> measured, bool finite) {
  OpenStep step(config, Step(5));
  step.AddResult({kZero, {6, 3.5, 0, 0, finite}}, {});
  step.AddResult({kOne, {6, 3.5, 0, 0}}, {});
  step.SetMeasured(std::move(measured));
  return std::move(step).Close();
}

TEST(RecordOf, WhoHasTheSumsTellsWhatTheyMeasured) {
  const ConfigPtr config = Shared(MeasuringConfig(Role::kWorker));
  const View view = PartSeat({0, 1}, {0, 1}).view;
  const ClosedStep closed = Closed(config, MeasuredAt(5, true), true);
  EXPECT_TRUE(closed.FindsEnough());
  const StepRecord record = RecordOf(*config, KnownSteps(*config), view, LineageNumber(4), closed);
  EXPECT_EQ(record.measures, (std::vector<Measure>{{2, 4}}));
  EXPECT_EQ(record.cuts, 2) << "those before its measure";
  EXPECT_FALSE(record.without_weight);
}

// It holds the measure of step 0 in its sums, which was enough or not.
TEST(RecordOf, AStepThatMeasuresNothingTellsNothingOfTheOneBefore) {
  const ConfigPtr config = Shared(MeasuringConfig(Role::kWorker));
  const ClosedStep closed = Closed(config, MeasuredAt(0, true), true);
  EXPECT_FALSE(closed.FindsEnough());
  const StepRecord record = RecordOf(*config, KnownSteps(*config), PartSeat({0, 1}, {0, 1}).view,
                                     LineageNumber(4), closed);
  EXPECT_THAT(record.measures, IsEmpty());
  EXPECT_EQ(record.cuts, 3);
}

TEST(RecordOf, OfASkippedStepNothingIsMeasured) {
  const ConfigPtr config = Shared(MeasuringConfig(Role::kWorker));
  const ClosedStep closed = Closed(config, MeasuredAt(5, true), false);
  ASSERT_TRUE(closed.skipped);
  EXPECT_FALSE(closed.FindsEnough());
  const StepRecord record = RecordOf(*config, KnownSteps(*config), PartSeat({0, 1}, {0, 1}).view,
                                     LineageNumber(4), closed);
  EXPECT_THAT(record.measures, IsEmpty());
}

TEST(RecordOf, TellsWhatAStepThatIsAppliedLeftOut) {
  const View view = PartSeat({0, 1}, {0, 1}).view;
  for (const bool finite : {true, false}) {
    const ConfigPtr config = Shared(MeasuringConfig(Role::kWorker));
    MeasuredState state = MeasuredAt(0, false);  // what it measured is of a step before
    state.left_out = {1, 3};
    const StepRecord record = RecordOf(*config, KnownSteps(*config), view, LineageNumber(4),
                                       Closed(config, state, finite));
    EXPECT_EQ(record.left_out, finite ? state.left_out : std::vector<uint64_t>())
        << "a skipped step leaves what the state told before";
  }
}

TEST(RecordOf, AServerWithoutTheSumsKnowsNoWeightInAnyStep) {
  const View view = PartSeat({0, 1}, {0, 1}).view;
  const ConfigPtr config = Shared(MeasuringConfig(Role::kServer));
  EXPECT_TRUE(RecordOf(*config, KnownSteps(*config), view, LineageNumber(4),
                       Closed(config, std::nullopt, true))
                  .without_weight);
  EXPECT_FALSE(RecordOf(*config, KnownSteps(*config), view, LineageNumber(4),
                        Closed(config, MeasuredAt(5, false), true))
                   .without_weight);
}

TEST(RecordOf, NamesTheHoldersOfTheStepAndTheWholeWeight) {
  const ConfigPtr config = Shared(PartConfig(Role::kWorker, Sync::kAllreduce, false));
  View view = PartSeat({0, 1}, {1, 1}).view;
  view.first_step = Step(5);
  view.first_lanes.holder_of = {0, 1};
  OpenStep step(config, Step(5));
  step.AddResult({kZero, {2, 1.5, 0, 0}}, {{8, JobCommandKind::kCheckpoint}});
  step.AddResult({kOne, {0, 0, 0, 0}}, {});
  const StepRecord record =
      RecordOf(*config, KnownSteps(*config), view, LineageNumber(4), std::move(step).Close());
  EXPECT_EQ(record.lineage, LineageNumber(4));
  EXPECT_EQ(record.view, ViewNumber(1));
  EXPECT_EQ(record.lane_holders, (LaneHolders{NameOf("worker-0"), NameOf("worker-1")}));
  EXPECT_EQ(record.weight, 2);
  EXPECT_EQ(record.loss, 1.5);
  EXPECT_EQ(record.commands.size(), 1u);
}

}  // namespace
}  // namespace muster
