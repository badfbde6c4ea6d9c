#include "worker/commands/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/kernels/float_env.h"
#include "tests/support/meeting_task.h"
#include "tests/worker/commands/agreeing.h"
#include "worker/commands/check_text.h"

namespace muster::worker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

enum class Fault {
  kNone,
  kWrongGradient,
  kCarriesOver,
  kNotFinite,
  kZeroGradient,
  kDetached,  // all weights but the first, as a part that a module detaches
  kDrowns,    // in a loss beside which no difference can be seen
  kKinks      // where the biases begin
};

// Each sample pulls all parameters towards its id: loss Σ (p - id)² / 2 over parameters.
class Pulling : public Task {
 public:
  explicit Pulling(Fault fault, std::string buffer = "batches")
      : fault_(fault), buffer_(std::move(buffer)) {}

  std::vector<TensorSpec> Tensors() const override {
    return {
        {"weight", {3, 5}}, {"bias", {5}}, {buffer_, {}, TensorKind::kBuffer, TensorType::kInt64}};
  }
  uint64_t SampleCount() const override { return 10; }
  std::string DataHash() const override { return "0123456789abcdef0123456789abcdef"; }
  absl::Status Bind(const FlatSpace& space) override {
    space_ = space;
    return absl::OkStatus();
  }
  absl::Status Initialize(uint64_t, absl::Span<float> parameters) override {
    for (const Placed& tensor : space_.tensors)
      for (int64_t i = 0; i < tensor.count; ++i)
        parameters[At(tensor, i)] = tensor.spec.name == "weight" ? 0.5F : 0.0F;
    return absl::OkStatus();
  }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    LaneOutput output{.weight = static_cast<int64_t>(input.samples.size())};
    for (const Placed& tensor : space_.tensors) {
      for (int64_t i = 0; i < tensor.count && tensor.spec.kind == TensorKind::kParameter; ++i) {
        for (const uint64_t id : input.samples) {
          const float away = input.parameters[At(tensor, i)] - static_cast<float>(id);
          output.loss += static_cast<double>(away) * static_cast<double>(away) / 2;
          sink.gradient[At(tensor, i)] += away;
        }
        if (fault_ == Fault::kKinks && tensor.spec.name == "bias")
          output.loss += 1000 * std::abs(static_cast<double>(input.parameters[At(tensor, i)]));
      }
    }
    const size_t bias = At(space_.tensors[1], 0);
    if (fault_ == Fault::kWrongGradient) sink.gradient[bias] *= 1.5F;
    if (fault_ == Fault::kCarriesOver) sink.gradient[bias] += static_cast<float>(lanes_++);
    if (fault_ == Fault::kDetached)
      std::fill_n(sink.gradient.begin() + space_.tensors[0].offset + 1, space_.tensors[0].count - 1,
                  0.0F);
    if (fault_ == Fault::kDrowns) output.loss += 1e12;
    if (fault_ == Fault::kNotFinite) output.loss = std::numeric_limits<double>::quiet_NaN();
    if (fault_ == Fault::kZeroGradient) std::fill(sink.gradient.begin(), sink.gradient.end(), 0.0F);
    sink.outcome(output);
    for (size_t t = 0; t < space_.tensors.size(); ++t) sink.ready(t);
    return output;
  }

 private:
  static size_t At(const Placed& tensor, int64_t i) {
    return static_cast<size_t>(tensor.offset + i);
  }

  const Fault fault_;
  const std::string buffer_;
  FlatSpace space_;
  int lanes_ = 0;
};

// A model of 512 GB.
class Huge final : public Pulling {
 public:
  Huge() : Pulling(Fault::kNone) {}
  std::vector<TensorSpec> Tensors() const override { return {{"weight", {int64_t{1} << 37}}}; }
};

// By samples of a stream, of which none has come.
class PullingStream final : public Pulling {
 public:
  PullingStream() : Pulling(Fault::kNone) {}
  uint64_t SampleCount() const override { return kMostSamples; }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    if (input.epoch >= 0) return absl::InternalError("a sample is asked for that nobody knows");
    return Pulling::RunLane(input, std::move(sink));
  }
};

