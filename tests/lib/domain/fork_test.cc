#include "lib/domain/fork.h"

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kDigest(64, 'a');

TrainingSpec Parent() {
  TrainingSpec training;
  training.task = "counting";
  training.steps = 100;
  training.optimizer.kind = OptimizerKind::kAdam;
  training.ema_decay = 0.9;
  return training;
}

TrainingSpec ForkOfParent() {
  TrainingSpec training = Parent();
  training.initial.parent = ParentState{"p"};
  return training;
}

struct Change {
  std::string name;
  std::function<void(TrainingSpec&)> change;
  std::string refused{};  // the field; empty: it may
};
std::ostream& operator<<(std::ostream& out, const Change& change) { return out << change.name; }

class ForkChangeTest : public testing::TestWithParam<Change> {};

TEST_P(ForkChangeTest, IsAllowedOrRefusedByItsField) {
  TrainingSpec fork = ForkOfParent();
  GetParam().change(fork);
  const auto why_not = WhyNotForked(Parent(), Step(40), fork);
  EXPECT_EQ(why_not ? why_not->field : "", GetParam().refused) << (why_not ? why_not->why : "");
}

TEST(Fork, OfAJobAmidItsStreamHasNoSamples) {
  TrainingSpec parent = Parent(), fork = ForkOfParent();
  fork.stream = StreamFrom::kSocket;
  EXPECT_FALSE(WhyNotForked(parent, Step(40), fork)) << "its stream begins with it";
  parent.stream = StreamFrom::kFolder;
  EXPECT_FALSE(WhyNotForked(parent, Step(0), fork));
  ASSERT_TRUE(WhyNotForked(parent, Step(40), fork));
  EXPECT_EQ(WhyNotForked(parent, Step(40), fork)->field, "initial.parent.step");
}

const std::vector<Change> kChanges = {
    Change{"Nothing", [](TrainingSpec&) {}},
    Change{"Batch", [](TrainingSpec& t) { t.batch = 7; }},
    Change{"Lanes", [](TrainingSpec& t) { t.lanes = 7; }},
    Change{"Schedule", [](TrainingSpec& t) { t.schedule.kind = ScheduleKind::kCosine; }},
    Change{"Optimizer", [](TrainingSpec& t) { t.optimizer.kind = OptimizerKind::kSgd; }},
    Change{"Sync", [](TrainingSpec& t) { t.sync = Sync::kServer; }},
    Change{"Length", [](TrainingSpec& t) { t.steps = 0, t.epochs = 3; }},
    Change{"Seed", [](TrainingSpec& t) { t.seed = 9; }},
    Change{"Data", [](TrainingSpec& t) { t.data.samples = 9; }},
    Change{"Validation", [](TrainingSpec& t) { t.validation.every_steps = 2; }},
    Change{"Groups", [](TrainingSpec& t) { t.groups = {{.match = "*", .frozen = true}}; }},
    Change{"Average", [](TrainingSpec& t) { t.ema_decay = 0; }},
    Change{"ChunkBytes", [](TrainingSpec& t) { t.chunk_bytes = 64; }},
    Change{"Parameters", [](TrainingSpec& t) { t.parameters["dropout"] = 0.5; }},
    Change{"FreshSlots", [](TrainingSpec& t) { t.initial.parent->updates = 0; }},
    Change{"FreshAverage", [](TrainingSpec& t) { t.initial.parent->average = false; }},
    Change{"TheSlotsOfThatStep", [](TrainingSpec& t) { t.initial.parent->updates = 40; }},
    Change{"Task", [](TrainingSpec& t) { t.task = "mlp"; }, "task"},
    Change{"OtherUpdates", [](TrainingSpec& t) { t.initial.parent->updates = 39; },
           "initial.parent.updates"},
    Change{"UpdatesOfAnotherOptimizer",
           [](TrainingSpec& t) {
             t.initial.parent->updates = 40;
             t.optimizer.kind = OptimizerKind::kSgd;
           },
           "initial.parent.updates"},
    Change{"AnAverageThatItDoesNotKeep",
           [](TrainingSpec& t) {
             t.initial.parent->average = true;
             t.ema_decay = 0;
           },
           "initial.parent.average"}};

INSTANTIATE_TEST_SUITE_P(Changes, ForkChangeTest, testing::ValuesIn(kChanges),
                         [](const auto& test) { return test.param.name; });

