// Training that diverges: what `on_nan` says is done, whoever computes and applies, also when a
// worker dies at such a step. Lanes and samples are named, and the audit counts them apart.
//
// The learning rate and the weight decay are so large that a weight grows a million times in each
// step from when its sample was used first, and is infinite after seven. A lane's loss is the sum
// of its samples' weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/samples.h"
#include "tests/integration/cluster.h"
#include "tests/integration/jobs.h"

namespace muster::integration {
namespace {

using testing::HasSubstr;

constexpr int kSamples = 97, kLanes = 7, kEpochs = 3;
constexpr int64_t kSteps = 21;

// What CountingSpec says, as far as samples follow from it.
TrainingSpec Training() {
  TrainingSpec training;
  training.data.samples = kSamples;
  training.batch = 16;
  training.lanes = kLanes;
  return training;
}

std::vector<uint64_t> SamplesOf(int64_t step) {
  return SampleIds(Training(), kSamples, StepSamples(Training(), kSamples, Step(step)));
}

struct BadStep {
  int64_t step = 0;
  uint64_t samples = 0;  // in all of it
  std::string lanes;     // "lane 1 (samples 4, 9), lane 3 (samples 7, 2)"
};

// Those that are not finite, with the samples whose weights are infinite at that step.
BadStep Describe(int64_t step, const std::vector<double>& weights) {
  BadStep bad{step, SamplesOf(step).size(), ""};
  for (int32_t lane = 0; lane < kLanes; ++lane) {
    const std::vector<uint64_t> ids = SampleIds(
        Training(), kSamples, LaneSamples(Training(), kSamples, Step(step), LaneId(lane)));
    if (std::none_of(ids.begin(), ids.end(), [&](uint64_t s) { return std::isinf(weights[s]); }))
      continue;
    absl::StrAppend(&bad.lanes, bad.lanes.empty() ? "" : ", ", "lane ", lane,
                    ids.size() == 1 ? " (sample " : " (samples ", absl::StrJoin(ids, ", "), ")");
  }
  return bad;
}

std::vector<BadStep> BadSteps() {
  std::vector<double> weights(kSamples, 0);
  std::vector<BadStep> bad;
  for (int64_t step = 0; step < kSteps; ++step) {
    BadStep here = Describe(step, weights);
    if (!here.lanes.empty()) {
      bad.push_back(std::move(here));
      continue;
    }
    for (double& weight : weights) weight *= 1 - 1e6;
    for (uint64_t sample : SamplesOf(step)) weights[sample] += 1e3;
    for (double& weight : weights)
      if (std::abs(weight) > std::numeric_limits<float>::max()) weight = INFINITY;
  }
  return bad;
}

TrainOptions OptionsOf(const std::string& dir, const std::string& on_nan, int workers,
                       int servers) {
  return {.spec = CountingSpec(kSamples, kLanes, kEpochs),
          .dir = dir,
          .workers = workers,
          .servers = servers,
          .settings = {absl::StrCat("on_nan=", on_nan), "optimizer.learning_rate=1000",
                       "optimizer.weight_decay=1000"}};
}

class NotFiniteTest : public testing::TestWithParam<int> {};

TEST_P(NotFiniteTest, SkippedStepsLeaveTheStateAsItWas) {
  const Folder folder;
  const std::vector<BadStep> bad = BadSteps();
  ASSERT_FALSE(bad.empty());
  const TrainRun one = Train(OptionsOf(folder / "one", "skip", 1, 0));
  const TrainRun run = Train(OptionsOf(folder / "job", "skip", 3, GetParam()));
  ExpectSameBits(run, folder / "job", one.result.value("digest", ""));
  ExpectLanesAddUp(run, folder / "job", kLanes);
  EXPECT_EQ(run.result.value("lanes_recomputed", -1), 0) << "what is examined is not counted";
  uint64_t samples = 0;
  for (const BadStep& step : bad) samples += step.samples;
  const std::string first = absl::StrCat("step ", bad[0].step);
  EXPECT_THAT(run.Trace(), HasSubstr(absl::StrCat(first, " is not finite")));
  EXPECT_THAT(run.Trace(), HasSubstr(absl::StrCat(first, ": lane ")));
  const nlohmann::json audit = Audit(folder / "job", run.result.value("job", ""));
  EXPECT_EQ(audit.value("skipped_steps", size_t{0}), bad.size()) << audit;
  EXPECT_EQ(audit.value("skipped_samples", uint64_t{0}), samples) << audit;
  EXPECT_EQ(audit.value("samples", uint64_t{0}), kSamples * kEpochs - samples) << audit;
}

TEST_P(NotFiniteTest, AWorkerDiesAtASkippedStep) {
  const Folder folder;
  const TrainRun one = Train(OptionsOf(folder / "one", "skip", 1, 0));
  TrainOptions options = OptionsOf(folder / "job", "skip", 3, GetParam());
  options.faults = {
      absl::StrCat("{at_point: \"before_apply:", BadSteps().at(0).step + 1, "\", kill: worker-1}")};
  const TrainRun run = Train(options);
  ASSERT_TRUE(run.Fired("worker-1", "before_apply")) << run.Trace();
  ExpectSameBits(run, folder / "job", one.result.value("digest", ""));
  ExpectNoWayBack(run, folder / "job");
}

TEST_P(NotFiniteTest, AJobStopsAtTheFirstAndNamesLanesAndSamples) {
  const Folder folder;
  const TrainOptions options = OptionsOf(folder / "job", "stop", 3, GetParam());
  const BadStep first = BadSteps().at(0);
  const TrainRun run = Train(options);
  EXPECT_EQ(run.exit_code, 66) << run.Trace();
  EXPECT_EQ(run.result.value("exit_code", -1), 66);
  EXPECT_EQ(run.result.value("state", ""), "failed");
  EXPECT_EQ(run.result.value("steps", -1), first.step + 1);
  // Servers may be done while one worker of several still looks at its lanes.
  const std::string lanes = GetParam() == 0 ? first.lanes : "lane ";
  EXPECT_THAT(run.result.value("reason", ""),
              HasSubstr(absl::StrCat("step ", first.step, " is not finite: ", lanes)));
  // Somebody lets it go on: after that step.
  const TrainRun again = Train(options);
  EXPECT_EQ(again.exit_code, 66) << again.Trace();
  EXPECT_EQ(again.result.value("steps", -1), BadSteps().at(1).step + 1);
}

TEST_P(NotFiniteTest, AJobThatGoesOnSaysAtItsEndThatItsStateIsSpoiled) {
  const Folder folder;
  const TrainRun run = Train(OptionsOf(folder / "job", "continue", 2, GetParam()));
  EXPECT_EQ(run.exit_code, 0) << run.Trace();
  EXPECT_THAT(run.result.value("reason", ""),
              HasSubstr(absl::StrCat("all ", kSteps, " steps are done; the state after ", kSteps,
                                     " steps is not finite; ")));
}

INSTANTIATE_TEST_SUITE_P(Servers, NotFiniteTest, testing::Values(0, 2), [](const auto& test) {
  return std::string(test.param == 0 ? "none" : "two");
});

}  // namespace
}  // namespace muster::integration