// As batch norm: a lane's mean and variance need more than one sample.
class PullingPairs final : public Pulling {
 public:
  PullingPairs() : Pulling(Fault::kNone) {}
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    if (input.samples.size() < 2) return absl::FailedPreconditionError("one sample is too few");
    return Pulling::RunLane(input, std::move(sink));
  }
};

JobSpec Spec() {
  JobSpec spec;
  spec.training.task = "pulling";
  spec.training.batch = 4;
  spec.training.lanes = 4;
  spec.training.epochs = 2;
  spec.training.optimizer.kind = OptimizerKind::kAdam;
  spec.runtime.workers_max = 2;
  return spec;
}

CheckReport ReportOf(Fault fault, int gradients = 0) {
  SetFloatEnvironment();
  Pulling task(fault);
  absl::StatusOr<CheckReport> report = Check(Spec(), task, nullptr, {.gradients = gradients});
  EXPECT_EQ(report.status(), absl::OkStatus());
  return report.ok() ? *std::move(report) : CheckReport{};
}

TEST(CheckTest, TellsOfModelDataStepsAndLane) {
  const CheckReport report = ReportOf(Fault::kNone);
  EXPECT_EQ(report.parameters, 20);
  EXPECT_EQ(report.samples, 10U);
  EXPECT_EQ(report.steps_per_epoch, 3);
  EXPECT_EQ(report.steps, 6);
  EXPECT_EQ(report.lane.samples, 1);
  EXPECT_EQ(report.lane.weight, 1);
  EXPECT_GT(report.lane.gradient_norm, 0);
  EXPECT_TRUE(report.lane.is_repeatable);
  EXPECT_THAT(report.problems, IsEmpty());
}

// Whose lanes never return is found by it.
class PullingCounted final : public Pulling {
 public:
  PullingCounted() : Pulling(Fault::kNone) {}
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    ++lanes;
    EXPECT_EQ(told, lanes + 1) << "before each lane, and before the first weights";
    return Pulling::RunLane(input, std::move(sink));
  }

  int lanes = 0;
  int told = 0;
};

TEST(CheckTest, ItTellsThatItGoesOnBeforeEachLane) {
  SetFloatEnvironment();
  PullingCounted task;
  const absl::Status checked =
      Check(Spec(), task, nullptr, {.gradients = 3, .goes_on = [&task] { ++task.told; }}).status();
  ASSERT_TRUE(checked.ok()) << checked;
  EXPECT_GT(task.lanes, 2 + 2 * 3);
}

// It leaves more behind with each lane, such as a list that a script appends to, and a table that
// its first lane makes.
class PullingRemembers final : public Pulling, public Remembers {
 public:
  PullingRemembers() : Pulling(Fault::kNone) {}
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    ++lanes_;
    return Pulling::RunLane(input, std::move(sink));
  }
  std::map<std::string, std::string> Remembered() override {
    return {{"list", std::to_string(lanes_)}, {"table", lanes_ > 0 ? "made" : "none"}};
  }

 private:
  int lanes_ = 0;
};

TEST(CheckTest, WhatEachLaneChangesAndNobodyPutsBackIsAProblem) {
  SetFloatEnvironment();
  PullingRemembers task;
  const absl::StatusOr<CheckReport> report = Check(Spec(), task, nullptr, {.remembers = &task});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->lane.changes, ElementsAre("list"));
  EXPECT_THAT(report->problems,
              ElementsAre(HasSubstr("changes the model's attribute 'list', which is not put")));
  EXPECT_TRUE(report->lane.is_repeatable) << "its bits do not show it";
}

// A worker would refuse it, too, and no machine has so much.
TEST(CheckTest, AModelThatMemoryDoesNotHoldIsRefusedWithBothAmounts) {
  Huge task;
  const absl::Status refused = Check(Spec(), task, nullptr, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the model has 137438953472 parameters"),
                    HasSubstr("needs 3298.5 GB of memory and more, and may have ")));
}

