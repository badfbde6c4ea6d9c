// What members do for a follower, which measures in their stead. Whole runs are the simulator's.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/member/state/member.h"
#include "tests/lib/member/state/lone_view.h"
#include "tests/lib/member/state/outcome_of.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

const MemberId kMe{"worker-0", {1, 1}};
const ChunkId kValues(0), kSums(1);

MeasureSums Fact(float limb) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0f);
  sums.floats[0] = limb;
  return sums;
}

// The only worker of a job that measures states 4, 8 … and learns of them in steps 6, 10 ….
class Alone {
 public:
  explicit Alone(MemberConfig config = Config()) : member(std::move(config)) {}

  static MemberConfig Config() {
    MemberConfig config;
    config.job = "job";
    config.id = kMe;
    config.chunks = {TensorKind::kParameter, TensorKind::kSum};
    config.training.batch = 2;
    config.training.lanes = 2;
    config.training.steps = 50;
    config.training.validation = {.every_steps = 4, .on = MeasuredOn::kFollower, .delay = 3};
    config.environment.samples = 100;
    config.environment.tensors = *SumTensors(config.training.validation, {{"loss"}});
    return config;
  }

  Outcome Coordinator(FromCoordinator message) {
    return member.Handle(CoordinatorSays{std::move(message)});
  }
  Outcome Enter(int64_t number, int64_t step, HealBy how, int64_t lineage = 1) {
    const auto [view, plan] =
        MakeLoneView(kMe, {.number = number, .step = step, .end = 50, .lineage = lineage}, how);
    sealed = Coordinator(Seal{TermNumber(), view.number});
    healed = Coordinator(Heal{TermNumber(), view.number, plan});
    for (const Abandon& abandon : Of<Abandon>(healed)) member.Handle(Abandoned{abandon.id, 0});
    if (!Of<Make>(healed).empty()) member.Handle(Made{});
    return Coordinator(Activate{view});
  }
  Outcome Give(int64_t view, int64_t measured, float limb, int64_t lineage = 1) {
    return Coordinator(GiveMeasure{TermNumber(), ViewNumber(view), LineageNumber(lineage),
                                   Step(measured), Fact(limb)});
  }
  Outcome Sum(int64_t step, ChunkId chunk) {
    return member.Handle(Summed{Step(step), chunk, {2, 1.0, 0, 0}});
  }

  Member member;
  Outcome sealed, healed;
};

TEST(SumOfMeasures, WaitsForWhatTheFollowerMeasured) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  EXPECT_THAT(alone.Sum(6, kSums).actions, IsEmpty()) << "of state 4 nothing was given";
  EXPECT_THAT(Of<Apply>(alone.Sum(6, kValues)), IsEmpty());
  const Outcome given = alone.Give(1, 4, 7);
  ASSERT_THAT(Of<WriteFact>(given), SizeIs(1));
  EXPECT_EQ(Of<WriteFact>(given)[0].step, Step(6));
  EXPECT_EQ(Of<WriteFact>(given)[0].chunk, kSums);
  EXPECT_EQ(Of<WriteFact>(given)[0].sums, Fact(7));
  EXPECT_THAT(Of<Apply>(alone.Sum(6, kSums)), SizeIs(1)) << "now it is in the sum";
}

TEST(SumOfMeasures, TakesWhatWasGivenBefore) {
  Alone alone;
  alone.Enter(1, 5, HealBy::kMake);
  EXPECT_THAT(alone.Give(1, 4, 7).actions, IsEmpty());
  alone.Sum(5, kSums);
  EXPECT_THAT(Of<Apply>(alone.Sum(5, kValues)), SizeIs(1)) << "step 5 brings nothing";
  alone.member.Handle(Applied{Step(5)});
  EXPECT_THAT(Of<WriteFact>(alone.Sum(6, kSums)), SizeIs(1));
}

TEST(SumOfMeasures, TakesNoOther) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  alone.Sum(6, kSums);
  EXPECT_THAT(Of<WriteFact>(alone.Give(1, 8, 7)), IsEmpty()) << "of a later state";
  EXPECT_THAT(Of<WriteFact>(alone.Give(1, 4, 7, /*lineage=*/2)), IsEmpty());
  EXPECT_THAT(Of<WriteFact>(alone.Give(2, 4, 7)), IsEmpty()) << "of another view";
  MeasureSums two = Fact(7);
  two.floats.resize(2 * kFloatsOfMetric, 0.0f);
  EXPECT_THAT(Of<WriteFact>(alone.Coordinator(
                  GiveMeasure{TermNumber(), ViewNumber(1), LineageNumber(1), Step(4), two})),
              IsEmpty())
      << "of other metrics";
  EXPECT_THAT(Of<WriteFact>(alone.Give(1, 4, 7)), SizeIs(1));
}

TEST(SumOfMeasures, IsMadeAnewInAnotherView) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  alone.Give(1, 4, 7);
  alone.Coordinator(Seal{TermNumber(), ViewNumber(2)});
  EXPECT_EQ(alone.Sum(6, kSums).fate, Fate::kDropped) << "zeros must not become a result";
  alone.Enter(3, 6, HealBy::kHold);
  alone.Sum(6, kValues);
  EXPECT_THAT(alone.Sum(6, kSums).actions, IsEmpty()) << "the fact went with the view";
  EXPECT_THAT(Of<WriteFact>(alone.Give(3, 4, 7)), SizeIs(1));
}

TEST(PartOfAMeasuredState, IsCopiedOnceInALineageAndSaidWhenSealed) {
  Alone alone;
  const Outcome begun = alone.Enter(1, 4, HealBy::kMake);
  ASSERT_THAT(Of<StepBoundary>(begun), SizeIs(1));
  EXPECT_THAT(Of<StepBoundary>(begun)[0].part, ElementsAre(kValues, kSums));
  EXPECT_THAT(Of<StepBoundary>(alone.Enter(2, 4, HealBy::kHold)), IsEmpty());
  const auto told = Told<Sealed>(alone.sealed);
  ASSERT_THAT(told, SizeIs(1));
  const MeasuredPart part{LineageNumber(1), Step(4), {true, true}};
  EXPECT_EQ(told[0].local_state.measured_part, part);
  const Outcome again = alone.Enter(3, 4, HealBy::kMake, /*lineage=*/2);
  EXPECT_THAT(Of<KeepParts>(alone.healed), SizeIs(1)) << "of the voided lineage nothing is needed";
  EXPECT_THAT(Of<StepBoundary>(again), SizeIs(1)) << "another lineage has a checkpoint of its own";
}

TEST(PartOfAMeasuredState, WaitsBesideTheOthers) {
  MemberConfig config = Alone::Config();
  config.checkpoint_every = 1;
  Alone alone(config);
  const auto copies = [](const Outcome& outcome) { return Of<StepBoundary>(outcome).size(); };
  EXPECT_EQ(copies(alone.Enter(1, 1, HealBy::kMake)), 1u);
  const auto step = [&](int64_t s) {
    alone.Sum(s, kSums);
    alone.Sum(s, kValues);
    return alone.member.Handle(Applied{Step(s)});
  };
  EXPECT_EQ(copies(step(1)), 1u);
  EXPECT_EQ(copies(step(2)), 0u) << "two wait for the disk";
  EXPECT_EQ(copies(step(3)), 1u) << "this one is to be measured";
  EXPECT_EQ(copies(step(4)), 0u);
  alone.member.Handle(SegmentFailed{LineageNumber(1), Step(4), "no space"});
  EXPECT_EQ(copies(step(5)), 0u) << "it is tried again, and makes no room";
}

}  // namespace
}  // namespace muster
