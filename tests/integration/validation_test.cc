// Validation (docs/decisions/0093) with real processes: what is measured and what follows from it
// are the same bits whoever computes, applies, dies and takes over.
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

constexpr int kLanes = 6, kSteps = 16;

class ValidationTest : public testing::Test {
 protected:
  ValidationTest() {
    WriteFile(folder_ / "held-out/text.txt", HeldOutText());
    settings_ = {"validation.every_steps=4",
                 absl::StrCat("validation.paths=[", folder_ / "held-out", "]")};
  }
  TrainOptions Job(const std::string& name) {
    return {.spec = LanguageSpec(folder_ / "data", kLanes, kSteps),
            .dir = folder_ / name,
            .settings = settings_};
  }

  const Folder folder_;
  std::vector<std::string> settings_;
};

TEST_F(ValidationTest, MeasuresTheSameOnAnyNumberOfWorkersAndServersThroughKills) {
  const TrainRun calm = Train(Job("calm"));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  const std::string digest = calm.result.value("digest", "none");
  const std::vector<Measured> measured = MeasuredIn(folder_ / "calm", calm);
  ASSERT_EQ(measured.size(), 4u) << calm.Trace();
  for (size_t m = 0; m < measured.size(); ++m)
    EXPECT_EQ(measured[m].step, 4 * (static_cast<int64_t>(m) + 1));
  EXPECT_LT(measured.back().loss, measured.front().loss) << "it learns";
  for (const int servers : {0, 1, 2})
    for (const std::string point : {"forward:17", "before_apply:5"}) {
      SCOPED_TRACE(absl::StrCat(servers, " servers, ", point));
      TrainOptions options = Job(absl::StrCat("job-", servers, "-", point.substr(0, 3)));
      options.workers = 3;
      options.servers = servers;
      options.faults = {absl::StrCat("{at_point: \"", point, "\", kill: worker-1}")};
      const TrainRun run = Train(options);
      EXPECT_TRUE(run.Killed("worker-1")) << run.Trace();
      ExpectSameBits(run, options.dir, digest);
      EXPECT_EQ(MeasuredIn(options.dir, run), measured) << run.Trace();
    }
}

TEST_F(ValidationTest, EndsWhereItIsEnoughWhoeverComputesIt) {
  // Nothing is better by so much: the measure at step 12 is the second that is not.
  settings_.insert(settings_.end(),
                   {"validation.patience=2", "validation.min_delta=100", "steps=1000"});
  const TrainRun calm = Train(Job("calm"));
  ASSERT_EQ(calm.exit_code, kExitDone) << calm.Trace();
  EXPECT_EQ(calm.result.value("state", ""), "done");
  EXPECT_EQ(calm.result.value("steps", 0), 13);
  EXPECT_THAT(calm.result.value("reason", ""),
              HasSubstr("validation: loss was no better in 2 measures, so the job is done after 13 "
                        "of 1000 steps"));
  const std::string digest = calm.result.value("digest", "none");
  for (const int servers : {0, 2}) {
    SCOPED_TRACE(absl::StrCat(servers, " servers"));
    TrainOptions options = Job(absl::StrCat("job-", servers));
    options.workers = 3;
    options.servers = servers;
    options.faults = {"{at_point: \"before_apply:13\", kill: worker-2}"};
    const TrainRun run = Train(options);
    EXPECT_TRUE(run.Killed("worker-2")) << run.Trace();
    ExpectSameBits(run, options.dir, digest);
    EXPECT_EQ(run.result.value("steps", 0), 13);
  }
  TrainOptions longer = Job("calm");
  longer.settings.back() = "steps=2000";
  const TrainRun refused = Train(longer);
  EXPECT_EQ(refused.exit_code, kExitBadConfiguration) << refused.Trace();
}

// By a worker alone, after the last checkpoint (docs/decisions/0120).
TEST_F(ValidationTest, TheLastStateIsMeasuredWhoeverDiesMeanwhile) {
  TrainOptions through = Job("through");
  through.settings.emplace_back("steps=18");  // not of the cadence
  const TrainRun calm = Train(through);
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  const std::vector<Measured> measured = MeasuredIn(through.dir, calm);
  ASSERT_EQ(measured.size(), 5u) << calm.Trace();
  EXPECT_EQ(measured.back().step, 18);
  const struct {
    int workers;
    int servers;
    std::string point;
  } kRows[] = {{1, 0, "measuring:1"},
               {3, 0, "measuring:1"},
               {3, 0, "measured_untold:1"},
               {2, 2, "measuring:1"}};
  int number = 0;
  for (const auto& row : kRows) {
    SCOPED_TRACE(absl::StrCat("row ", number));
    TrainOptions options = Job(absl::StrCat("job-", number++));
    options.settings.emplace_back("steps=18");
    options.workers = row.workers;
    options.servers = row.servers;
    options.faults = {absl::StrCat("{at_point: \"", row.point, "\", kill: worker-0}")};
    const TrainRun run = Train(options);
    EXPECT_TRUE(run.Killed("worker-0")) << run.Trace();
    ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
    EXPECT_EQ(MeasuredIn(options.dir, run), measured) << run.Trace();
  }
}

