#include "lib/lane_counter/lane_counter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace muster {
namespace {

class LaneCounterTest : public testing::Test {
 protected:
  ~LaneCounterTest() override { std::filesystem::remove_all(dir_); }
  absl::StatusOr<LaneCount> Newest() const {
    const auto counts = ReadLaneCounts(file_);
    if (!counts.ok()) return counts.status();
    return counts->back();
  }

  const std::string dir_ = testing::TempDir() + "lanes-" + std::to_string(getpid());
  const std::string file_ = dir_ + "/run/worker-0.lanes";
  const Incarnation me_{1, 2};
};

TEST_F(LaneCounterTest, CountsInAllAndInTheOpenStep) {
  auto counter = LaneCounter::Open(file_, me_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_EQ(Newest()->total, 0);
  for (int lane = 0; lane < 3; ++lane)
    EXPECT_TRUE((*counter)->Count(LineageNumber(1), Step(4)).ok());
  EXPECT_TRUE((*counter)->Count(LineageNumber(1), Step(5)).ok());
  LaneCount count = Newest().value();
  EXPECT_EQ(count.incarnation, me_);
  EXPECT_EQ(count.total, 4);
  EXPECT_EQ(count.step, Step(5));
  EXPECT_EQ(count.in_step, 1);
  EXPECT_TRUE(
      (*counter)->Count(LineageNumber(2), Step(5)).ok());  // a rewind: the same step once more
  count = Newest().value();
  EXPECT_EQ(count.in_step, 1);
  EXPECT_EQ(count.lineage, LineageNumber(2));
}

TEST_F(LaneCounterTest, APipeInItsPlaceIsNamed) {
  std::filesystem::create_directories(dir_ + "/run");
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  for (const absl::Status& refused :
       {LaneCounter::Open(file_, me_).status(), ReadLaneCounts(file_).status()}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
    EXPECT_NE(refused.message().find(file_ + "' is a pipe"), std::string::npos) << refused;
  }
}

TEST_F(LaneCounterTest, SurvivesAKill) {
  const pid_t child = fork();
  if (child == 0) {
    auto counter = LaneCounter::Open(file_, me_);
    for (int lane = 0; lane < 1000; ++lane)
      if (!(*counter)->Count(LineageNumber(1), Step(lane / 4)).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const LaneCount count = Newest().value();
  EXPECT_EQ(count.total, 1000);
  EXPECT_EQ(count.step, Step(249));
  EXPECT_EQ(count.in_step, 4);
}

TEST_F(LaneCounterTest, ANewIncarnationStartsFromZero) {
  { EXPECT_TRUE((*LaneCounter::Open(file_, me_))->Count(LineageNumber(1), Step(0)).ok()); }
  auto again = LaneCounter::Open(file_, {3, 4});
  EXPECT_EQ(Newest()->total, 0);
  EXPECT_EQ(Newest()->incarnation, (Incarnation{3, 4}));
}

TEST_F(LaneCounterTest, KeepsThoseOfEarlierIncarnations) {
  constexpr uint64_t kIncarnations = 70;  // more than fit a page
  for (uint64_t i = 1; i <= kIncarnations; ++i) {
    const auto counter = LaneCounter::Open(file_, {7, i});
    for (uint64_t lane = 0; lane < i; ++lane)
      EXPECT_TRUE((*counter)->Count(LineageNumber(1), Step(3)).ok());
  }
  const auto counts = ReadLaneCounts(file_).value();
  ASSERT_EQ(counts.size(), kIncarnations);
  for (uint64_t i = 1; i <= kIncarnations; ++i) {
    EXPECT_EQ(counts[i - 1].incarnation, (Incarnation{7, i}));
    EXPECT_EQ(counts[i - 1].total, static_cast<int64_t>(i));
  }
}

// A mapped file that is cut raises SIGBUS at the next lane.
TEST_F(LaneCounterTest, AFileThatIsCutGetsTheCountAgain) {
  ASSERT_TRUE(LaneCounter::Open(file_, {3, 4}).ok());
  const auto counter = LaneCounter::Open(file_, me_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  int64_t lanes = 0;
  for (const uintmax_t left : {127, 64, 63, 10, 0}) {
    std::filesystem::resize_file(file_, left);
    const absl::Status counted = (*counter)->Count(LineageNumber(1), Step(4));
    ASSERT_TRUE(counted.ok()) << counted;
    EXPECT_EQ(Newest()->incarnation, me_);
    EXPECT_EQ(Newest()->total, ++lanes);
    EXPECT_EQ(Newest()->in_step, lanes);
    // Half of an earlier record would be a wrong count of that incarnation.
    EXPECT_EQ(ReadLaneCounts(file_)->size(), left >= 64 ? 2U : 1U) << left;
  }
}

TEST_F(LaneCounterTest, AFileThatIsRemovedOrReplacedGetsTheCountAgain) {
  const auto counter = LaneCounter::Open(file_, me_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  int64_t lanes = 0;
  const auto count = [&] {
    const absl::Status counted = (*counter)->Count(LineageNumber(1), Step(4));
    ASSERT_TRUE(counted.ok()) << counted;
    const auto newest = Newest();
    ASSERT_TRUE(newest.ok()) << newest.status();
    EXPECT_EQ(newest->incarnation, me_);
    EXPECT_EQ(newest->total, ++lanes);
  };
  count();
  std::filesystem::remove(file_);
  count();
  std::filesystem::remove_all(dir_);
  count();
  std::filesystem::copy_file(file_, file_ + ".copy");
  std::filesystem::rename(file_ + ".copy", file_);
  count();
  std::filesystem::rename(file_, file_ + ".away");
  count();
}

TEST_F(LaneCounterTest, AFileThatCannotComeBackIsAnErrorThatNamesIt) {
  const auto counter = LaneCounter::Open(file_, me_);
  ASSERT_TRUE(counter.ok()) << counter.status();
  std::filesystem::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  const absl::Status pipe = (*counter)->Count(LineageNumber(1), Step(4));
  EXPECT_TRUE(absl::IsDataLoss(pipe)) << pipe;
  EXPECT_NE(pipe.message().find(file_ + "' is a pipe"), std::string::npos) << pipe;
  std::filesystem::remove_all(dir_);
  std::ofstream(dir_) << "a file in the place of its folder";
  const absl::Status no_folder = (*counter)->Count(LineageNumber(1), Step(4));
  EXPECT_FALSE(no_folder.ok());
  EXPECT_NE(no_folder.message().find(file_), std::string::npos) << no_folder;
}

TEST_F(LaneCounterTest, WhatIsNoCounterIsSaidToBeNone) {
  EXPECT_TRUE(absl::IsNotFound(Newest().status()));
  std::filesystem::create_directories(dir_ + "/run");
  std::ofstream(file_)
      << "something else that is long enough to be mistaken for a lane counter....";
  EXPECT_TRUE(absl::IsDataLoss(Newest().status()));
  EXPECT_FALSE(LaneCounter::Open("/proc/no/such/place", me_).ok());
}

}  // namespace
}  // namespace muster
