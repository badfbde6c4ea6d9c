// Whole jobs in one process whose model a follower measures (docs/decisions/0111): the
// coordinator's real state machine, and members with all their threads over the in-memory
// transport.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/domain/validation.h"
#include "tests/support/around_counting.h"
#include "tests/support/cluster.h"

namespace muster {
namespace {

constexpr int64_t kSteps = 16, kCadence = 4;

// As counting, which learns how often each sample was used. Its loss is uneven in them.
class Judged final : public AroundCounting, public Evaluates {
 public:
  Judged(const TrainingSpec& training, std::shared_future<void> gate)
      : AroundCounting(training), gate_(std::move(gate)) {}

  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }
  // The probe of a member measures the first state, of which all values are zero, and does not
  // wait.
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> values) override {
    TaskMetricSum sum;
    for (const uint64_t id : samples)
      for (size_t i = 0; i < values.size(); ++i)
        sum.sum += static_cast<double>(values[i]) / static_cast<double>(i + id + 3);
    sum.weight = static_cast<double>(samples.size());
    if (sum.sum != 0 && gate_.valid()) gate_.wait();
    return std::vector<TaskMetricSum>{sum};
  }

 private:
  const std::shared_future<void> gate_;
};

struct Shape {
  int workers = 1;
  int servers = 0;
  MeasuredOn on = MeasuredOn::kFollower;
  int64_t delay = 3;
};

JobSpec SpecOf(const Shape& shape) {
  JobSpec spec;
  TrainingSpec& training = spec.training;
  training.task = "counting";
  training.data.samples = 97;
  training.lanes = 5;
  training.batch = 13;
  training.steps = kSteps;
  training.optimizer.kind = OptimizerKind::kSgd;
  training.optimizer.learning_rate = 1;
  training.reduction = Reduction::kSum;
  training.chunk_bytes = 64;
  training.sync = shape.servers > 0 ? Sync::kServer : Sync::kAllreduce;
  training.validation.every_steps = kCadence;
  training.validation.batch = 7;
  training.validation.paths = {"judged"};  // the task of this test reads none
  training.validation.on = shape.on;
  training.validation.delay = shape.delay;
  spec.runtime.workers_min = spec.runtime.workers_max = shape.workers;
  spec.runtime.servers = shape.servers;
  spec.runtime.checkpoint.every_seconds = 0;
  spec.runtime.checkpoint.every_steps = 5;
  spec.runtime.fingerprint_every = 4;
  return spec;
}

class Job {
 public:
  explicit Job(const Shape& shape, std::shared_future<void> gate = {})
      : dir_(absl::StrCat(testing::TempDir(), "following-", getpid(), "-", next_++)),
        gate_(std::move(gate)),
        coordinator_(network_, dir_) {
    std::filesystem::create_directories(dir_);
    coordinator_.Submit("job", SpecOf(shape));
    for (int w = 0; w < shape.workers; ++w) Start({.name = absl::StrCat("worker-", w)});
    for (int s = 0; s < shape.servers; ++s)
      Start({.name = absl::StrCat("server-", s), .role = Role::kServer});
  }
  ~Job() {
    members_.clear();
    std::filesystem::remove_all(dir_);
  }

  TestMember& Start(TestMemberOptions options) {
    options.make_task = [gate =
                             options.role == Role::kFollower ? gate_ : std::shared_future<void>()](
                            const TrainingSpec& training, DataPart,
                            const auto&) -> absl::StatusOr<std::unique_ptr<Task>> {
      return std::make_unique<Judged>(training, gate);
    };
    members_.push_back(
        std::make_unique<TestMember>(network_, coordinator_.address(), std::move(options)));
    return *members_.back();
  }
  TestMember& Follow(const std::string& fail_at = "") {
    return Start({.name = kFollowerName, .role = Role::kFollower, .fail_at = fail_at});
  }
  coordinator::JobJournal End() {
    coordinator::JobJournal job = coordinator_.AwaitEnd("job");
    EXPECT_EQ(job.phase, coordinator::JobPhase::kDone) << job.reason;
    for (auto& member : members_)
      if (!member->fired()) {
        EXPECT_THAT(member->AwaitExit(), testing::AnyOf(0, 137));
      }
    return job;
  }
  // By step: what its record brings.
  std::map<int64_t, std::vector<Measure>> Measures() const {
    std::map<int64_t, std::vector<Measure>> found;
    for (const StepRecord& record : coordinator_.records())
      if (!record.measures.empty()) found[record.step.value()] = record.measures;
    return found;
  }
  TestCoordinator& coordinator() { return coordinator_; }
  TestMember& Find(const std::string& name) {
    for (auto& member : members_)
      if (member->id().name == name) return *member;
    throw std::out_of_range(name);
  }

