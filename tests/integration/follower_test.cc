// Validation by a follower (docs/decisions/0111) with real processes: what is measured and what
// follows from it are the same bits however fast the follower is, whoever dies and goes on.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"
#include "tests/integration/measured.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr int kLanes = 6, kSteps = 16, kCadence = 4;
constexpr int kStoppedSome = 75;

class FollowerTest : public testing::Test {
 protected:
  FollowerTest() { WriteFile(folder_ / "held-out/text.txt", HeldOutText()); }

  // State 4, 8 and 12 are measured, and then state 16, the last one.
  TrainOptions Job(const std::string& name, int delay) const {
    return {.spec = LanguageSpec(folder_ / "data", kLanes, kSteps),
            .dir = folder_ / name,
            .settings = {absl::StrCat("validation.every_steps=", kCadence),
                         absl::StrCat("validation.paths=[", folder_ / "held-out", "]"),
                         "validation.on=follower", absl::StrCat("validation.delay=", delay)}};
  }
  static TrainOptions With(TrainOptions options, const std::vector<std::string>& settings) {
    options.settings.insert(options.settings.end(), settings.begin(), settings.end());
    return options;
  }

  const Folder folder_;
};

TEST_F(FollowerTest, WithoutADelayItsCurveIsThatOfWorkers) {
  TrainOptions by_workers = Job("workers", 1);
  by_workers.settings.resize(2);
  const TrainRun calm = Train(by_workers);
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  const std::vector<Measured> measured = MeasuredIn(by_workers.dir, calm);
  ASSERT_EQ(measured.size(), 4u) << calm.Trace();
  TrainOptions options = Job("follower", 1);
  options.workers = 2;
  const TrainRun run = Train(options);
  ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
  EXPECT_EQ(MeasuredIn(options.dir, run), measured) << run.Trace();
}

TEST_F(FollowerTest, MeasuresTheSameHoweverSlowItIsAndWhoeverDies) {
  const TrainRun calm = Train(Job("calm", 3));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  const std::string digest = calm.result.value("digest", "none");
  const std::vector<Measured> measured = MeasuredIn(folder_ / "calm", calm);
  ASSERT_EQ(measured.size(), 4u) << calm.Trace();
  for (size_t m = 0; m < measured.size(); ++m)
    EXPECT_EQ(measured[m].step, kCadence * (static_cast<int64_t>(m) + 1) + 3 - 1)
        << "a measure stands beside the step that brings it, or would";
  EXPECT_LT(measured.back().loss, measured.front().loss) << "it learns";
  const struct {
    int workers;
    int servers;
    std::vector<std::string> faults;
    std::string killed;
  } kRows[] = {
      {2, 0, {}, ""},
      {3, 0, {"{at_step: 3, pause: follower-0, for_seconds: 1}"}, ""},
      {3, 0, {"{at_point: \"measuring:2\", kill: follower-0}"}, "follower-0"},
      {2, 0, {"{at_point: \"measured_untold:1\", kill: follower-0}"}, "follower-0"},
      {2, 0, {"{at_point: \"measured_told:2\", kill: follower-0}"}, "follower-0"},
      {2, 0, {"{at_point: \"measured_untold:4\", kill: follower-0}"}, "follower-0"},
      {3,
       0,
       {"{at_point: \"measured_untold:2\", kill: follower-0}",
        "{at_point: \"forward:17\", kill: worker-1}"},
       "worker-1"},
      {2, 1, {"{at_point: \"measured_untold:1\", kill: follower-0}"}, "follower-0"},
      {2, 2, {"{at_point: \"before_apply:9\", kill: worker-1}"}, "worker-1"},
  };
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number));
    TrainOptions options = Job(absl::StrCat("job-", number++), 3);
    options.workers = row.workers;
    options.servers = row.servers;
    options.faults = row.faults;
    const TrainRun run = Train(options);
    EXPECT_TRUE(row.killed.empty() || run.Killed(row.killed)) << run.Trace();
    ExpectSameBits(run, options.dir, digest);
    EXPECT_EQ(MeasuredIn(options.dir, run), measured) << run.Trace();
  }
}

// The coordinator is away from the third step on: training goes on to the step that lacks a
// measure, and waits there until it is back.
TEST_F(FollowerTest, OutlivesTheCoordinator) {
  const TrainRun calm = Train(Job("calm", 2));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  TrainOptions options = Job("job", 2);
  options.workers = 2;
  options.faults = {"{at_step: 3, kill: coordinator, for_seconds: 1}"};
  const TrainRun run = Train(options);
  ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
  EXPECT_EQ(MeasuredIn(options.dir, run), MeasuredIn(folder_ / "calm", calm)) << run.Trace();
}

