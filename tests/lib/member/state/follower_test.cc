#include "lib/member/state/follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

MeasureSums Sums(float first) {
  MeasureSums sums;
  sums.floats.assign(kFloatsOfMetric, 0.0F);
  sums.floats[0] = first;
  return sums;
}

MemberConfig Config() {
  MemberConfig config;
  config.job = "job-1";
  config.start = StartNumber(3);
  config.placement = PlacementNumber(7);
  config.id = {kFollowerName, {1, 2}};
  config.role = Role::kFollower;
  config.node = "n";
  config.environment.samples = 11;
  return config;
}

// What it is told, and what it does, one word each: "say:join", "measure:1:20", "quit:67".
class Rig {
 public:
  std::vector<std::string> Do(const FollowerInput& input) {
    std::vector<std::string> words;
    for (const FollowerAction& action : follower.Handle(input))
      words.push_back(std::visit([this](const auto& a) { return Word(a); }, action));
    return words;
  }
  std::vector<std::string> Up() { return Do(CoordinatorUp{}); }
  std::vector<std::string> Ask(int64_t lineage, int64_t step, int64_t term = 1) {
    MeasureState measure{TermNumber(term), LineageNumber(lineage), Step(step), {}};
    measure.manifest.lineage = measure.lineage;
    measure.manifest.step = measure.step;
    return Do(CoordinatorSays{measure});
  }
  std::vector<std::string> Ack(int64_t lineage, int64_t step) {
    return Do(CoordinatorSays{AckMeasured{TermNumber(1), LineageNumber(lineage), Step(step)}});
  }
  std::vector<std::string> Found(int64_t of, float first) {
    return Do(MeasureEnded{of, Sums(first)});
  }

  Follower follower{Config()};
  Join join;  // the last
  int64_t id = 0;

 private:
  std::string Word(const TellCoordinator& tell) {
    if (const auto* said = std::get_if<Join>(&tell.message)) {
      join = *said;
      return "say:join";
    }
    if (const auto* said = std::get_if<Measured>(&tell.message))
      return absl::StrCat("say:", said->lineage.value(), ":", said->step.value(), ":",
                          said->sums.floats.at(0));
    if (const auto* said = std::get_if<MeasureFailed>(&tell.message))
      return absl::StrCat(said->damaged ? "damaged:" : "failed:", said->step.value(), ":",
                          said->reason);
    return "say:something else";
  }
  std::string Word(const StartMeasure& start) {
    id = start.id;
    return absl::StrCat("measure:", start.manifest.lineage.value(), ":",
                        start.manifest.step.value());
  }
  std::string Word(const GiveUpMeasure& give_up) {
    return give_up.below > id ? "give up" : "gives up nothing";
  }
  std::string Word(const Quit& quit) { return absl::StrCat("quit:", quit.exit_code); }
};

using Words = std::vector<std::string>;

TEST(FollowerTest, IntroducesItselfAsAMemberOfNoView) {
  Rig rig;
  EXPECT_EQ(rig.Up(), Words{"say:join"});
  EXPECT_EQ(rig.join.role, Role::kFollower);
  EXPECT_EQ(rig.join.id, Config().id);
  EXPECT_EQ(rig.join.start, StartNumber(3));
  EXPECT_EQ(rig.join.placement, PlacementNumber(7));
  EXPECT_EQ(rig.join.environment.samples, 11u);
  EXPECT_EQ(rig.join.sealed, ViewNumber());
  EXPECT_EQ(rig.join.active, ViewNumber());
}