 private:
  static inline std::atomic<int> next_{0};
  const std::string dir_;
  const std::shared_future<void> gate_;
  LoopNetwork network_;
  TestCoordinator coordinator_;
  std::vector<std::unique_ptr<TestMember>> members_;
};

// The measures of states, whoever took them, by the step that the state is of.
struct Told {
  std::string digest;
  std::map<int64_t, std::vector<Measure>> measures;
  bool operator==(const Told&) const = default;
};
Told Of(Job& job, int64_t delay) {
  Told told{job.End().ending.digest, {}};
  for (const auto& [step, measures] : job.Measures()) told.measures[step - delay + 1] = measures;
  return told;
}

Told ByWorkers() {
  Job job({.on = MeasuredOn::kWorkers, .delay = 1});
  return Of(job, 1);
}

TEST(FollowingTest, WithoutADelayTheBitsAreThoseOfWorkers) {
  const Told workers = ByWorkers();
  ASSERT_EQ(workers.measures.size(), 3u) << "of states 4, 8 and 12";
  EXPECT_NE(workers.measures.at(4), workers.measures.at(12)) << "what is measured changes";
  Job job({.workers = 2, .delay = 1});
  job.Follow();
  const Told followed = Of(job, 1);
  EXPECT_EQ(followed.digest, workers.digest);
  EXPECT_EQ(followed.measures, workers.measures);
}

TEST(FollowingTest, AnyNumberOfMembersLearnsTheSameAtOneStep) {
  const std::map<int64_t, std::vector<Measure>> measures = ByWorkers().measures;
  std::string digest;
  for (const auto& [workers, servers] : {std::pair{1, 0}, {2, 0}, {3, 0}, {2, 1}, {2, 2}}) {
    SCOPED_TRACE(absl::StrCat(workers, " workers, ", servers, " servers"));
    Job job({.workers = workers, .servers = servers});
    job.Follow();
    const Told told = Of(job, 3);
    if (digest.empty()) digest = told.digest;
    EXPECT_FALSE(digest.empty());
    EXPECT_EQ(told.digest, digest);
    EXPECT_EQ(told.measures, measures);
  }
}

TEST(FollowingTest, OneThatDiesBeforeOrAfterItHasAnsweredIsAskedAgain) {
  Job calm({});
  calm.Follow();
  const Told expected = Of(calm, 3);
  for (const char* point : {"measuring:3", "measured_untold:1", "measured_told:1",
                            "measured_untold:2", "measured_told:3"}) {
    SCOPED_TRACE(point);
    Job job({.workers = 2});
    TestMember& first = job.Follow(point);
    first.AwaitFired();
    job.coordinator().Killed("job", first.id());
    job.Follow();
    EXPECT_EQ(Of(job, 3), expected);
  }
}

// The state of step 4 is measured for as long as the test wants: steps 4 and 5 are done meanwhile,
// and step 6, which brings the measure, is not.
TEST(FollowingTest, TrainingWaitsInTheStepThatBringsTheMeasureAndNowhereElse) {
  Job calm({});
  calm.Follow();
  const Told expected = Of(calm, 3);
  std::promise<void> gate;
  Job job({.workers = 2}, gate.get_future().share());
  job.Follow();
  job.coordinator().AwaitStep(Step(5));
  job.coordinator().AwaitWaits("step 6 waits for follower-0's measure of step 4");
  EXPECT_EQ(job.coordinator().records().back().step, Step(5));
  gate.set_value();
  EXPECT_EQ(Of(job, 3), expected);
}

// A worker dies while a measure is outstanding: the others go on, and what was measured counts.
TEST(FollowingTest, AWorkerThatDiesInTheWindowChangesNothing) {
  Job calm({});
  calm.Follow();
  const Told expected = Of(calm, 3);
  std::promise<void> gate;
  Job job({.workers = 2}, gate.get_future().share());
  job.Follow();
  job.coordinator().AwaitWaits("step 6 waits for follower-0's measure of step 4");
  TestMember& killed = job.Find("worker-1");
  killed.Kill();
  job.coordinator().Killed("job", killed.id());
  job.coordinator().AwaitTold("view");
  gate.set_value();
  EXPECT_EQ(Of(job, 3), expected);
}

}  // namespace
}  // namespace muster