// All steps but the measured ones stand in the window of a measure.
TEST_F(FollowerTest, AJobThatIsStoppedWhileAMeasureIsOutstandingGoesOnWithIt) {
  const TrainRun calm = Train(Job("calm", kCadence));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  for (const int stop_at : {4, 5, 6}) {
    SCOPED_TRACE(absl::StrCat("stopped after step ", stop_at));
    TrainOptions options = Job(absl::StrCat("job-", stop_at), kCadence);
    options.workers = 2;
    options.faults = {"{at_step: 3, pause: follower-0, for_seconds: 1}"};
    options.interrupt_at = [stop_at](const nlohmann::json& event) {
      return event.value("event", "") == "step" && event.value("step", 0) >= stop_at;
    };
    const TrainRun stopped = Train(options);
    EXPECT_EQ(stopped.exit_code, kStoppedSome) << stopped.Trace();
    options.faults.clear();
    options.interrupt_at = {};
    options.workers = 3;
    const TrainRun run = Train(options);
    ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
    EXPECT_EQ(MeasuredIn(options.dir, run), MeasuredIn(folder_ / "calm", calm)) << run.Trace();
  }
}

TEST_F(FollowerTest, EndsWhereItIsEnoughWhoeverComputesIt) {
  // Nothing is better by so much: the measure of state 12 is the second that is not, and takes
  // effect with step 14.
  const std::vector<std::string> settings = {"validation.patience=2", "validation.min_delta=100",
                                             "steps=1000"};
  const TrainRun calm = Train(With(Job("calm", 3), settings));
  ASSERT_EQ(calm.exit_code, kExitDone) << calm.Trace();
  EXPECT_EQ(calm.result.value("state", ""), "done");
  EXPECT_EQ(calm.result.value("steps", 0), 15);
  EXPECT_THAT(calm.result.value("reason", ""), HasSubstr("loss was no better in 2 measures"));
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(absl::StrCat(servers, " servers"));
    TrainOptions options = With(Job(absl::StrCat("job-", servers), 3), settings);
    options.workers = 3;
    options.servers = servers;
    options.faults = {"{at_point: \"before_apply:13\", kill: worker-2}"};
    const TrainRun run = Train(options);
    EXPECT_TRUE(run.Killed("worker-2")) << run.Trace();
    ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
    EXPECT_EQ(run.result.value("steps", 0), 15);
  }
}

TEST_F(FollowerTest, APlateauCutsTheRateSoManyStepsLater) {
  const std::vector<std::string> settings = {"validation.min_delta=100",
                                             "schedule={kind: plateau, patience: 0, gamma: 0.5}"};
  const TrainRun calm = Train(With(Job("calm", 3), settings));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  TrainOptions options = With(Job("job", 3), settings);
  options.workers = 3;
  options.faults = {"{at_point: \"measured_untold:2\", kill: follower-0}"};
  const TrainRun run = Train(options);
  ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
  const std::vector<double> rates = RatesIn(options.dir, run);
  ASSERT_EQ(rates.size(), size_t{kSteps});
  for (size_t s = 0; s < rates.size(); ++s)
    EXPECT_EQ(rates[s], s <= 10 ? 0.003 : s <= 14 ? 0.0015 : 0.00075) << "step " << s;
}

TEST_F(FollowerTest, WhatCannotBeIsSaidWithItsField) {
  const struct {
    std::vector<std::string> settings;
    const char* says;
    int exit_code;
  } kRows[] = {
      {{absl::StrCat("validation.paths=[", folder_ / "nowhere", "]")}, "nowhere", kExitBadData},
      // How many steps an epoch has, a worker says.
      {{"validation.every_steps=0", "validation.every_epochs=1", "validation.delay=1000000"},
       "validation.delay",
       kExitBadConfiguration},
  };
  int number = 0;
  for (const auto& row : kRows) {
    TrainOptions options = With(Job(absl::StrCat("bad-", number++), 1), row.settings);
    const TrainRun run = Train(options);
    EXPECT_EQ(run.exit_code, row.exit_code) << run.Trace();
    EXPECT_THAT(run.result.value("reason", ""), HasSubstr(row.says)) << run.Trace();
  }
}

// It is started again as often as the job says, and then the job fails: nothing else brings what a
// step waits for.
TEST_F(FollowerTest, AFollowerThatIsGivenUpEndsItsJob) {
  TrainOptions options = With(Job("job", 1), {"restarts=0"});
  options.faults = {"{at_point: \"measuring:1\", kill: follower-0}"};
  const TrainRun run = Train(options);
  EXPECT_EQ(run.exit_code, kExitFailed) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""), HasSubstr("follower-0")) << run.Trace();
}

}  // namespace
}  // namespace muster::integration