TEST(Fork, TakesTheSlotsOfTheSameKindAndTheAverage) {
  const TrainingSpec fork = ForkedAt(Parent(), Step(40), kDigest, ForkOfParent());
  EXPECT_EQ(fork.initial.parent, (ParentState{"p", 40, kDigest, 40, true}));
  EXPECT_THAT(SlotsOfParent(Parent(), fork), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(UpdatesBefore(fork.initial), 40);
}

TEST(Fork, AForkOfAForkCountsTheStepsOfAll) {
  const TrainingSpec first = ForkedAt(Parent(), Step(40), kDigest, ForkOfParent());
  const TrainingSpec second = ForkedAt(first, Step(5), kDigest, ForkOfParent());
  EXPECT_EQ(UpdatesBefore(second.initial), 45);
  const TrainingSpec at_its_beginning = ForkedAt(first, Step(0), kDigest, ForkOfParent());
  EXPECT_EQ(at_its_beginning.initial.parent->updates, 40);
  EXPECT_EQ(at_its_beginning.initial.parent->average, true);
}

TEST(Fork, WhatIsOfAnotherKindBeginsAnew) {
  TrainingSpec asked = ForkOfParent();
  asked.optimizer.kind = OptimizerKind::kAdamW;
  const TrainingSpec other = ForkedAt(Parent(), Step(40), kDigest, asked);
  EXPECT_EQ(other.initial.parent->updates, 0);
  EXPECT_THAT(SlotsOfParent(Parent(), other), ElementsAre(0, -1, -1, 3)) << "the average stays";
  asked.optimizer.kind = OptimizerKind::kMomentum;
  EXPECT_THAT(SlotsOfParent(Parent(), ForkedAt(Parent(), Step(40), kDigest, asked)),
              ElementsAre(0, -1, 3));
  asked = ForkOfParent();
  asked.ema_decay = 0;
  EXPECT_THAT(SlotsOfParent(Parent(), ForkedAt(Parent(), Step(40), kDigest, asked)),
              ElementsAre(0, 1, 2));
  TrainingSpec without = Parent();
  without.ema_decay = 0;
  EXPECT_THAT(SlotsOfParent(without, ForkedAt(without, Step(40), kDigest, ForkOfParent())),
              ElementsAre(0, 1, 2, -1));
  TrainingSpec sgd = Parent();
  sgd.optimizer.kind = OptimizerKind::kSgd;
  asked = ForkOfParent();
  asked.optimizer.kind = OptimizerKind::kSgd;
  EXPECT_EQ(ForkedAt(sgd, Step(40), kDigest, asked).initial.parent->updates, 0)
      << "it has no slots that could have seen any";
}

TEST(Fork, WhoWantsItAnewIsHeard) {
  TrainingSpec asked = ForkOfParent();
  asked.initial.parent->updates = 0;
  asked.initial.parent->average = false;
  const TrainingSpec fork = ForkedAt(Parent(), Step(40), kDigest, asked);
  EXPECT_EQ(fork.initial.parent, (ParentState{"p", 40, kDigest, 0, false}));
  EXPECT_THAT(SlotsOfParent(Parent(), fork), ElementsAre(0, -1, -1, -1));
}

TEST(Fork, WhatIsLeftOutIsNotAskedFor) {
  const ParentState held{"p", 40, kDigest, 40, true};
  EXPECT_TRUE(NamesParent({"p"}, held));
  EXPECT_TRUE(NamesParent(held, held));
  EXPECT_FALSE(NamesParent({"q"}, held));
  EXPECT_FALSE(NamesParent({"p", 41}, held));
  EXPECT_FALSE(NamesParent({"p", 40, std::string(64, 'b')}, held));
  EXPECT_FALSE(NamesParent({"p", 40, "", 0}, held));
  EXPECT_FALSE(NamesParent({"p", 40, "", {}, false}, held));
}

TEST(Fork, ATensorThatIsAnotherIsNamedAndSumsAndPhasesAreNot) {
  const std::vector<TensorSpec> parent = {{"w", {2, 3}},
                                          {"mean", {3}, TensorKind::kBuffer},
                                          {"validation/loss", {16}, TensorKind::kSum},
                                          {"sync/norm/forward", {9}, TensorKind::kPhase}};
  std::vector<TensorSpec> fork = OfModel(parent);
  ASSERT_EQ(fork.size(), 2u);
  EXPECT_EQ(DifferentTensor(parent, fork), "");
  fork[0].shape = {2, 4};
  EXPECT_EQ(DifferentTensor(parent, fork), "w is [2, 4], and in the parent [2, 3]");
  fork = OfModel(parent);
  fork[1].type = TensorType::kInt64;
  EXPECT_THAT(DifferentTensor(parent, fork), HasSubstr("mean is of another kind or type"));
  fork = OfModel(parent);
  fork[0].aliases = {"again"};
  EXPECT_THAT(DifferentTensor(parent, fork), HasSubstr("w has other names beside this one"));
  fork = OfModel(parent);
  fork.pop_back();
  EXPECT_EQ(DifferentTensor(parent, fork), "mean is in the parent alone");
  fork = OfModel(parent);
  fork.push_back({"more", {1}});
  EXPECT_EQ(DifferentTensor(parent, fork), "more is not in the parent");
  fork[0].name = "v";
  EXPECT_EQ(DifferentTensor(parent, fork), "v stands where the parent has w");
}

}  // namespace
}  // namespace muster
