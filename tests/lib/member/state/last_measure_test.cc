// The last state, which a worker measures alone from its memory (docs/decisions/0120). Whole runs
// are the simulator's.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/member/state/member.h"
#include "tests/lib/member/state/lone_view.h"
#include "tests/lib/member/state/outcome_of.h"

namespace muster {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

const MemberId kMe{"worker-0", {1, 1}};

MeasureSums Fact(float limb) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0f);
  sums.floats[0] = limb;
  return sums;
}

// The only worker of a job of 6 steps.
class Alone {
 public:
  Alone() : member(Config()) {}

  static MemberConfig Config() {
    MemberConfig config;
    config.job = "job";
    config.id = kMe;
    config.chunks = {TensorKind::kParameter, TensorKind::kSum};
    config.training.batch = 2;
    config.training.lanes = 2;
    config.training.steps = 6;
    config.training.validation = {.every_steps = 4};
    config.environment.samples = 100;
    config.environment.tensors = *SumTensors(config.training.validation, {{"loss"}});
    return config;
  }
  Outcome Coordinator(FromCoordinator message) {
    return member.Handle(CoordinatorSays{std::move(message)});
  }
  Outcome Seal(int64_t number, int64_t term = 1) {
    return Coordinator(muster::Seal{TermNumber(term), ViewNumber(number)});
  }
  Outcome Enter(int64_t number, int64_t step, HealBy how, int64_t lineage = 1, int64_t term = 1) {
    const auto [view, plan] = MakeLoneView(
        kMe, {.number = number, .step = step, .end = 6, .lineage = lineage, .term = term}, how);
    sealed = Seal(number, term);
    healed = Coordinator(Heal{TermNumber(term), view.number, plan});
    for (const Abandon& abandon : Of<Abandon>(healed)) member.Handle(Abandoned{abandon.id, 0});
    if (!Of<Make>(healed).empty()) member.Handle(Made{});
    return Coordinator(Activate{view});
  }
  Outcome Ask(int64_t step, int64_t lineage = 1, int64_t term = 1) {
    return Coordinator(
        MeasureState{TermNumber(term), LineageNumber(lineage), Step(step), Manifest()});
  }

  Member member;
  Outcome sealed, healed;
};

TEST(LastState, IsMeasuredOnceAndToldUntilThatIsAcknowledged) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  const auto begun = Of<MeasureHeld>(alone.Ask(6));
  ASSERT_THAT(begun, SizeIs(1));
  EXPECT_EQ(begun[0].step, Step(6));
  EXPECT_EQ(alone.member.Phase(), "measuring the state of step 6");
  EXPECT_THAT(Of<MeasureHeld>(alone.Ask(6)), IsEmpty()) << "it is at it";
  const auto told = Told<Measured>(alone.member.Handle(MeasureEnded{begun[0].id, Fact(7)}));
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].sums, Fact(7));
  EXPECT_THAT(Told<Measured>(alone.member.Handle(CoordinatorUp{})), SizeIs(1)) << "it may be lost";
  EXPECT_THAT(Told<Measured>(alone.Ask(6)), SizeIs(1));
  alone.Coordinator(AckMeasured{TermNumber(1), LineageNumber(1), Step(6)});
  EXPECT_THAT(Told<Measured>(alone.member.Handle(CoordinatorUp{})), IsEmpty());
}

TEST(LastState, IsNotMeasuredBeforeItIsThere) {
  Alone alone;
  alone.Enter(1, 5, HealBy::kMake);
  EXPECT_THAT(Of<MeasureHeld>(alone.Ask(6)), IsEmpty()) << "another has told step 5 already";
  alone.member.Handle(Summed{Step(5), ChunkId(0), {2, 1.0, 0, 0}});
  alone.member.Handle(Summed{Step(5), ChunkId(1), {2, 1.0, 0, 0}});
  const Outcome applied = alone.member.Handle(Applied{Step(5)});
  ASSERT_THAT(Of<MeasureHeld>(applied), SizeIs(1));
  EXPECT_TRUE(std::holds_alternative<MeasureHeld>(applied.actions.back()))
      << "behind its part of the checkpoint";
  Alone other;
  other.Enter(1, 6, HealBy::kMake);
  EXPECT_THAT(Of<MeasureHeld>(other.Ask(6, /*lineage=*/2)), IsEmpty());
  EXPECT_THAT(Of<MeasureHeld>(other.Ask(4)), IsEmpty());
}

TEST(LastState, IsMeasuredOnThroughAViewInWhichItIsKept) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  const auto begun = Of<MeasureHeld>(alone.Ask(6));
  ASSERT_THAT(begun, SizeIs(1));
  EXPECT_THAT(Of<MeasureHeld>(alone.Enter(2, 6, HealBy::kHold)), IsEmpty());
  EXPECT_THAT(Of<GiveUpMeasure>(alone.sealed), IsEmpty());
  EXPECT_THAT(Told<Measured>(alone.member.Handle(MeasureEnded{begun[0].id, Fact(7)})), SizeIs(1));
}

TEST(LastState, IsGivenUpWithTheStateAndMeasuredAnew) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  const auto begun = Of<MeasureHeld>(alone.Ask(6));
  ASSERT_THAT(begun, SizeIs(1));
  const Outcome entered = alone.Enter(2, 6, HealBy::kLoad);
  ASSERT_THAT(Of<Abandon>(alone.healed), SizeIs(1));
  EXPECT_GT(Of<Abandon>(alone.healed)[0].id, begun[0].id) << "the train thread ends it";
  const auto anew = Of<MeasureHeld>(entered);
  ASSERT_THAT(anew, SizeIs(1));
  EXPECT_THAT(Told<Measured>(alone.member.Handle(MeasureEnded{begun[0].id, Fact(1)})), IsEmpty());
  EXPECT_THAT(Told<Measured>(alone.member.Handle(MeasureEnded{anew[0].id, Fact(7)})), SizeIs(1));
}

// It may wait for a part of the checkpoint, which would stand behind the measure.
TEST(LastState, IsGivenUpForTheSealOfALaterCoordinator) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  ASSERT_THAT(Of<MeasureHeld>(alone.Ask(6)), SizeIs(1));
  EXPECT_THAT(Of<MeasureHeld>(alone.Enter(2, 6, HealBy::kHold, /*lineage=*/1, /*term=*/2)),
              IsEmpty());
  EXPECT_THAT(Of<GiveUpMeasure>(alone.sealed), SizeIs(1));
  EXPECT_THAT(Of<MeasureHeld>(alone.Ask(6, /*lineage=*/1, /*term=*/2)), SizeIs(1));
}

TEST(LastState, IsGivenUpByWhoLeaves) {
  Alone alone;
  alone.Enter(1, 6, HealBy::kMake);
  const auto begun = Of<MeasureHeld>(alone.Ask(6));
  ASSERT_THAT(begun, SizeIs(1));
  const auto given_up = Of<GiveUpMeasure>(alone.Coordinator(Leave{TermNumber(1), 0, "done", ""}));
  ASSERT_THAT(given_up, SizeIs(1));
  EXPECT_GT(given_up[0].below, begun[0].id);
}

}  // namespace
}  // namespace muster
