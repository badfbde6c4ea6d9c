#include "lib/member/runtime/segment_writer.h"

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/domain/validation.h"
#include "lib/member/state/checkpoint_parts.h"

namespace muster {
namespace {

// A disk that answers when it is let.
class SlowDisk {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    arrived_ = true;
    changed_.NotifyAll();
    while (!let_) changed_.Wait(mutex_);
  }
  void AwaitArrival() {
    MutexLock lock(mutex_);
    while (!arrived_) changed_.Wait(mutex_);
  }
  void Let() {
    MutexLock lock(mutex_);
    let_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool arrived_ ABSL_GUARDED_BY(mutex_) = false;
  bool let_ ABSL_GUARDED_BY(mutex_) = false;
};

// The first rest of a work would take years, so a work that is written is one that did not rest.
constexpr PaceRules kForYears{.share = 1e-12, .first_interval = std::chrono::hours(24 * 1000)};

class SegmentWriterTest : public testing::Test {
 protected:
  static constexpr int64_t kElements = 3 << 20;  // several pieces of the pace, and of the file

  SegmentWriterTest() {
    std::filesystem::create_directories(dir_);
    MakeSetupOf({});
  }
  void MakeSetupOf(const TrainingSpec& training) {
    JobIs job;
    job.job = "job";
    job.cluster = "cluster";
    job.checkpoint_dir = dir_;
    job.spec.training = training;
    NumericEnvironment environment;
    environment.samples = 1;
    environment.tensors = {{"weight", {kElements}, TensorKind::kParameter}};
    if (training.validation.wanted()) {
      const auto sums = SumTensors(training.validation, {{"loss"}});
      environment.tensors.insert(environment.tensors.end(), sums->begin(), sums->end());
    }
    setup_ = MakeSetup(job, environment).value();
    state_ = StateMemory{setup_->pool->BorrowZeroed(), {}};
  }
  ~SegmentWriterTest() override { std::filesystem::remove_all(dir_); }

  CheckpointPartCopy CopyAt(int64_t step) { return CopyAt(step, AllChunks(setup_->layout)); }
  CheckpointPartCopy CopyAt(int64_t step, const std::vector<ChunkId>& chunks) {
    return CopyCheckpointPart(*setup_, state_, LineageNumber(1), Step(step), chunks, copied_);
  }
  // The steps of the next so many answers.
  std::vector<Step> AwaitWritten(size_t answers) {
    std::vector<Step> written;
    for (; answers > 0; --answers) {
      const std::optional<Event> event = events_->TakeUntil(Time::max());
      if (const auto* segment = std::get_if<SegmentWritten>(&*event))
        written.push_back(segment->step);
      else
        ADD_FAILURE() << std::get<SegmentFailed>(*event).reason;
    }
    return written;
  }

  // Whether its thread comes to have no work; only a broken writer takes so long.
  bool AwaitIdle() const {
    const Time end = RealClock().Now() + std::chrono::seconds(60);
    while (progress_.Age(RealClock().Now()) && RealClock().Now() < end) std::this_thread::yield();
    return !progress_.Age(RealClock().Now());
  }

  const std::string dir_ = testing::TempDir() + "segment-writer-" + std::to_string(getpid());
  SetupPtr setup_;
  StateMemory state_;
  CopyCounter copied_{0};
  ThreadProgress progress_{kCheckpointThread};
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
};

TEST_F(SegmentWriterTest, WhileOneIsWrittenOneWaits) {
  SlowDisk disk;
  Failpoints failpoints([&](absl::string_view) { disk.Pass(); });
  ASSERT_TRUE(failpoints.Arm("segment_written:1").ok());
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_);
  writer.Write(CopyAt(1));
  disk.AwaitArrival();
  static_assert(CheckpointParts::kMost == 2);
  writer.Write(CopyAt(2));
  EXPECT_EQ(writer.waiting(), 1u);
  disk.Let();
  EXPECT_THAT(AwaitWritten(2), testing::ElementsAre(Step(1), Step(2)));
  writer.Write(CopyAt(3));
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(3))) << "there is room again";
}

// Training stands still for the copy, which is slow into memory that was never touched.
TEST_F(SegmentWriterTest, TheMemoryOfACopyIsUsedAgainInTheNextRound) {
  Failpoints failpoints([](absl::string_view) {});
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_);
  for (int64_t step = 1; step <= 5; ++step) {
    writer.Write(CopyAt(step));
    AwaitWritten(1);
  }
  EXPECT_EQ(setup_->part_memory->made(), 1);
}

TEST_F(SegmentWriterTest, WhatIsExpectedHasItsMemoryBeforeTheFirstCopy) {
  const std::vector<ChunkId> chunks = AllChunks(setup_->layout);
  ASSERT_EQ(PartElements(*setup_, chunks), static_cast<size_t>(kElements));
  Failpoints failpoints([](absl::string_view) {});
  {
    SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_);
    writer.SetTraining(false);
    writer.Expect(PartElements(*setup_, chunks));
    while (setup_->part_memory->made() == 0) std::this_thread::yield();
  }
  CopyAt(1);
  EXPECT_EQ(setup_->part_memory->made(), 1);
}

TEST_F(SegmentWriterTest, APartThatComesEarlyDoesNotWaitForTheMemoryOfTheNext) {
  Failpoints failpoints([](absl::string_view) {});
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_, kForYears);
  writer.Expect(static_cast<size_t>(kElements));
  writer.Write(CopyAt(1));
  writer.Write(CopyAt(2));
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(1)));
  writer.SetTraining(false);
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(2)));
}