// Ten samples in steps of four are two in the last one, which are one for each lane.
TEST(CheckTest, TriesTheSmallestLaneOfAnEpochsLastStep) {
  SetFloatEnvironment();
  PullingPairs task;
  JobSpec spec = Spec();
  spec.training.lanes = 2;
  const absl::Status few = Check(spec, task, nullptr, {}).status();
  EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(few.message(), "step 2, lane 1: one sample is too few");
  spec.training.epochs = 0;
  spec.training.steps = 2;
  EXPECT_TRUE(Check(spec, task, nullptr, {}).ok()) << "it ends before";
  spec.training.steps = 3;
  EXPECT_FALSE(Check(spec, task, nullptr, {}).ok());
  spec.training.batch = 5;
  EXPECT_TRUE(Check(spec, task, nullptr, {}).ok()) << "lanes of 3 and 2 in each step";
  spec.training.lanes = 1;
  spec.training.batch = 9;
  const absl::Status alone = Check(spec, task, nullptr, {}).status();
  EXPECT_EQ(alone.message(), "step 1, lane 0: one sample is too few");
}

// 48 elements in all, with holes; 32 of them parameters', which alone have slots.
TEST(CheckTest, CountsTheBuffersOfAWorkerAndOfAServer) {
  const CheckReport report = ReportOf(Fault::kNone);
  EXPECT_EQ(report.memory.state, 3 * 48 * 4);
  EXPECT_EQ(report.memory.slots, 2 * 32 * 4);
  EXPECT_EQ(report.memory.sums, 3 * 48 * 4)
      << "two lanes: their sum, one that is added, one that leaves";
  EXPECT_EQ(report.memory.copies, (48 + 2 * 32) * 4 / 2) << "of a half of the chunks";
  EXPECT_GT(report.memory.program, 0);
  EXPECT_EQ(report.memory.server, 0);
  Pulling task(Fault::kNone);
  JobSpec spec = Spec();
  spec.training.sync = Sync::kServer;
  spec.runtime.servers = 1;
  const CheckedMemory memory = Check(spec, task, nullptr, {})->memory;
  EXPECT_EQ(memory.slots, 0);
  EXPECT_EQ(memory.server, (4 * 48 + 2 * 32 + (48 + 2 * 32)) * 4);
}

// A measure takes as long as several steps: each sample that is measured is looked at so often.
class Measuring final : public Task, public Evaluates {
 public:
  std::vector<TensorSpec> Tensors() const override { return task_.Tensors(); }
  uint64_t SampleCount() const override { return 1000; }
  std::string DataHash() const override { return "fedcba9876543210fedcba9876543210"; }
  absl::Status Bind(const FlatSpace& space) override { return task_.Bind(space); }
  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    return task_.Initialize(seed, parameters);
  }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    return task_.RunLane(input, std::move(sink));
  }
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> values) override {
    TaskMetricSum sum;
    for (int again = 0; again < 100'000; ++again)
      sum.sum += static_cast<double>(values[static_cast<size_t>(again) % values.size()]);
    sum.weight = static_cast<double>(samples.size());
    return std::vector<TaskMetricSum>{sum};
  }

 private:
  Pulling task_{Fault::kNone};
};

TEST(CheckTest, SaysHowLongAFollowerNeedsAndWhatMemory) {
  SetFloatEnvironment();
  Pulling task(Fault::kNone);
  JobSpec spec = Spec();
  spec.training.validation = {.every_steps = 3, .on = MeasuredOn::kFollower, .delay = 2};
  const auto measures =
      LaneMeasures::Make(std::make_unique<Measuring>(), spec.training, task.Tensors()).value();
  const absl::StatusOr<CheckReport> report = Check(spec, task, measures.get(), {});
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_TRUE(report->follower);
  EXPECT_GT(report->follower->seconds, 0);
  EXPECT_GT(report->follower->steps, 2);
  EXPECT_THAT(report->notes, testing::Contains(HasSubstr("validation.delay: training may wait")));
  // 48 elements of the model, and 32 of sums.
  EXPECT_GE(report->memory.follower, report->memory.program + (48 + 32) * 4);
  EXPECT_THAT(CheckAsText(*report), HasSubstr("; the follower about "));
  EXPECT_THAT(CheckAsText(*report), HasSubstr("takes effect after 2"));
  const auto json = nlohmann::json::parse(CheckAsJson(*report));
  EXPECT_EQ(json["memory"]["follower"], report->memory.follower);
  EXPECT_GT(json["follower"]["steps"], 2);
  spec.training.validation.on = MeasuredOn::kWorkers;
  EXPECT_FALSE(Check(spec, task, measures.get(), {})->follower);
}

