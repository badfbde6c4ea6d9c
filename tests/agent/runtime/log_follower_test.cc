#include "agent/runtime/log_follower.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/agent/runtime/stand_in.h"
#include "tests/support/text_of.h"

namespace muster::agent {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LogFollowerTest : public ::testing::Test {
 protected:
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name + ".log"; }
  void Print(const std::string& name, const std::string& text) const {
    std::ofstream(PathOf(name), std::ios::app) << text;
  }
  void Start(const std::string& name, int64_t placement = 7) {
    follower_.Starts(
        {.key = {"j", name}, .start = StartNumber(3), .placement = PlacementNumber(placement)},
        PathOf(name));
  }
  // What is sent by one look, as "NAME+LEFT_OUT text", in bytes.
  std::vector<std::string> Sent(Time now = Time()) {
    sent_.clear();
    follower_.Look(now);
    std::vector<std::string> texts;
    for (const LogLines& lines : sent_)
      texts.push_back(lines.name + "+" + std::to_string(lines.left_out.bytes) + " " + lines.text);
    return texts;
  }

  const std::string folder_ = MakeTestFolder();
  bool may_send_ = true;
  std::vector<LogLines> sent_;
  LogFollower follower_{
      [this] { return may_send_; }, [this](LogLines lines) { sent_.push_back(std::move(lines)); },
      LogLimits{.bytes_per_second = 100, .burst = 100, .behind = 80, .on_disk = 1000}};
};

TEST_F(LogFollowerTest, WhatIsNewIsSentOnceWithItsPlace) {
  Print("worker-0", "of an earlier agent\n");
  Start("worker-0");
  EXPECT_THAT(Sent(), IsEmpty());
  Print("worker-0", "one\ntwo\n");
  EXPECT_THAT(Sent(), ElementsAre("worker-0+0 one\ntwo\n"));
  EXPECT_EQ(sent_.at(0).job, "j");
  EXPECT_EQ(sent_.at(0).start, StartNumber(3));
  EXPECT_EQ(sent_.at(0).placement, PlacementNumber(7));
  EXPECT_THAT(Sent(Time(seconds(9))), IsEmpty());
}

TEST_F(LogFollowerTest, WhatWasSentIsNotSentAgainAfterTheFileCouldNotBeOpened) {
  Start("worker-0");
  Print("worker-0", "one\n");
  ASSERT_THAT(Sent(), SizeIs(1));
  std::filesystem::rename(PathOf("worker-0"), folder_ + "/aside");
  std::filesystem::create_directory(PathOf("worker-0"));
  EXPECT_THAT(Sent(Time(seconds(2))), IsEmpty());
  std::filesystem::remove(PathOf("worker-0"));
  std::filesystem::rename(folder_ + "/aside", PathOf("worker-0"));
  Print("worker-0", "two\n");
  EXPECT_THAT(Sent(Time(seconds(4))), ElementsAre("worker-0+0 two\n"));
}

TEST_F(LogFollowerTest, WithoutACoordinatorTheOldestIsLeftOutAndCounted) {
  Start("worker-0");
  may_send_ = false;
  Print("worker-0", std::string(60, 'x') + "\n" + std::string(30, 'y') + "\n");
  EXPECT_THAT(Sent(), IsEmpty());
  may_send_ = true;
  EXPECT_THAT(Sent(), ElementsAre("worker-0+61 " + std::string(30, 'y') + "\n"));
  EXPECT_EQ(sent_.at(0).left_out.lines, 1);
}

// So whoever gets them sees what was lost on the way.
TEST_F(LogFollowerTest, EachPartSaysHowMuchCameBeforeIt) {
  Start("worker-0");
  Print("worker-0", "one\ntwo\n");
  ASSERT_THAT(Sent(), SizeIs(1));
  EXPECT_EQ(sent_.at(0).before, LogAmount());
  may_send_ = false;
  Print("worker-0", std::string(60, 'x') + "\n" + std::string(30, 'y') + "\n");
  EXPECT_THAT(Sent(Time(seconds(2))), IsEmpty());
  may_send_ = true;
  ASSERT_THAT(Sent(Time(seconds(4))), SizeIs(1));
  EXPECT_EQ(sent_.at(0).before, (LogAmount{8, 2}));
  EXPECT_EQ(sent_.at(0).left_out, (LogAmount{61, 1}));
  Print("worker-0", "z\n");
  Start("worker-0", 8);
  ASSERT_THAT(Sent(Time(seconds(6))), SizeIs(1));
  EXPECT_EQ(sent_.at(0).before, (LogAmount{100, 4})) << "the next process goes on in its log";
}