TEST_F(SegmentWriterTest, WhereAnotherPartWaitsOrNothingTrainsItDoesNotRest) {
  Failpoints failpoints([](absl::string_view) {});
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_, kForYears);
  writer.Write(CopyAt(1));
  writer.Write(CopyAt(2));
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(1))) << "another part waits for it";
  writer.SetTraining(false);
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(2))) << "no steps run beside it";
  writer.Write(CopyAt(3));
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(3))) << "still not";
}

TEST_F(SegmentWriterTest, ADiskThatHangsIsSeen) {
  SlowDisk disk;
  Failpoints failpoints([&](absl::string_view) { disk.Pass(); });
  ASSERT_TRUE(failpoints.Arm("segment_written:1").ok());
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_);
  const auto age = [&] { return progress_.Age(RealClock().Now() + std::chrono::hours(1)); };
  EXPECT_FALSE(age()) << "it has no work yet";
  writer.Write(CopyAt(1));
  disk.AwaitArrival();
  EXPECT_GE(age().value_or(Duration()), std::chrono::minutes(30))
      << "it has work, and stands still";
  disk.Let();
  AwaitWritten(1);
  EXPECT_TRUE(AwaitIdle()) << "it has no work any more";
}

TEST_F(SegmentWriterTest, ARestIsNoWork) {
  Failpoints failpoints([](absl::string_view) {});
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_, kForYears);
  writer.Expect(static_cast<size_t>(kElements));
  while (setup_->part_memory->made() == 0) std::this_thread::yield();  // it has begun
  EXPECT_TRUE(AwaitIdle()) << "though it is not done for years";
}

// A follower measures states 4 and 8 of twelve; of the last one nothing can be written for a while.
class FollowedPartsTest : public SegmentWriterTest {
 protected:
  FollowedPartsTest() {
    TrainingSpec training;
    training.steps = 12;
    training.validation = {.every_steps = 4, .on = MeasuredOn::kFollower, .delay = 1};
    MakeSetupOf(training);
    std::filesystem::remove_all(dir_);
    std::ofstream(dir_) << "no folder";
  }
  void HasRoom() {
    std::filesystem::remove(dir_);
    std::filesystem::create_directories(dir_);
  }
  // That of the next answer, which tells of a failure.
  Step AwaitFailed() {
    const std::optional<Event> event = events_->TakeUntil(Time::max());
    const auto* failed = std::get_if<SegmentFailed>(&*event);
    if (failed == nullptr) {
      ADD_FAILURE() << "it was written";
      return Step(-1);
    }
    EXPECT_FALSE(failed->gave_up);
    return failed->step;
  }
  // Where the machine is slow, more tries may have failed before there was room.
  Step AwaitWrittenAtLast() {
    while (true) {
      const std::optional<Event> event = events_->TakeUntil(Time::max());
      if (const auto* segment = std::get_if<SegmentWritten>(&*event)) return segment->step;
    }
  }

  Failpoints failpoints_{[](absl::string_view) {}};
};

TEST_F(FollowedPartsTest, OfAMeasuredStateAreTriedAgainUntilThereIsRoom) {
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints_, progress_);
  writer.Write(CopyAt(4));
  EXPECT_EQ(AwaitFailed(), Step(4));
  HasRoom();
  EXPECT_EQ(AwaitWrittenAtLast(), Step(4)) << "by itself";
  writer.Write(CopyAt(8));
  EXPECT_THAT(AwaitWritten(1), testing::ElementsAre(Step(8)));
}

// A last checkpoint of which a part failed is written again by all, and again.
TEST_F(FollowedPartsTest, OfOneStateAreKeptOnceHoweverOftenTheyCome) {
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints_, progress_);
  for (int i = 0; i < 5; ++i) {
    writer.Write(CopyAt(4));
    AwaitFailed();
  }
  EXPECT_LE(setup_->part_memory->made(), 3) << "of five; one that waits, and one that comes";
  HasRoom();
  EXPECT_EQ(AwaitWrittenAtLast(), Step(4));
}

// In one view it owned these chunks, in the next one others: all are needed.
TEST_F(FollowedPartsTest, OfOneStateAreAllKeptWhereTheyAreOfOtherChunks) {
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints_, progress_);
  writer.Write(CopyAt(4, {ChunkId(0)}));
  AwaitFailed();
  writer.Write(CopyAt(4, {ChunkId(1)}));
  AwaitFailed();
  HasRoom();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(AwaitWrittenAtLast(), Step(4));
}

// Nobody measures it, so it is tried again as any last checkpoint: in another view, if at all.
TEST_F(FollowedPartsTest, OfTheLastStateAreNotKept) {
  SegmentWriter writer(setup_, "worker-0-1", events_, failpoints_, progress_);
  for (int i = 0; i < 3; ++i) {
    writer.Write(CopyAt(12));
    EXPECT_EQ(AwaitFailed(), Step(12));
  }
  EXPECT_EQ(setup_->part_memory->made(), 1);
}

TEST_F(SegmentWriterTest, ItsEndDoesNotWaitForARest) {
  Failpoints failpoints([](absl::string_view) {});
  {
    SegmentWriter writer(setup_, "worker-0-1", events_, failpoints, progress_, kForYears);
    writer.Write(CopyAt(1));
  }
  const std::optional<Event> event = events_->TryTake();
  EXPECT_TRUE(!event || std::holds_alternative<SegmentWritten>(*event));
}

}  // namespace
}  // namespace muster
