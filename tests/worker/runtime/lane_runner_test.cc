#include "worker/runtime/lane_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cfenv>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "lib/domain/left_out.h"
#include "lib/kernels/float_env.h"
#include "lib/lane_counter/lane_counter.h"
#include "tests/support/around_counting.h"

namespace muster::worker {
namespace {

// It says that making its samples ready took so long, and may spoil its thread.
class Claiming final : public AroundCounting {
 public:
  Claiming(const TrainingSpec& training, double input_seconds)
      : AroundCounting(training), claim_(input_seconds) {}

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    absl::StatusOr<LaneOutput> output = AroundCounting::RunLane(input, std::move(sink));
    if (output.ok()) output->input_seconds = claim_;
    if (spoils_rounding) std::fesetround(FE_UPWARD);
    return output;
  }

  bool spoils_rounding = false;

 private:
  const double claim_;
};

// It remembers what it is told of coming lanes, and what it was run with.
class Listening final : public AroundCounting, public ReadsAhead {
 public:
  using AroundCounting::AroundCounting;

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    ran.push_back({input.epoch, {input.samples.begin(), input.samples.end()}});
    return AroundCounting::RunLane(input, std::move(sink));
  }
  absl::Status Coming(std::vector<ComingLane> lanes) override {
    coming = std::move(lanes);
    return absl::OkStatus();
  }

  std::vector<ComingLane> coming, ran;
};

// It measures sums of eleven ids, and remembers the batches.
class Measuring final : public AroundCounting, public Evaluates {
 public:
  using AroundCounting::AroundCounting;

  uint64_t SampleCount() const override { return 11; }
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> values) override {
    batches.emplace_back(samples.begin(), samples.end());
    seen = values.size();
    TaskMetricSum sum;
    for (const uint64_t id : samples) sum.sum += static_cast<double>(id);
    sum.weight = static_cast<double>(samples.size());
    return std::vector<TaskMetricSum>{sum};
  }

  std::vector<std::vector<uint64_t>> batches;
  size_t seen = 0;
};

class LaneRunnerTest : public testing::Test {
 protected:
  static TrainingSpec SmallTraining() {
    TrainingSpec training;
    training.task = "counting";
    training.data.samples = 7;
    training.batch = 7;
    return training;
  }
  LaneRunner RunnerOf(Task& task, LaneCounter* counter = nullptr) {
    EXPECT_TRUE(task.Bind(layout_.space()).ok());
    return LaneRunner(task, layout_, training_, /*measures=*/nullptr, counter, metrics_,
                      failpoints_);
  }
  absl::StatusOr<LaneOutput> RunLane(LaneRunner& runner) {
    std::vector<float> gradient(values_.size());
    const GradientSink sink{absl::MakeSpan(gradient), [](LaneOutput) {}, [](size_t) {}};
    return runner.Run(LineageNumber(1), Step(0), LaneId(0), values_, sink);
  }
  double Phase(const char* phase) {
    return registry_.GetCounter("muster_step_phase_seconds_total", phase).Value();
  }

  const TrainingSpec training_ = SmallTraining();
  const Layout layout_ = Layout::Make(MakeCounting(training_)->Tensors(), 64).value();
  const std::vector<float> values_ =
      std::vector<float>(static_cast<size_t>(layout_.elements()), 0.0f);
  Metrics registry_{{}, "test"};
  TrainMetrics metrics_{registry_};
  Failpoints failpoints_{[](absl::string_view) {}};
};

// On a thread of its own: the test's keeps its environment.
template <class F>
void WhereLanesRun(F f) {
  std::thread([&] {
    SetFloatEnvironment();
    f();
  }).join();
}

TEST_F(LaneRunnerTest, WhatATaskSpendsOnItsSamplesCountsAsInput) {
  Claiming all_input(training_, 1000);  // more than passes: no phase takes more than that
  LaneRunner runner = RunnerOf(all_input);
  WhereLanesRun([&] { EXPECT_TRUE(RunLane(runner).ok()); });
  EXPECT_EQ(Phase("compute"), 0);
  EXPECT_GT(Phase("input"), 0);
  EXPECT_LT(Phase("input"), 1000);
}

