#include "lib/member/state/stream_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

MemberConfig Config() {
  MemberConfig config;
  config.job = "job-1";
  config.start = StartNumber(3);
  config.placement = PlacementNumber(7);
  config.id = {kReaderName, {1, 2}};
  config.role = Role::kReader;
  config.node = "n";
  return config;
}

using Words = std::vector<std::string>;

// What it is told, and what it does, one word each: "join:5", "from:5", "spooled:9", "quit:67".
class Rig {
 public:
  Words Do(const StreamSessionInput& input) {
    Words words;
    for (const StreamSessionAction& action : session.Handle(input))
      words.push_back(std::visit([this](const auto& a) { return Word(a); }, action));
    return words;
  }
  Words Up() { return Do(CoordinatorUp{}); }
  Words From(uint64_t positions, int64_t term = 1) {
    return Do(CoordinatorSays{SpoolFrom{.term = TermNumber(term), .positions = positions}});
  }
  Words Ack(uint64_t positions, int64_t term = 1) {
    return Do(CoordinatorSays{AckSpooled{.term = TermNumber(term), .positions = positions}});
  }
  Words Tell(uint64_t count) { return Do(Spooled{.segment = 1, .first = 0, .count = count}); }

  StreamSession session{Config()};
  Join join;  // the last

 private:
  std::string Word(const TellCoordinator& tell) {
    if (const auto* said = std::get_if<Join>(&tell.message)) {
      join = *said;
      return absl::StrCat("join:", said->stream_positions);
    }
    if (const auto* said = std::get_if<Spooled>(&tell.message))
      return absl::StrCat("spooled:", said->count);
    return "something else";
  }
  static std::string Word(const GiveReader& give) {
    if (const auto* from = std::get_if<SpoolFrom>(&give.message))
      return absl::StrCat("from:", from->positions);
    return absl::StrCat("ack:", std::get<AckSpooled>(give.message).positions);
  }
  static std::string Word(const Quit& quit) { return absl::StrCat("quit:", quit.exit_code); }
};

TEST(StreamSessionTest, IntroducesItselfAsAMemberOfNoView) {
  Rig rig;
  EXPECT_EQ(rig.Up(), Words{"join:0"});
  EXPECT_EQ(rig.join.role, Role::kReader);
  EXPECT_EQ(rig.join.id, Config().id);
  EXPECT_EQ(rig.join.job, "job-1");
  EXPECT_EQ(rig.join.start, StartNumber(3));
  EXPECT_EQ(rig.join.placement, PlacementNumber(7));
  EXPECT_EQ(rig.join.environment, NumericEnvironment()) << "it computes nothing";
  EXPECT_EQ(rig.join.sealed, ViewNumber());
}

TEST(StreamSessionTest, SaysInEachSessionHowManyItWasTold) {
  Rig rig;
  rig.Up();
  EXPECT_EQ(rig.From(5), Words{"from:5"});
  EXPECT_EQ(rig.Up(), Words{"join:5"});
  EXPECT_EQ(rig.From(5), Words{"from:5"});
  EXPECT_EQ(rig.Ack(9), Words{"ack:9"});
  EXPECT_EQ(rig.session.positions(), 9u);
  EXPECT_EQ(rig.Up(), Words{"join:9"});
}

// A coordinator that has not said where it stands would not know whether it follows.
TEST(StreamSessionTest, TellsNothingBeforeTheCoordinatorOfTheSessionHasSaidWhereItStands) {
  Rig rig;
  rig.Up();
  EXPECT_THAT(rig.Ack(3), IsEmpty());
  EXPECT_THAT(rig.session.Phase(), HasSubstr("waiting to be told"));
  rig.From(0);
  EXPECT_EQ(rig.Tell(4), Words{"spooled:4"});
  EXPECT_EQ(rig.Ack(4), Words{"ack:4"});
  EXPECT_THAT(rig.session.Phase(), HasSubstr("4 samples are safe"));
  rig.Up();
  EXPECT_THAT(rig.Tell(6), IsEmpty());
  rig.From(4);
  EXPECT_EQ(rig.Tell(6), Words{"spooled:6"});
}

TEST(StreamSessionTest, ObeysTheNewestCoordinatorOfItsCluster) {
  Rig rig;
  rig.Do(CoordinatorSays{JobIs{.job = "job-1", .cluster = "ours", .term = TermNumber(1)}});
  rig.Up();
  EXPECT_EQ(rig.join.cluster, "ours");
  rig.From(5, 2);
  EXPECT_THAT(rig.From(7, 1), IsEmpty()) << "it has a successor";
  EXPECT_THAT(rig.Ack(7, 1), IsEmpty());
  EXPECT_EQ(rig.session.positions(), 5u);
  EXPECT_THAT(rig.Do(CoordinatorSays{Leave{TermNumber(3), 0, "go", "theirs"}}), IsEmpty());
  EXPECT_EQ(rig.Do(CoordinatorSays{Leave{TermNumber(2), 0, "done", "ours"}}), Words{"quit:0"});
}

TEST(StreamSessionTest, WhatIsForOthersIsNothing) {
  Rig rig;
  rig.Up();
  EXPECT_THAT(rig.Do(CoordinatorSays{StreamIs{.term = TermNumber(1), .positions = 7}}), IsEmpty());
  EXPECT_THAT(rig.Do(CoordinatorSays{MeasureState{.term = TermNumber(1)}}), IsEmpty());
  EXPECT_EQ(rig.session.positions(), 0u);
}

}  // namespace
}  // namespace muster
