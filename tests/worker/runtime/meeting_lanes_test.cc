// Lanes that meet in phases, on threads that hand on a baton.
#include "worker/runtime/meeting_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "worker/runtime/lane_threads.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(LaneThreadsTest, OneRunsAtATimeAndWorkGoesOnWhereItRested) {
  int begun = 0;
  std::vector<std::string> said;  // without a lock: the thread sanitizer looks on
  LaneThreads threads([&] { ++begun; });
  for (int round = 0; round < 3; ++round) {
    std::vector<size_t> started;
    for (size_t lane = 0; lane < 3; ++lane)
      started.push_back(threads.Start([&, lane, thread = started.size()] {
        said.push_back("a" + std::to_string(lane));
        threads.Rest(thread);
        said.push_back("b" + std::to_string(lane));
      }));
    EXPECT_THAT(started, ElementsAre(0, 1, 2));
    said.clear();
    for (const size_t thread : {2, 0, 1}) threads.Run(thread);
    EXPECT_FALSE(threads.HasEnded(0));
    for (const size_t thread : {1, 2, 0}) threads.Run(thread);
    EXPECT_THAT(said, ElementsAre("a2", "a0", "a1", "b1", "b2", "b0"));
    for (const size_t thread : {0, 1, 2}) EXPECT_TRUE(threads.HasEnded(thread));
  }
  EXPECT_EQ(begun, 3) << "they are kept";
}

TEST(LaneThreadsTest, WhatWorkThrowsIsThrownByRunAndTheThreadGoesOn) {
  LaneThreads threads([] {});
  const size_t thread = threads.Start([] { throw std::runtime_error("told"); });
  EXPECT_THROW(threads.Run(thread), std::runtime_error);
  EXPECT_TRUE(threads.HasEnded(thread));
  int ran = 0;
  EXPECT_EQ(threads.Start([&] { ++ran; }), thread);
  threads.Run(thread);
  EXPECT_EQ(ran, 1);
}

class MeetingLanesTest : public testing::Test {
 protected:
  MeetingLanesTest() : lanes_(List(), [] {}) { lanes_.Begin(Step(7)); }

  // Of two floats each; the third is met by no lane.
  static PhaseList List() {
    PhaseList list;
    for (const char* name :
         {"sync/b1.bn/forward", "sync/b2.bn/forward", "sync/none/backward", "sync/b2.bn/backward"})
      list.all.push_back({name, {2}, TensorKind::kPhase});
    list.order = {0, 1, 3};
    return list;
  }

  // A lane that meets these phases, each time with terms of its own, and gets the totals.
  void Add(int32_t lane, std::vector<size_t> phases, int64_t weight = 1) {
    lanes_.Add(LaneId(lane), [=, this](const Exchange& exchange) -> absl::StatusOr<LaneOutput> {
      for (const size_t phase : phases) {
        const std::vector<float> terms = {static_cast<float>(lane + 1),
                                          static_cast<float>(10 * phase)};
        absl::StatusOr<absl::Span<const float>> total = exchange(phase, terms);
        if (!total.ok()) {
          given_up_ += total.status().code() == absl::StatusCode::kCancelled ? 1 : 0;
          return total.status();
        }
        got_.push_back((*total)[0]);
      }
      return LaneOutput{.weight = weight};
    });
  }
  std::vector<float> Sum(size_t phase, TreeNode node) {
    std::vector<float> sum(2);
    lanes_.SumOf(phase, node, absl::MakeSpan(sum));
    return sum;
  }
  // The order in which lanes run until none can, and the first error.
  std::vector<int32_t> RunAll() {
    std::vector<int32_t> ran;
    while (const std::optional<LaneId> next = lanes_.Next()) {
      ran.push_back(next->value());
      if (error_ = lanes_.Run(*next); !error_.ok()) break;
    }
    return ran;
  }

  std::vector<float> got_;
  int given_up_ = 0;
  absl::Status error_;
  MeetingLanes lanes_;
};