TEST_F(LaneRunnerTest, TheRestIsCompute) {
  Claiming no_input(training_, 0);
  LaneRunner runner = RunnerOf(no_input);
  WhereLanesRun([&] { EXPECT_TRUE(RunLane(runner).ok()); });
  EXPECT_GT(Phase("compute"), 0);
}

// Of a stream the end becomes known, and with it how much the last step has.
TEST_F(LaneRunnerTest, ALaneHasTheSamplesThatAreKnown) {
  TrainingSpec training = training_;
  training.stream = StreamFrom::kFolder;
  training.batch = 3;
  training.lanes = 2;
  Listening task(training);
  ASSERT_TRUE(task.Bind(layout_.space()).ok());
  LaneRunner runner(task, layout_, training, nullptr, nullptr, metrics_, failpoints_);
  const auto ran_of = [&](Step step) {
    task.ran.clear();
    WhereLanesRun([&] {
      for (const LaneId lane : {LaneId(0), LaneId(1)}) {
        std::vector<float> gradient(values_.size());
        EXPECT_TRUE(runner.Examine(step, lane, values_, absl::MakeSpan(gradient)).ok());
      }
    });
    std::vector<uint64_t> samples;
    for (const ComingLane& lane : task.ran)
      samples.insert(samples.end(), lane.samples.begin(), lane.samples.end());
    return samples;
  };
  using Ids = std::vector<uint64_t>;
  runner.LearnSamples(kMostSamples);
  EXPECT_EQ(ran_of(Step(0)), (Ids{0, 1, 2}));
  EXPECT_EQ(ran_of(Step(1)), (Ids{3, 4, 5}));
  EXPECT_FALSE(runner.Empty(Step(1), LaneId(1)));
  runner.LearnSamples(4);
  EXPECT_EQ(ran_of(Step(0)), (Ids{0, 1, 2})) << "as before";
  EXPECT_EQ(ran_of(Step(1)), (Ids{3}));
  EXPECT_TRUE(runner.Empty(Step(1), LaneId(1)));
  EXPECT_EQ(task.ran.at(0).epoch, 0);
  runner.OnlyTry();
  EXPECT_EQ(ran_of(Step(1)), (Ids{3}));
  EXPECT_EQ(task.ran.at(0).epoch, -1);
}

// Seven samples in batches of three and two lanes: the third step of an epoch has one sample, so a
// lane of it is empty, and the fourth is of the next epoch.
TEST_F(LaneRunnerTest, TellsTheLanesOfThisStepAndTheNextAsTheyAreRun) {
  TrainingSpec training = training_;
  training.batch = 3;
  training.lanes = 2;
  Listening task(training);
  ASSERT_TRUE(task.Bind(layout_.space()).ok());
  LaneRunner runner(task, layout_, training, nullptr, nullptr, metrics_, failpoints_);
  const std::vector<LaneId> lanes = {LaneId(1), LaneId(0)};
  ASSERT_TRUE(runner.TellComing(Step(2), lanes, Step(4)).ok());
  const std::vector<ComingLane> told = task.coming;
  WhereLanesRun([&] {
    std::vector<float> gradient(values_.size());
    const GradientSink sink{absl::MakeSpan(gradient), [](LaneOutput) {}, [](size_t) {}};
    for (const Step step : {Step(2), Step(3)})
      for (const LaneId lane : lanes)
        EXPECT_TRUE(runner.Run(LineageNumber(1), step, lane, values_, sink).ok());
  });
  ASSERT_EQ(told.size(), 3u);
  ASSERT_EQ(task.ran.size(), 3u);
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].epoch, i == 0 ? 0 : 1);
    EXPECT_EQ(told[i].epoch, task.ran[i].epoch);
    EXPECT_EQ(told[i].samples, task.ran[i].samples);
  }
  ASSERT_TRUE(runner.TellComing(Step(3), lanes, Step(4)).ok());
  EXPECT_EQ(task.coming.size(), 2u);  // the job ends with this step
}