TEST(CheckTest, ADelayThatNoStepCanKeepIsSaid) {
  SetFloatEnvironment();
  Pulling task(Fault::kNone);
  JobSpec spec = Spec();
  spec.training.validation = {.every_epochs = 1, .on = MeasuredOn::kFollower, .delay = 4};
  const absl::Status refused = Check(spec, task, nullptr, {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("validation.delay: 4 is more than the 3"));
}

std::set<std::pair<std::string, int64_t>> EntriesOf(const CheckReport& report) {
  std::set<std::pair<std::string, int64_t>> entries;
  for (const CheckedGradient& g : report.gradients) entries.emplace(g.tensor, g.element);
  return entries;
}

TEST(CheckTest, ARightGradientAgreesAtEveryEntry) {
  const CheckReport report = ReportOf(Fault::kNone, 18);
  EXPECT_EQ(report.gradients.size(), 18U);
  EXPECT_EQ(EntriesOf(report).size(), 18U) << "none twice";
  for (const CheckedGradient& g : report.gradients) EXPECT_TRUE(g.agrees) << TextOf(g);
  EXPECT_THAT(report.problems, IsEmpty());
}

TEST(CheckTest, WhereAsManyAreAskedForEachEntryIsComparedOnce) {
  for (const int asked : {20, 40}) {
    const CheckReport report = ReportOf(Fault::kNone, asked);
    EXPECT_EQ(report.gradients.size(), 20U);
    EXPECT_EQ(EntriesOf(report).size(), 20U);
  }
}

// Of 20 entries 14 are wrong: those that are drawn by their size are not, as their gradient is 0.
TEST(CheckTest, APartOfTheGradientThatIsMissingIsFound) {
  const CheckReport report = ReportOf(Fault::kDetached, 8);
  EXPECT_EQ(report.gradients.size(), 8U);
  int wrong = 0;
  for (const CheckedGradient& g : report.gradients) {
    const bool is_missing = g.tensor == "weight" && g.element > 0;
    EXPECT_EQ(g.agrees, !is_missing) << g.tensor << "[" << g.element << "]";
    EXPECT_TRUE(g.is_told);
    wrong += is_missing ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("not that of the loss")));
}

TEST(CheckTest, TheGradientOfWhatIsFrozenIsNotCompared) {
  SetFloatEnvironment();
  Pulling task(Fault::kWrongGradient);
  JobSpec spec = Spec();
  spec.training.groups = {{.match = "bias", .frozen = true}};
  const absl::StatusOr<CheckReport> report = Check(spec, task, nullptr, {.gradients = 40});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->gradients.size(), 15U);
  for (const CheckedGradient& g : report->gradients) EXPECT_EQ(g.tensor, "weight");
  EXPECT_THAT(report->problems, IsEmpty());
}

TEST(CheckTest, AWrongGradientIsFoundWhereItIsWrong) {
  const CheckReport report = ReportOf(Fault::kWrongGradient, 40);
  int wrong = 0;
  for (const CheckedGradient& g : report.gradients) {
    EXPECT_EQ(g.agrees, g.tensor != "bias" || g.element != 0) << g.tensor << g.element;
    if (!g.agrees) ++wrong;
  }
  EXPECT_GT(wrong, 0);
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("not that of the loss")));
}