TEST_F(MeetingLanesTest, EachRunsToThePhaseWhoseTotalIsMissingTheEarliestFirst) {
  Add(0, {0, 1, 3});
  Add(1, {0, 1, 3});
  EXPECT_TRUE(lanes_.HaveAllBrought(2)) << "nobody meets it";
  EXPECT_FALSE(lanes_.HaveAllBrought(0));
  EXPECT_THAT(RunAll(), ElementsAre(0, 1));
  EXPECT_TRUE(lanes_.HaveAllBrought(0));
  EXPECT_THAT(Sum(0, {0, 2}), ElementsAre(3, 0));
  const std::vector<float> first = {30, 0}, second = {40, 0}, last = {50, 0};
  lanes_.Give(0, first);
  lanes_.Give(1, second);
  EXPECT_THAT(RunAll(), ElementsAre(0, 1, 0, 1));
  Add(2, {0, 1, 3});  // of a later view: the totals are here
  EXPECT_FALSE(lanes_.HaveAllBrought(0));
  EXPECT_THAT(RunAll(), ElementsAre(2, 2, 2));
  EXPECT_THAT(Sum(1, {0, 2}), ElementsAre(3, 20)) << "kept to the end of the step";
  EXPECT_THAT(Sum(1, {2, 3}), ElementsAre(3, 10));
  EXPECT_FALSE(lanes_.HasAllTotals());
  lanes_.Give(3, last);
  EXPECT_TRUE(lanes_.HasAllTotals());
  EXPECT_THAT(RunAll(), ElementsAre(0, 1, 2));
  EXPECT_TRUE(lanes_.HasEnded(LaneId(1)));
  EXPECT_THAT(got_, ElementsAre(30, 30, 40, 40, 30, 40, 50, 50, 50));
  EXPECT_EQ(error_, absl::OkStatus());
}

TEST_F(MeetingLanesTest, EmptyLanesAndThoseWithoutAReadableSampleBringNothing) {
  lanes_.AddEmpty(LaneId(0));
  Add(1, {}, /*weight=*/0);
  Add(2, {0, 1, 3});
  RunAll();
  EXPECT_EQ(error_, absl::OkStatus());
  EXPECT_TRUE(lanes_.HasEnded(LaneId(1)));
  EXPECT_THAT(Sum(0, {0, 2}), ElementsAre(0, 0));
  EXPECT_THAT(Sum(0, {2, 3}), ElementsAre(3, 0));
}

TEST_F(MeetingLanesTest, LanesThatAreGivenUpEndAndNothingIsKept) {
  Add(0, {0, 1, 3});
  Add(1, {0, 1, 3});
  ASSERT_EQ(lanes_.Run(LaneId(0)), absl::OkStatus());  // the other has not begun
  const std::vector<float> total = {1, 2};
  lanes_.Give(0, total);
  lanes_.Begin(Step(8));
  EXPECT_EQ(given_up_, 1);
  EXPECT_TRUE(lanes_.IsEmpty());
  Add(0, {0, 1, 3});
  EXPECT_THAT(RunAll(), ElementsAre(0)) << "the total was another step's";
}

TEST_F(MeetingLanesTest, AnotherOrderIsToldBeforeAnybodyWaits) {
  const struct {
    std::vector<size_t> phases;
    const char* says;
  } cases[] = {
      {{1}, "step 7, lane 3: layer b2.bn where b1.bn comes next: with sync_batch_norm the order "},
      {{0, 0}, "step 7, lane 3: layer b1.bn is called twice"},
      {{0, 2}, "layer none where b2.bn comes next"},
      {{0, 3}, "phase sync/b2.bn/backward where sync/b2.bn/forward comes next"},
      {{0}, "step 7, lane 3: it ends where layer b2.bn comes next"},
      {{}, "it ends where layer b1.bn comes next"},
      {{0, 1, 3, 2}, "layer none where none comes any more"},
      {{9}, "brings terms to phase 9, and has 4"},
  };
  const std::vector<float> total = {1, 1};
  for (const auto& bad : cases) {
    lanes_.GiveUp();
    for (const size_t phase : {0, 1, 3}) lanes_.Give(phase, total);
    Add(3, bad.phases);
    RunAll();
    EXPECT_EQ(error_.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(error_.message()), HasSubstr(bad.says));
  }
}

}  // namespace
}  // namespace muster::worker