// Eleven samples to measure in three lanes, two at a time: lanes of three and four of them. The
// fourth step of seven samples in batches of three has one sample, so that two lanes are empty.
TEST_F(LaneRunnerTest, ALaneMeasuresItsShareInAStepThatMeasuresAlsoWhereItIsEmpty) {
  TrainingSpec training = training_;
  training.batch = 3;
  training.lanes = 3;
  training.validation = {.every_steps = 2, .batch = 2};
  auto own = std::make_unique<Measuring>(training);
  Measuring& measuring = *own;
  AroundCounting task(training);
  auto measures = LaneMeasures::Make(std::move(own), training, task.Tensors());
  ASSERT_TRUE(measures.ok()) << measures.status();
  std::vector<TensorSpec> tensors = task.Tensors();
  tensors.insert(tensors.end(), (*measures)->sum_tensors().begin(),
                 (*measures)->sum_tensors().end());
  const Layout layout = Layout::Make(tensors, 64).value();
  ASSERT_TRUE(task.Bind(layout.ModelSpace()).ok());
  LaneRunner runner(task, layout, training, measures->get(), nullptr, metrics_, failpoints_);
  const SumPlaces places(training.validation, layout);
  ASSERT_TRUE((*measures)->Bind(layout).ok());
  const std::vector<float> values(static_cast<size_t>(layout.elements()));
  WhereLanesRun([&] {
    std::vector<float> sum(static_cast<size_t>(places.chunk().count));
    for (const int32_t lane : {0, 1, 2}) {
      std::vector<float> gradient(values.size());
      std::vector<size_t> ready;
      const GradientSink sink{absl::MakeSpan(gradient), [](LaneOutput) {},
                              [&](size_t tensor) { ready.push_back(tensor); }};
      EXPECT_TRUE(runner.Run(LineageNumber(1), Step(2), LaneId(lane), values, sink).ok());
      EXPECT_EQ(ready.size(), tensors.size()) << "every tensor is final, sums too";
      for (size_t i = 0; i < sum.size(); ++i)
        sum[i] += gradient[static_cast<size_t>(places.chunk().offset) + i];
    }
    std::vector<float> state(sum.size());
    places.Apply(training, task.SampleCount(), Step(2), sum, state, absl::MakeSpan(state));
    EXPECT_EQ(places.Read(state).measures, (std::vector<Measure>{{55, 11}}));
  });
  EXPECT_EQ(measuring.batches,
            (std::vector<std::vector<uint64_t>>{{0, 1}, {2}, {3, 4}, {5, 6}, {7, 8}, {9, 10}}));
  EXPECT_EQ(measuring.seen, static_cast<size_t>(layout.model_elements()));
  EXPECT_GT(Phase("validation"), 0);
  measuring.batches.clear();
  WhereLanesRun([&] {
    std::vector<float> gradient(values.size());
    const GradientSink sink{absl::MakeSpan(gradient), [](LaneOutput) {}, [](size_t) {}};
    EXPECT_TRUE(runner.Run(LineageNumber(1), Step(3), LaneId(0), values, sink).ok());
    for (int64_t i = 0; i < places.chunk().count; ++i)
      EXPECT_EQ(gradient[static_cast<size_t>(places.chunk().offset + i)], 0);
  });
  EXPECT_TRUE(measuring.batches.empty());
}

// Leaves out the first and the last sample of each lane.
class Leaving final : public AroundCounting {
 public:
  using AroundCounting::AroundCounting;
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    absl::StatusOr<LaneOutput> output = AroundCounting::RunLane(input, std::move(sink));
    if (output.ok()) output->left_out = {0, static_cast<uint32_t>(input.samples.size()) - 1};
    return output;
  }
};

