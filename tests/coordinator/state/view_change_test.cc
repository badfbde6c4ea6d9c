#include "coordinator/state/view_change.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const MemberId kA{"worker-0", {1, 1}}, kB{"worker-1", {1, 2}}, kStranger{"worker-2", {1, 3}};

Sealed SealedOf(int64_t view) { return {ViewNumber(view), {}}; }

TEST(ViewChange, GoesFromSealingToHealingToTheEnd) {
  ViewChange change(ViewNumber(4), {kB, kA}, "a cause", true, Time{});
  EXPECT_THAT(change.members(), ElementsAre(kA, kB));
  EXPECT_THAT(change.NotReady(), ElementsAre(kA, kB));
  EXPECT_EQ(std::get<Seal>(change.Word(TermNumber(2))).view, ViewNumber(4));
  EXPECT_FALSE(change.Answer(kB, SealedOf(4)));
  EXPECT_FALSE(change.Answer(kB, SealedOf(4))) << "said twice";
  EXPECT_THAT(change.NotReady(), ElementsAre(kA));
  EXPECT_TRUE(change.Answer(kA, SealedOf(4)));

  Planned planned;
  planned.heal.base = Step(9);
  change.Follow(planned);
  EXPECT_THAT(change.NotReady(), ElementsAre(kA, kB));
  const Heal heal = std::get<Heal>(change.Word(TermNumber(2)));
  EXPECT_EQ(heal.term, TermNumber(2));
  EXPECT_EQ(heal.view, ViewNumber(4));
  EXPECT_EQ(heal.plan.base, Step(9));
  EXPECT_FALSE(change.Hold(kA, {ViewNumber(4), 3}));
  EXPECT_THAT(change.NotReady(), ElementsAre(kB));
  EXPECT_TRUE(change.Hold(kB, {ViewNumber(4), 5}));
  EXPECT_THAT(change.NotReady(), IsEmpty());
  EXPECT_EQ(change.holding().at(kA), 3);
}

TEST(ViewChange, WordsOfOthersAndAboutOtherViewsSayNothing) {
  ViewChange change(ViewNumber(4), {kA}, "", false, Time{});
  EXPECT_FALSE(change.Answer(kStranger, SealedOf(4)));
  EXPECT_FALSE(change.Answer(kA, SealedOf(3)));
  EXPECT_FALSE(change.Answer(kA, SealedOf(5)));
  EXPECT_FALSE(change.Hold(kA, {ViewNumber(4), 0})) << "there is no plan yet";
  EXPECT_THAT(change.answers(), IsEmpty());
  EXPECT_TRUE(change.Answer(kA, SealedOf(4)));
  change.Follow({});
  EXPECT_FALSE(change.Answer(kA, SealedOf(4))) << "the plan is made";
  EXPECT_FALSE(change.Hold(kStranger, {ViewNumber(4), 0}));
  EXPECT_FALSE(change.Hold(kA, {ViewNumber(3), 0}));
  EXPECT_THAT(change.holding(), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