// State 16 is measured twice: when the job is done there, and in step 16.
TEST_F(ValidationTest, AJobThatIsMadeLongerHasTheCurveAndTheStateOfOneThatRanThrough) {
  const std::vector<std::string> settings = {"validation.patience=90", "validation.min_delta=100"};
  const auto with_steps = [&](const std::string& name, int steps) {
    TrainOptions options = Job(name);
    options.settings.insert(options.settings.end(), settings.begin(), settings.end());
    options.settings.push_back(absl::StrCat("steps=", steps));
    return options;
  };
  const TrainRun through = Train(with_steps("through", 22));
  ASSERT_EQ(through.exit_code, 0) << through.Trace();
  const TrainRun first = Train(with_steps("job", 16));
  ASSERT_EQ(first.exit_code, 0) << first.Trace();
  EXPECT_EQ(MeasuredIn(folder_ / "job", first).back().step, 16);
  const TrainRun longer = Train(with_steps("job", 22));
  ExpectSameBits(longer, folder_ / "job", through.result.value("digest", "none"));
  const std::vector<Measured> measured = MeasuredIn(folder_ / "through", through);
  EXPECT_EQ(measured.size(), 6u) << "5 by steps, and that of state 22";
  EXPECT_EQ(MeasuredIn(folder_ / "job", longer), measured);
}

TEST_F(ValidationTest, WhoDoesNotSaveTheLastStateHasItNotMeasured) {
  TrainOptions options = Job("unsaved");
  options.settings.emplace_back("checkpoint.at_end=false");
  const TrainRun run = Train(options);
  ASSERT_EQ(run.exit_code, 0) << run.Trace();
  EXPECT_EQ(MeasuredIn(options.dir, run).back().step, 12);
}

TEST_F(ValidationTest, APlateauCutsTheRateOnAllWorkersAtOneStep) {
  settings_.insert(settings_.end(), {"validation.min_delta=100",
                                     "schedule={kind: plateau, patience: 0, gamma: 0.5}"});
  const TrainRun calm = Train(Job("calm"));
  ASSERT_EQ(calm.exit_code, 0) << calm.Trace();
  EXPECT_NE(calm.result.value("digest", ""), UndisturbedDigest(Job("x").spec, folder_ / "without"));
  TrainOptions options = Job("job");
  options.workers = 3;
  options.faults = {"{at_point: \"forward:17\", kill: worker-1}"};
  const TrainRun run = Train(options);
  ExpectSameBits(run, options.dir, calm.result.value("digest", "none"));
  const std::vector<double> rates = RatesIn(options.dir, run);
  ASSERT_EQ(rates.size(), size_t{kSteps});
  for (size_t s = 0; s < rates.size(); ++s)
    EXPECT_EQ(rates[s], s <= 8 ? 0.003 : s <= 12 ? 0.0015 : 0.00075) << "step " << s;
}

TEST_F(ValidationTest, WhatCannotBeMeasuredIsSaidWithItsField) {
  const struct {
    std::vector<std::string> settings;
    const char* says;
    int exit_code;
  } kRows[] = {
      {{"validation.metric=auc", "validation.patience=1"},
       "validation.metric: the task measures no 'auc'",
       kExitBadConfiguration},
      {{absl::StrCat("validation.paths=[", folder_ / "nowhere", "]")}, "nowhere", kExitBadData},
  };
  int number = 0;
  for (const auto& row : kRows) {
    TrainOptions options = Job(absl::StrCat("bad-", number++));
    options.settings.insert(options.settings.end(), row.settings.begin(), row.settings.end());
    const TrainRun run = Train(options);
    EXPECT_EQ(run.exit_code, row.exit_code) << run.Trace();
    EXPECT_THAT(run.result.value("reason", ""), HasSubstr(row.says)) << run.Trace();
  }
}

}  // namespace
}  // namespace muster::integration