// An agreement within an uncertainty of any size would be one with every gradient.
TEST(CheckTest, WhereNothingCanBeToldNothingAgrees) {
  const CheckReport report = ReportOf(Fault::kDrowns, 16);
  EXPECT_EQ(report.gradients.size(), 16U);
  for (const CheckedGradient& g : report.gradients) EXPECT_FALSE(g.agrees || g.is_told) << g.tensor;
  EXPECT_THAT(report.problems, ElementsAre(HasSubstr("Whether the gradient is that of the loss "
                                                     "cannot be told at 16 of 16 entries")));
  EXPECT_THAT(CheckAsText(report), HasSubstr("]  cannot be told\n"));
  EXPECT_EQ(nlohmann::json::parse(CheckAsJson(report))["gradients"][0]["told"], false);
}

TEST(CheckTest, ATensorOfWhichNothingCanBeToldIsNoted) {
  const CheckReport report = ReportOf(Fault::kKinks, 40);
  for (const CheckedGradient& g : report.gradients)
    EXPECT_TRUE(g.tensor == "bias" ? !g.is_told : g.agrees) << TextOf(g);
  EXPECT_THAT(report.problems, IsEmpty());
  EXPECT_THAT(report.notes, testing::Contains(AllOf(HasSubstr("cannot be told at 5 of 20 entries"),
                                                    HasSubstr("of bias"))));
}

// Two layers with ReLU between them and, before that, batch norm over a lane's samples. A wrong one
// forgets what ReLU cuts off, or that a sample moves the mean and the deviation of all.
class SmallNet final : public Task {
 public:
  SmallNet(bool normalizes, bool is_wrong) : normalizes_(normalizes), is_wrong_(is_wrong) {}

