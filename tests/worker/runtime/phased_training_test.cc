// Whole jobs in one process whose lanes meet in phases, with a task without LibTorch: the bits do
// not depend on who computes what, nor on who is lost in which phase.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "tests/support/cluster.h"
#include "tests/support/meeting_task.h"

namespace muster {
namespace {

constexpr uint64_t kSamples = 23;
constexpr size_t kPhases = 4;

struct Shape {
  int workers = 1;
  int64_t batch = 9;
  MeetingFault fault = MeetingFault::kNone;
  std::string fail_at{};  // of the last worker
  bool begins_again = false;
};

class Job {
 public:
  explicit Job(const Shape& shape)
      : dir_(testing::TempDir() + "phased-" + std::to_string(getpid()) + "-" +
             std::to_string(next_++)),
        coordinator_(network_, dir_),
        shape_(shape) {
    std::filesystem::create_directories(dir_);
    JobSpec spec;
    TrainingSpec& training = spec.training;
    training.task = "meeting";
    training.sync_batch_norm = true;
    training.lanes = 6;
    training.batch = shape.batch;
    training.epochs = 3;
    training.chunk_bytes = 64;
    training.optimizer.kind = OptimizerKind::kSgd;
    training.optimizer.learning_rate = 0.001;
    if (shape.fault == MeetingFault::kAllLeftOut) training.data.on_bad_sample = OnBadSample::kSkip;
    spec.runtime.workers_min = shape.fail_at.empty() ? shape.workers : 1;
    spec.runtime.workers_max = shape.workers;
    spec.runtime.checkpoint.every_seconds = 0;
    spec.runtime.first_bucket_bytes = 64;
    spec.runtime.bucket_bytes = 128;
    coordinator_.Submit("job", spec);
    for (int w = 0; w < shape.workers; ++w) Start(w, w + 1 == shape.workers ? shape.fail_at : "");
  }
  ~Job() {
    members_.clear();
    std::filesystem::remove_all(dir_);
  }

  void Start(int worker, const std::string& fail_at = "") {
    TestMemberOptions options{.name = absl::StrCat("worker-", worker), .fail_at = fail_at};
    options.make_task = [fault = shape_.fault](const TrainingSpec&, DataPart, const auto&) {
      return std::make_unique<MeetingTask>(kSamples, kPhases, fault);
    };
    members_.push_back(
        std::make_unique<TestMember>(network_, coordinator_.address(), std::move(options)));
  }
  TestMember& member() { return *members_.front(); }
  coordinator::JobJournal End() {
    if (!shape_.fail_at.empty()) {
      TestMember& last = *members_.back();
      last.AwaitFired();
      coordinator_.Killed("job", last.id());
      if (shape_.begins_again) Start(shape_.workers - 1);
    }
    return coordinator_.AwaitEnd("job");
  }

 private:
  static inline int next_ = 0;
  const std::string dir_;
  LoopNetwork network_;
  TestCoordinator coordinator_;
  const Shape shape_;
  std::vector<std::unique_ptr<TestMember>> members_;
};

std::string DigestOf(const Shape& shape) {
  Job job(shape);
  const coordinator::JobJournal end = job.End();
  EXPECT_EQ(end.phase, coordinator::JobPhase::kDone) << end.reason;
  EXPECT_EQ(end.ending.digest.size(), 64u);
  return end.ending.digest;
}

std::string ReasonOf(const Shape& shape) {
  Job job(shape);
  const coordinator::JobJournal end = job.End();
  EXPECT_EQ(end.phase, coordinator::JobPhase::kFailed);
  return end.reason;
}

TEST(PhasedTraining, TheSameBitsOnAnyNumberOfWorkers) {
  const std::string digest = DigestOf({.workers = 1});
  for (const int workers : {2, 3}) EXPECT_EQ(DigestOf({.workers = workers}), digest) << workers;
}

// Of six lanes some are empty at each step, and at the end of an epoch more of them.
TEST(PhasedTraining, AlsoWithEmptyLanes) {
  const std::string digest = DigestOf({.workers = 1, .batch = 4});
  for (const int workers : {2, 6})
    EXPECT_EQ(DigestOf({.workers = workers, .batch = 4}), digest) << workers;
}

TEST(PhasedTraining, AlsoWithALaneThatLeavesOutAllOfItsSamples) {
  const Shape shape{.batch = 6, .fault = MeetingFault::kAllLeftOut};
  const std::string digest = DigestOf(shape);
  Shape two = shape;
  two.workers = 2;
  EXPECT_EQ(DigestOf(two), digest);
}

// At the first phase, in the midst, at the last one; of the first step and of later ones.
TEST(PhasedTraining, AlsoWithAWorkerThatIsLostInAPhase) {
  const std::string digest = DigestOf({.workers = 1});
  for (const int workers : {2, 3})
    for (const int pass : {1, 4, 7, 10, 17, 24}) {
      SCOPED_TRACE(absl::StrCat(workers, " workers, phase:", pass));
      EXPECT_EQ(DigestOf({.workers = workers, .fail_at = absl::StrCat("phase:", pass)}), digest);
    }
}

TEST(PhasedTraining, AlsoWithOneThatIsLostAroundSumsOfPhases) {
  const std::string digest = DigestOf({.workers = 1});
  for (const std::string point :
       {"half_sent", "summed_unreplied", "half_received", "before_apply", "last_backward"}) {
    SCOPED_TRACE(point);
    EXPECT_EQ(DigestOf({.workers = 3, .fail_at = point + ":2"}), digest);
  }
}

// Nobody is left who has the state: the step is computed anew, from the last checkpoint.
TEST(PhasedTraining, AlsoWhenTheOnlyWorkerIsLostInAPhase) {
  const std::string digest = DigestOf({.workers = 1});
  EXPECT_EQ(DigestOf({.workers = 1, .fail_at = "phase:40", .begins_again = true}), digest);
}

TEST(PhasedTraining, ALanesOrderThatDependsOnItsDataEndsItsWorker) {
  for (const MeetingFault fault :
       {MeetingFault::kOtherOrder, MeetingFault::kTwice, MeetingFault::kEndsEarly}) {
    Job job({.fault = fault});
    EXPECT_EQ(job.member().AwaitExit(), kExitBadConfiguration);
  }
}

// Every lane gives NaN then, and one has brought it.
TEST(PhasedTraining, OfAStepThatIsNotFiniteTheLaneIsNamedThatSpoiltATotal) {
  EXPECT_THAT(ReasonOf({.workers = 2, .fault = MeetingFault::kNotFinite}),
              testing::ContainsRegex(
                  "is not finite: lane [0-9] \\(samples? ([0-9]+, )?5(, [0-9]+)?\\); nothing"));
}

}  // namespace
}  // namespace muster
