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
  for (int lane = 0; lane < 3; ++lane) (*counter)->Count(LineageNumber(1), Step(4));
  (*counter)->Count(LineageNumber(1), Step(5));
  LaneCount count = Newest().value();
  EXPECT_EQ(count.incarnation, me_);
  EXPECT_EQ(count.total, 4);
  EXPECT_EQ(count.step, Step(5));
  EXPECT_EQ(count.in_step, 1);
  (*counter)->Count(LineageNumber(2), Step(5));  // a rewind: the same step once more
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
    for (int lane = 0; lane < 1000; ++lane) (*counter)->Count(LineageNumber(1), Step(lane / 4));
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
  { (*LaneCounter::Open(file_, me_))->Count(LineageNumber(1), Step(0)); }
  auto again = LaneCounter::Open(file_, {3, 4});
  EXPECT_EQ(Newest()->total, 0);
  EXPECT_EQ(Newest()->incarnation, (Incarnation{3, 4}));
}

TEST_F(LaneCounterTest, KeepsThoseOfEarlierIncarnations) {
  constexpr uint64_t kIncarnations = 70;  // more than fit a page
  for (uint64_t i = 1; i <= kIncarnations; ++i) {
    const auto counter = LaneCounter::Open(file_, {7, i});
    for (uint64_t lane = 0; lane < i; ++lane) (*counter)->Count(LineageNumber(1), Step(3));
  }
  const auto counts = ReadLaneCounts(file_).value();
  ASSERT_EQ(counts.size(), kIncarnations);
  for (uint64_t i = 1; i <= kIncarnations; ++i) {
    EXPECT_EQ(counts[i - 1].incarnation, (Incarnation{7, i}));
    EXPECT_EQ(counts[i - 1].total, static_cast<int64_t>(i));
  }
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