  std::vector<TensorSpec> Tensors() const override {
    return {{"first", {kInside, kInputs}},
            {"gain", {kInside}},
            {"shift", {kInside}},
            {"last", {kInside}}};
  }
  uint64_t SampleCount() const override { return 40; }
  std::string DataHash() const override { return "sines"; }
  absl::Status Bind(const FlatSpace& space) override {
    space_ = space;
    return absl::OkStatus();
  }
  absl::Status Initialize(uint64_t, absl::Span<float> parameters) override {
    double angle = 0;
    for (size_t t = 0; t < space_.tensors.size(); ++t) {
      const Placed& tensor = space_.tensors[t];
      const double middle = t == kGain ? 1 : 0, most = t == kGain || t == kShift ? 0.1 : 0.8;
      for (int64_t i = 0; i < tensor.count; ++i)
        parameters[static_cast<size_t>(tensor.offset + i)] =
            static_cast<float>(middle + most * std::sin(angle += 12.9898));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    const size_t samples = input.samples.size();
    const auto count = static_cast<double>(samples);
    LaneOutput output{.weight = static_cast<int64_t>(samples)};
    std::vector<std::vector<double>> inputs, normal(samples, std::vector<double>(kInside));
    std::vector<double> deviations(kInside, 1.0), errors;
    for (const uint64_t id : input.samples) {
      const auto angle = 3 * static_cast<double>(id) + 1;
      inputs.push_back({std::sin(angle), std::sin(angle + 7), std::sin(angle + 14)});
    }
    for (size_t h = 0; h < kInside; ++h) {
      double mean = 0, square = 0;
      for (size_t s = 0; s < samples; ++s) {
        for (size_t i = 0; i < kInputs; ++i)
          normal[s][h] += Value(input, kFirst, h * kInputs + i) * inputs[s][i];
        mean += normal[s][h] / count;
      }
      for (size_t s = 0; s < samples; ++s)
        square += (normal[s][h] - mean) * (normal[s][h] - mean) / count;
      if (!normalizes_) continue;
      deviations[h] = std::sqrt(square + 1e-5);
      for (size_t s = 0; s < samples; ++s) normal[s][h] = (normal[s][h] - mean) / deviations[h];
    }
    for (size_t s = 0; s < samples; ++s) {
      double out = 0;
      for (size_t h = 0; h < kInside; ++h)
        out += Value(input, kLast, h) * std::max(Before(input, normal[s], h), 0.0);
      errors.push_back(out - (inputs[s][0] - inputs[s][1] * inputs[s][2]));
      output.loss += errors[s] * errors[s] / 2;
    }
    sink.outcome(output);
    for (size_t h = 0; h < kInside; ++h) {
      std::vector<double> back(samples);
      double mean = 0, along = 0;
      for (size_t s = 0; s < samples; ++s) {
        const double before = Before(input, normal[s], h);
        const bool passes = before > 0 || (is_wrong_ && !normalizes_);
        const double inside = passes ? errors[s] * Value(input, kLast, h) : 0;
        Add(sink, kLast, h, errors[s] * std::max(before, 0.0));
        Add(sink, kGain, h, inside * normal[s][h]);
        Add(sink, kShift, h, inside);
        back[s] = inside * Value(input, kGain, h);
        mean += back[s] / count;
        along += back[s] * normal[s][h] / count;
      }
      if (!normalizes_ || is_wrong_) mean = along = 0;
      for (size_t s = 0; s < samples; ++s)
        for (size_t i = 0; i < kInputs; ++i)
          Add(sink, kFirst, h * kInputs + i,
              (back[s] - mean - normal[s][h] * along) / deviations[h] * inputs[s][i]);
    }
    for (size_t t = 0; t < space_.tensors.size(); ++t) sink.ready(t);
    return output;
  }

 private:
  static constexpr size_t kInputs = 3, kInside = 8;
  enum Tensor : size_t { kFirst, kGain, kShift, kLast };

  size_t At(Tensor tensor, size_t i) const {
    return static_cast<size_t>(space_.tensors[tensor].offset) + i;
  }
  double Value(const LaneInput& input, Tensor tensor, size_t i) const {
    return static_cast<double>(input.parameters[At(tensor, i)]);
  }
  double Before(const LaneInput& input, const std::vector<double>& normal, size_t h) const {
    return normal[h] * Value(input, kGain, h) + Value(input, kShift, h);
  }
  void Add(const GradientSink& sink, Tensor tensor, size_t i, double value) const {
    sink.gradient[At(tensor, i)] += static_cast<float>(value);
  }

  const bool normalizes_;
  const bool is_wrong_;
  FlatSpace space_;
};

TEST(CheckTest, AWrongGradientIsFoundInNetsWithReluAndBatchNorm) {
  SetFloatEnvironment();
  JobSpec spec = Spec();
  spec.training.batch = 32;
  for (const bool normalizes : {false, true})
    for (const uint64_t seed : std::vector<uint64_t>{1, 2, 3}) {
      SCOPED_TRACE(normalizes);
      spec.training.seed = seed;
      SmallNet sound(normalizes, false), wrong(normalizes, true);
      const absl::StatusOr<CheckReport> of_sound = Check(spec, sound, nullptr, {.gradients = 24});
      const absl::StatusOr<CheckReport> of_wrong = Check(spec, wrong, nullptr, {.gradients = 24});
      ASSERT_TRUE(of_sound.ok() && of_wrong.ok()) << of_sound.status() << of_wrong.status();
      EXPECT_THAT(of_sound->problems, IsEmpty());
      int agree = 0;
      for (const CheckedGradient& g : of_sound->gradients) agree += g.agrees ? 1 : 0;
      EXPECT_GT(agree, 20) << "of 24";
      EXPECT_THAT(of_wrong->problems, ElementsAre(HasSubstr("not that of the loss")));
      for (const CheckedGradient& g : of_wrong->gradients)
        EXPECT_TRUE(g.agrees || g.tensor != "last") << g.computed << " " << g.difference;
    }
}

TEST(CheckTest, WhatALaneCarriesToTheNextIsFound) {
  EXPECT_THAT(ReportOf(Fault::kCarriesOver).problems,
              ElementsAre(HasSubstr("other bits when it is run again")));
}

TEST(CheckTest, ALossThatIsNoNumberIsFoundAndAGradientOfZeros) {
  EXPECT_THAT(ReportOf(Fault::kNotFinite, 4).problems, ElementsAre(HasSubstr("not finite")));
  EXPECT_THAT(ReportOf(Fault::kZeroGradient).problems, ElementsAre(HasSubstr("is zero")));
}

TEST(CheckTest, TellsOfEachTensorWhatItBeginsWith) {
  SetFloatEnvironment();
  const std::string file = testing::TempDir() + "check_test.safetensors";
  const std::string header = R"({"bias":{"dtype":"F32","shape":[5],"data_offsets":[0,20]},)"
                             R"("old":{"dtype":"U8","shape":[1],"data_offsets":[20,21]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  std::ofstream(file, std::ios::binary) << bytes << header << std::string(21, '\0');
  Pulling task(Fault::kNone);
  JobSpec spec = Spec();
  spec.training.initial = {.file = file, .strict = false};
  const absl::StatusOr<CheckReport> report = Check(spec, task, nullptr, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->initial->loaded, ElementsAre(false, true, false));
  const std::string text = CheckAsText(*report);
  EXPECT_THAT(text, HasSubstr("60 B  the task's own values\n"));
  EXPECT_THAT(text, HasSubstr("20 B  from the file\n"));
  EXPECT_THAT(text, HasSubstr("1 tensor begins as " + file + " has it, content "));
  EXPECT_THAT(text, HasSubstr("; 2 of 3 tensors begin at the task's own values: weight, batches; "
                              "1 tensor of the file is not used: old"));
  const auto json = nlohmann::json::parse(CheckAsJson(*report));
  EXPECT_EQ(json["tensors"][0]["loaded"], false);
  EXPECT_EQ(json["tensors"][1]["loaded"], true);
  EXPECT_EQ(json["initial"]["unused"], nlohmann::json({"old"}));
  spec.training.initial.strict = true;
  Pulling again(Fault::kNone);
  EXPECT_EQ(Check(spec, again, nullptr, {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

// Names of files are any bytes.
TEST(CheckTest, ANameThatIsNotUtf8IsToldToPrograms) {
  CheckReport report = ReportOf(Fault::kNone);
  report.left_out = "caf\xe9.txt, which is no image";
  EXPECT_EQ(nlohmann::json::parse(CheckAsJson(report))["data_left_out"],
            "caf\xef\xbf\xbd.txt, which is no image");
  EXPECT_THAT(CheckAsText(report), HasSubstr("left out: caf?.txt"));
}

TEST(CheckTest, TheBytesOfTheDataAreTold) {
  CheckReport report = ReportOf(Fault::kNone);
  report.bytes = 1536;
  EXPECT_THAT(CheckAsText(report), HasSubstr("data         10 samples of 1.5 KiB, content "));
  EXPECT_EQ(nlohmann::json::parse(CheckAsJson(report))["data_bytes"], 1536);
}

TEST(CheckTest, WhatIsHardlyMeantIsNotedAndTheJobIsFitToRun) {
  EXPECT_THAT(ReportOf(Fault::kNone).notes, IsEmpty());
  Pulling task(Fault::kNone, "1.running_mean");
  JobSpec spec = Spec();
  spec.training.lanes = 1;
  const absl::StatusOr<CheckReport> report = Check(spec, task, nullptr, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->notes,
              ElementsAre(HasSubstr("1 lane for 2 workers"), HasSubstr("a lane has 4 samples")));
  EXPECT_THAT(CheckAsText(*report), HasSubstr("\nnote         the model has batch norm (1.run"));
  EXPECT_THAT(CheckAsText(*report), HasSubstr("The job is fit to run."));
  EXPECT_EQ(nlohmann::json::parse(CheckAsJson(*report))["notes"].size(), 2U);
}

TEST(CheckTest, OfLanesThatMeetInPhasesItCountsAllThatAWorkerMayHold) {
  SetFloatEnvironment();
  MeetingTask task(10, 3);
  JobSpec spec = Spec();
  spec.training.sync_batch_norm = true;
  spec.runtime.workers_min = 2;
  spec.runtime.workers_max = 4;
  const absl::StatusOr<CheckReport> report = Check(spec, task, nullptr, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->phases.size(), 4U);
  constexpr int64_t kTermsOfALane = 3 + 37 + 5 + 6;
  const int64_t flat = report->memory.state / 3;
  EXPECT_EQ(report->memory.sums, 3 * flat + 2 * kTermsOfALane * 4) << "two lanes, one that leaves";
  EXPECT_THAT(CheckAsText(*report),
              HasSubstr("phases       4 in which all lanes of a step wait for "
                        "each other; a worker holds up to 2 of them at once"));
  EXPECT_EQ(nlohmann::json::parse(CheckAsJson(*report))["lanes_held"], 2);
  spec.training.lanes = 256;
  spec.training.threads = 10;
  EXPECT_THAT(std::string(Check(spec, task, nullptr, {}).status().message()),
              HasSubstr("sync_batch_norm: a worker may hold 128 lanes (lanes ÷ workers.min), each "
                        "with 10 threads"));
  Pulling plain(Fault::kNone);
  EXPECT_THAT(std::string(Check(spec, plain, nullptr, {}).status().message()),
              HasSubstr("sync_batch_norm: task pulling has no batch norm that could sync"));
}

TEST(CheckTest, OfAStreamALaneIsTriedOnMadeSamples) {
  SetFloatEnvironment();
  JobSpec spec = Spec();
  spec.training.epochs = 1;
  spec.training.data.format = DataFormat::kStream;
  spec.training.data.fields = {{"x", TensorType::kFloat32, {5}}};
  spec.training.stream = StreamFrom::kFolder;
  spec.runtime.stream.path = "/nowhere";
  PullingStream task;
  absl::StatusOr<CheckReport> report = Check(spec, task, nullptr, {.gradients = 20});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_EQ(report->sample_bytes, 20u);
  EXPECT_EQ(report->lane.samples, 1);
  const std::string text = CheckAsText(*report);
  EXPECT_THAT(text, HasSubstr("a stream of samples of 20 bytes, content"));
  EXPECT_THAT(text, HasSubstr("to the end of the stream, each of 4 samples in 4 lanes"));
  const auto json = nlohmann::json::parse(CheckAsJson(*report));
  EXPECT_EQ(json["sample_bytes"], 20);
  for (const char* unknown : {"samples", "steps", "steps_per_epoch"})
    EXPECT_FALSE(json.contains(unknown)) << unknown;
  spec.training.epochs = 0;
  spec.training.steps = 7;
  report = Check(spec, task, nullptr, {});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(CheckAsText(*report), HasSubstr("7 at most, each of"));
}

TEST(CheckTest, AStructureOfTheSpecificationIsOneForPrograms) {
  CheckReport report = ReportOf(Fault::kNone);
  report.spec.training.parameters = {{"blocks", R"([{"size":3},"relu"])"}, {"note", "[1]"}};
  report.declared = {TaskParameter::Structure("blocks", "[]", "in order"),
                     TaskParameter::Text("note", "", {}, "any")};
  const auto parameters = nlohmann::json::parse(CheckAsJson(report))["spec"]["parameters"];
  EXPECT_EQ(parameters["blocks"], nlohmann::json::parse(R"([{"size":3},"relu"])"));
  EXPECT_EQ(parameters["note"], "[1]");
}

TEST(CheckTest, PeopleAndProgramsReadTheSame) {
  const CheckReport report = ReportOf(Fault::kWrongGradient, 40);
  const std::string text = CheckAsText(report);
  for (const char* part : {"3 tensors, 20 parameters", "3×5", "int64", "10 samples", "6 in all",
                           "the same bits again", "bias[0]  DIFFERS", "problem"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(CheckAsText(ReportOf(Fault::kNone)), HasSubstr("The job is fit to run."));
  const auto json = nlohmann::json::parse(CheckAsJson(report));
  EXPECT_EQ(json["parameters"], 20);
  EXPECT_EQ(json["tensors"][2]["type"], "int64");
  EXPECT_EQ(json["memory"]["worker"], report.memory.worker());
  EXPECT_EQ(json["problems"].size(), 1U);
  EXPECT_FALSE(json.contains("data_bytes")) << "it reads no files";
  EXPECT_TRUE(
      nlohmann::json::parse(CheckAsJson(ReportOf(Fault::kNotFinite)))["lane"]["loss"].is_null());
}

}  // namespace
}  // namespace muster::worker