TEST_F(LaneRunnerTest, WhatATaskLeavesOutIsToldByItsPlaceInTheStep) {
  TrainingSpec training = SmallTraining();
  training.lanes = 2;  // of 4 and 3 samples
  training.data.on_bad_sample = OnBadSample::kSkip;
  Leaving task(training);
  std::vector<TensorSpec> tensors = task.Tensors();
  tensors.push_back(LeftOutTensor(training));
  const Layout layout = Layout::Make(tensors, 64).value();
  ASSERT_TRUE(task.Bind(layout.ModelSpace()).ok());
  LaneRunner runner(task, layout, training, nullptr, nullptr, metrics_, failpoints_);
  const SumPlaces places(training.validation, layout);
  const auto count = static_cast<size_t>(places.chunk().count);
  const std::vector<float> values(static_cast<size_t>(layout.elements()));
  std::vector<float> sum(count), state(count);
  WhereLanesRun([&] {
    for (const int32_t lane : {0, 1}) {
      std::vector<float> gradient(values.size());
      std::vector<size_t> ready;
      const GradientSink sink{absl::MakeSpan(gradient), [](LaneOutput) {},
                              [&](size_t tensor) { ready.push_back(tensor); }};
      EXPECT_TRUE(runner.Run(LineageNumber(1), Step(0), LaneId(lane), values, sink).ok());
      EXPECT_EQ(ready.size(), tensors.size()) << "every tensor is final, sums too";
      for (size_t i = 0; i < count; ++i)
        sum[i] += gradient[static_cast<size_t>(places.chunk().offset) + i];
    }
  });
  places.Apply(training, task.SampleCount(), Step(0), sum, state, absl::MakeSpan(state));
  EXPECT_EQ(places.Read(state).left_out, (std::vector<uint64_t>{0, 3, 4, 6}));
}

TEST_F(LaneRunnerTest, ATaskLeavesNothingOutOfAJobThatStops) {
  Leaving task(training_);
  LaneRunner runner = RunnerOf(task);
  WhereLanesRun([&] {
    const absl::Status ran = RunLane(runner).status();
    EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(ran.message().find("data.on_bad_sample is stop"), absl::string_view::npos) << ran;
  });
}

// Otherwise what a recovery computes again would be known no more.
TEST_F(LaneRunnerTest, ALaneThatCannotBeCountedDoesNotRun) {
  const std::string folder = testing::TempDir() + "lane-runner-" + std::to_string(getpid());
  const auto counter = LaneCounter::Open(folder + "/worker-0.lanes", {1, 2});
  ASSERT_TRUE(counter.ok()) << counter.status();
  Claiming task(training_, 0);
  LaneRunner runner = RunnerOf(task, counter->get());
  WhereLanesRun([&] { EXPECT_TRUE(RunLane(runner).ok()); });
  const double before = Phase("compute");
  std::filesystem::remove_all(folder);
  std::ofstream(folder) << "a file in the place of its folder";
  WhereLanesRun(
      [&] { EXPECT_EQ(RunLane(runner).status().code(), absl::StatusCode::kUnavailable); });
  EXPECT_EQ(Phase("compute"), before);
  std::filesystem::remove(folder);
}

using LaneRunnerDeathTest = LaneRunnerTest;

TEST_F(LaneRunnerDeathTest, AThreadThatKeepsSubnormalNumbersRunsNoLane) {
  Claiming task(training_, 0);
  LaneRunner runner = RunnerOf(task);
  ASSERT_FALSE(FloatEnvironmentIsSet());
  EXPECT_DEATH(RunLane(runner).IgnoreError(), "subnormal");
}

TEST_F(LaneRunnerDeathTest, ATaskThatChangesTheEnvironmentIsFound) {
  Claiming task(training_, 0);
  task.spoils_rounding = true;
  LaneRunner runner = RunnerOf(task);
  EXPECT_DEATH(WhereLanesRun([&] { RunLane(runner).IgnoreError(); }),
               "leave the float environment");
}

}  // namespace
}  // namespace muster::worker