TEST(FollowerTest, SaysWhatItFoundInEachSessionUntilItIsAcknowledged) {
  Rig rig;
  rig.Up();
  EXPECT_EQ(rig.Ask(1, 20), Words{"measure:1:20"});
  EXPECT_EQ(rig.follower.step(), Step(20));
  EXPECT_THAT(rig.follower.Phase(), HasSubstr("measuring the state of step 20"));
  EXPECT_THAT(rig.Ask(1, 20), IsEmpty()) << "it is at it";
  EXPECT_EQ(rig.Found(rig.id, 5), Words{"say:1:20:5"});
  EXPECT_EQ(rig.Up(), (Words{"say:join", "say:1:20:5"}));
  EXPECT_EQ(rig.Ask(1, 20), Words{"say:1:20:5"}) << "asked once more, it has the answer";
  EXPECT_THAT(rig.Ack(1, 10), IsEmpty());
  EXPECT_THAT(rig.Ack(1, 20), IsEmpty());
  EXPECT_EQ(rig.Up(), Words{"say:join"});
  EXPECT_EQ(rig.Ask(1, 20), Words{"measure:1:20"}) << "it keeps nothing that was acknowledged";
}

TEST(FollowerTest, WhatIsAskedForLaterTakesThePlaceOfWhatItDoes) {
  Rig rig;
  rig.Up();
  rig.Ask(1, 20);
  const int64_t first = rig.id;
  EXPECT_EQ(rig.Ask(2, 20), Words{"measure:2:20"}) << "of another lineage it is another state";
  EXPECT_THAT(rig.Found(first, 5), IsEmpty()) << "it came too late";
  EXPECT_EQ(rig.Found(rig.id, 6), Words{"say:2:20:6"});
  EXPECT_EQ(rig.Ask(2, 30), Words{"measure:2:30"});
  EXPECT_EQ(rig.Up(), Words{"say:join"}) << "what it found is asked for no more";
}

TEST(FollowerTest, AnAcknowledgementOfWhatItStillMeasuresEndsThat) {
  Rig rig;
  rig.Up();
  rig.Ask(1, 20);
  EXPECT_EQ(rig.Ack(1, 20), Words{"give up"});
  EXPECT_FALSE(rig.follower.measures());
  EXPECT_THAT(rig.Found(rig.id, 5), IsEmpty());
  EXPECT_EQ(rig.Ask(1, 30), Words{"measure:1:30"});
}

TEST(FollowerTest, SaysWhoseFaultItIsThatItCannotMeasureAndTriesAgainWhenAsked) {
  Rig rig;
  rig.Up();
  rig.Ask(1, 20);
  EXPECT_EQ(rig.Do(MeasureEnded{rig.id, absl::DataLossError("a.segment: broken")}),
            Words{"damaged:20:a.segment: broken"});
  EXPECT_EQ(rig.Up(), Words{"say:join"}) << "that is said once";
  EXPECT_EQ(rig.Ask(1, 20), Words{"measure:1:20"});
  EXPECT_EQ(rig.Do(MeasureEnded{rig.id, absl::PermissionDeniedError("a.segment: not ours")}),
            Words{"failed:20:a.segment: not ours"});
}

TEST(FollowerTest, HearsNoCoordinatorThatHasASuccessorAndNoneOfAnotherCluster) {
  Rig rig;
  rig.Up();
  EXPECT_EQ(rig.Ask(1, 20, /*term=*/4), Words{"measure:1:20"});
  EXPECT_THAT(rig.Ask(1, 30, /*term=*/3), IsEmpty());
  rig.Up();
  EXPECT_EQ(rig.join.term, TermNumber(4));
  JobIs job;
  job.cluster = "ours";
  job.term = TermNumber(4);
  rig.Do(CoordinatorSays{job});
  rig.Up();
  EXPECT_EQ(rig.join.cluster, "ours");
  EXPECT_THAT(rig.Do(CoordinatorSays{Leave{TermNumber(9), 1, "go", "theirs"}}), IsEmpty());
  EXPECT_EQ(rig.Do(CoordinatorSays{Leave{TermNumber(4), 67, "go", "ours"}}), Words{"quit:67"});
}

TEST(FollowerTest, WhatIsForMembersOfViewsIsNothingToIt) {
  Rig rig;
  rig.Up();
  EXPECT_THAT(rig.Do(CoordinatorSays{Seal{TermNumber(1), ViewNumber(2)}}), IsEmpty());
  EXPECT_THAT(rig.Do(CoordinatorSays{Heal{TermNumber(1), ViewNumber(2), {}}}), IsEmpty());
}

}  // namespace
}  // namespace muster