TEST_F(LogFollowerTest, NoMoreThanTheRateIsSentAndEachHasItsTurn) {
  Start("worker-0");
  Start("worker-1");
  Print("worker-0", std::string(79, 'a') + "\n");
  Print("worker-1", std::string(79, 'b') + "\n");
  EXPECT_THAT(Sent(), ElementsAre("worker-0+0 " + std::string(79, 'a') + "\n"));
  EXPECT_THAT(Sent(), IsEmpty());
  Print("worker-0", "more\n");
  EXPECT_THAT(Sent(Time(seconds(2))), ElementsAre("worker-1+0 " + std::string(79, 'b') + "\n"));
  EXPECT_THAT(Sent(Time(seconds(4))), ElementsAre("worker-0+0 more\n"));
}

TEST_F(LogFollowerTest, TheLastLinesOfOneThatHasEndedAreSent) {
  Start("worker-0");
  Print("worker-0", "last words");
  follower_.Ended({"j", "worker-0"});
  EXPECT_THAT(Sent(), ElementsAre("worker-0+0 last words"));
  Print("worker-0", "of nobody\n");
  EXPECT_THAT(Sent(Time(seconds(2))), ElementsAre("worker-0+0 of nobody\n"))
      << "it was not looked at again before";
  EXPECT_THAT(Sent(Time(seconds(4))), IsEmpty());
  Print("worker-0", "nobody follows that\n");
  EXPECT_THAT(Sent(Time(seconds(6))), IsEmpty());
}

TEST_F(LogFollowerTest, TheLogOfTheCoordinatorIsNotSent) {
  follower_.Starts({.key = kCoordinatorKey}, PathOf("coordinator"));
  Print("coordinator", "words\n");
  EXPECT_THAT(Sent(), IsEmpty());
}

// A process appends to the file that it was given, as the stream here does.
TEST_F(LogFollowerTest, AFileThatIsTooLargeIsCutWhileItIsWritten) {
  Start("worker-0");
  std::ofstream process(PathOf("worker-0"), std::ios::app);
  process << std::string(1100, 'x') << "\n" << std::flush;
  EXPECT_THAT(Sent(), IsEmpty());
  EXPECT_EQ(TextOf(OlderLog(PathOf("worker-0"))), std::string(1100, 'x') + "\n");
  process << "goes on\n" << std::flush;
  EXPECT_EQ(TextOf(PathOf("worker-0")), "goes on\n");
  EXPECT_THAT(Sent(), ElementsAre("worker-0+1101 goes on\n"));
  EXPECT_EQ(sent_.at(0).left_out.lines, 1);
}

TEST_F(LogFollowerTest, AFileThatIsHalfFullIsTheOlderOneForTheNextProcess) {
  Start("worker-0");
  Print("worker-0", std::string(49, 'x') + "\n");
  EXPECT_THAT(Sent(), SizeIs(1));
  Print("worker-0", std::string(460, 'x') + "\n");
  Start("worker-0", 8);
  EXPECT_FALSE(std::filesystem::exists(PathOf("worker-0")));
  Print("worker-0", "again\n");
  EXPECT_THAT(Sent(Time(seconds(2))), ElementsAre("worker-0+461 again\n"));
  EXPECT_EQ(sent_.at(0).left_out.lines, 1);
  EXPECT_EQ(sent_.at(0).placement, PlacementNumber(8));
}

TEST(ByteRateTest, IsABurstAndThenSoManyASecond) {
  ByteRate rate(1000, 500);
  EXPECT_EQ(rate.Left(Time()), 500);
  rate.Sent(500);
  EXPECT_EQ(rate.Left(Time()), 0);
  EXPECT_EQ(rate.Left(Time(std::chrono::milliseconds(100))), 100);
  EXPECT_EQ(rate.Left(Time(std::chrono::hours(1'000'000))), 500);
}

}  // namespace
}  // namespace muster::agent
