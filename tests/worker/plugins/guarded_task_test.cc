#include "worker/plugins/guarded_task.h"

#include <cerrno>
#include <functional>
#include <memory>
#include <new>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/printable.h"
#include "lib/domain/layout.h"
#include "lib/kernels/float_env.h"
#include "tests/support/meeting_task.h"
#include "tests/worker/plugins/name_of.h"
#include "tests/worker/plugins/odd_task.h"
#include "tests/worker/tasks/lane_rig.h"

namespace muster::worker {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<Task>> Make(const std::string& does) {
  TaskOptions options;
  options.parameters["does"] = does;
  const bool may_leave_out =
      absl::StartsWith(does, "leaves out") && does != "leaves out what it may not";
  return MakeGuarded("odd", may_leave_out ? OnBadSample::kSkip : OnBadSample::kStop,
                     [&] { return OddType().make(options); });
}

struct Oddity {
  const char* does;
  absl::StatusCode code;
  const char* says;
  friend std::ostream& operator<<(std::ostream& out, const Oddity& oddity) {
    return out << oddity.does;
  }
};

class WhenItIsMade : public testing::TestWithParam<Oddity> {};
TEST_P(WhenItIsMade, ItIsSaidInASentence) {
  const absl::Status made = Make(GetParam().does).status();
  EXPECT_EQ(made.code(), GetParam().code) << made;
  EXPECT_THAT(std::string(made.message()), HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    Oddities, WhenItIsMade,
    testing::Values(
        Oddity{"throws when it is made", absl::StatusCode::kFailedPrecondition,
               "task odd throws when it is made: no luck"},
        Oddity{"throws a number", absl::StatusCode::kFailedPrecondition,
               "throws what is no exception"},
        Oddity{"is nothing", absl::StatusCode::kFailedPrecondition, "is not made"},
        Oddity{"has no memory when it is made", absl::StatusCode::kResourceExhausted,
               "task odd: no room for the model"},
        Oddity{"has no tensor", absl::StatusCode::kFailedPrecondition, "no parameter"},
        Oddity{"has a name of other bytes", absl::StatusCode::kFailedPrecondition,
               "task odd: the name of tensor 'caf?\\x1b' is not UTF-8"},
        Oddity{"has a long name", absl::StatusCode::kFailedPrecondition,
               "...' has 1000000 bytes; at most 65536 are allowed"},
        Oddity{"has many tensors", absl::StatusCode::kFailedPrecondition,
               "the model has 200000 tensors, with what is measured of it; at most 100000 are"},
        Oddity{"has no sample", absl::StatusCode::kFailedPrecondition, "has 0 samples"},
        Oddity{"has no hash", absl::StatusCode::kFailedPrecondition,
               "a hash of its data of 0 characters"},
        Oddity{"has other tensors when asked again", absl::StatusCode::kFailedPrecondition,
               "task odd has other tensors when it is asked again: 2 of them, and "
               "then 1; they are fixed once it is made"},
        Oddity{"has another shape when asked again", absl::StatusCode::kFailedPrecondition,
               "'b' of 2 × 2, and then 'b' of 2 × 3"},
        Oddity{"has another name when asked again", absl::StatusCode::kFailedPrecondition,
               "'a' of 3, and then 'c' of 3"},
        Oddity{"has another kind when asked again", absl::StatusCode::kFailedPrecondition,
               "'b' of 2 × 2, and then of another kind or type"}),
    [](const auto& instance) { return NameOf(instance.param.does); });

class InALane : public testing::TestWithParam<Oddity> {
 protected:
  InALane() { SetFloatEnvironment(); }
};
TEST_P(InALane, ItIsSaidInASentence) {
  LaneRig rig(Make(GetParam().does).value());
  const FlatMemory gradient = rig.Memory();
  std::vector<uint64_t> samples = {1, 2};
  std::vector<size_t> ready;
  int outcomes = 0;
  const absl::Status ran = rig.task()
                               .RunLane({.samples = samples, .parameters = rig.parameters().span()},
                                        {gradient.span(), [&](LaneOutput) { ++outcomes; },
                                         [&](size_t tensor) { ready.push_back(tensor); }})
                               .status();
  EXPECT_EQ(ran.code(), GetParam().code) << ran;
  EXPECT_THAT(std::string(ran.message()), HasSubstr(GetParam().says));
  // What goes on is what the trainer can take.
  EXPECT_LE(outcomes, 1);
  EXPECT_LE(ready.size(), 2u);
  for (size_t tensor : ready) EXPECT_LT(tensor, 2u);
  EXPECT_TRUE(FloatEnvironmentIsSet());
}
INSTANTIATE_TEST_SUITE_P(
    Oddities, InALane,
    testing::Values(
        Oddity{"throws in a lane", absl::StatusCode::kInternal, "task odd throws: no lane"},
        Oddity{"throws in a hook", absl::StatusCode::kInternal, "task odd throws: no hook"},
        Oddity{"finds bad data", absl::StatusCode::kDataLoss, "rows.csv:7: no number"},
        Oddity{"has no memory in a lane", absl::StatusCode::kResourceExhausted,
               "task odd: no room for it"},
        Oddity{"asks for more memory than there is", absl::StatusCode::kResourceExhausted,
               "task odd: there is no memory left; make its model, its data or its batch smaller"},
        Oddity{"rounds otherwise", absl::StatusCode::kFailedPrecondition,
               "how the processor rounds"},
        Oddity{"weighs too much", absl::StatusCode::kFailedPrecondition,
               "has weight 9223372036854775807"},
        Oddity{"weighs too little", absl::StatusCode::kFailedPrecondition, "has weight -1"},
        Oddity{"has a loss of nothing", absl::StatusCode::kFailedPrecondition,
               "task odd tells a loss of 3.5 and a weight of 0; the weight is of how many samples"},
        Oddity{"is ready too early", absl::StatusCode::kFailedPrecondition, "before its outcome"},
        Oddity{"never tells its outcome", absl::StatusCode::kFailedPrecondition,
               "before its outcome"},
        Oddity{"tells its outcome twice", absl::StatusCode::kFailedPrecondition, "outcome twice"},
        Oddity{"is ready twice", absl::StatusCode::kFailedPrecondition, "twice that tensor 1"},
        Oddity{"has more than it has", absl::StatusCode::kFailedPrecondition, "tensor 2 is ready"},
        Oddity{"is never ready", absl::StatusCode::kFailedPrecondition,
               "has not told that tensor 0 is ready"},
        Oddity{"tells another outcome", absl::StatusCode::kFailedPrecondition, "returns weight 3"},
        Oddity{"tells another loss", absl::StatusCode::kFailedPrecondition,
               "returns loss 1 and has told 0"},
        Oddity{"leaves out what it may not", absl::StatusCode::kFailedPrecondition,
               "leaves out samples, and data.on_bad_sample is stop"},
        Oddity{"leaves out a sample that there is not", absl::StatusCode::kFailedPrecondition,
               "leaves out sample 9 of 2"},
        Oddity{"leaves out a sample twice", absl::StatusCode::kFailedPrecondition,
               "leaves out sample 1 of 2"},
        Oddity{"leaves out all and weighs", absl::StatusCode::kFailedPrecondition,
               "has weight 2 for 0 samples that are not left out"},
        Oddity{"leaves out another sample", absl::StatusCode::kFailedPrecondition,
               "returns other samples that are left out than it has told"}),
    [](const auto& instance) { return NameOf(instance.param.does); });

TEST(GuardedTask, WhatDoesAsItShouldIsPassedOn) {
  SetFloatEnvironment();
  LaneRig rig(Make("as it should").value());
  FlatMemory gradient = rig.Memory();
  const auto output = rig.Run({3, 4}, 1, gradient);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->weight, 2);
  EXPECT_EQ(rig.layout().tensors().size(), 2u);
  EXPECT_EQ(gradient.data()[rig.layout().tensors()[0].offset], 7.0f);
}

// Members could not tell their coordinator of more.
TEST(GuardedTask, WhatItLeavesOutIsCut) {
  const std::string told = Make("leaves out a long list").value()->DataLeftOut();
  EXPECT_LE(told.size(), kMostLinesBytes + 64);
  EXPECT_THAT(told, testing::StartsWith("\\nxxx"));
  EXPECT_THAT(told, testing::EndsWith("... (cut: the task tells 8000001 bytes)"));
}

TEST(GuardedTask, WhatIsThrownBeforeTheFirstLaneIsAnError) {
  SetFloatEnvironment();
  const auto task = Make("throws when it begins").value();
  std::vector<float> none;
  EXPECT_THAT(std::string(task->Initialize(1, absl::MakeSpan(none)).message()),
              HasSubstr("task odd throws: no weights"));
}

// Makes what it is told to, and nothing else.
class Writing final : public Task, public Generates {
 public:
  std::vector<TensorSpec> Tensors() const override { return {{"a", {3}}}; }
  uint64_t SampleCount() const override { return 40; }
  std::string DataHash() const override { return "ids"; }
  absl::Status Bind(const FlatSpace&) override { return absl::OkStatus(); }
  absl::Status Initialize(uint64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput&, GradientSink) override {
    return absl::UnimplementedError("it writes alone");
  }
  absl::StatusOr<std::string> Generate(absl::Span<const float>, const std::string& prompt, size_t,
                                       uint64_t, const TextListener& told) override {
    if (prompt == "throws") throw std::runtime_error("no word");
    ThrowIfError(told("a"));
    ThrowIfError(told(prompt));
    return "abc";
  }
};

TEST(GuardedTask, WhatItTellsWhileItWritesIsTheBeginOfWhatItGives) {
  SetFloatEnvironment();
  const auto task = MakeGuarded("writer", OnBadSample::kStop, [] {
                      return absl::StatusOr<std::unique_ptr<Task>>(std::make_unique<Writing>());
                    }).value();
  std::string heard;
  const auto writes = [&](const char* prompt, const absl::Status& answer) {
    heard.clear();
    const auto text = task->generates()->Generate({}, prompt, 3, 1, [&](absl::string_view piece) {
      absl::StrAppend(&heard, piece);
      return answer;
    });
    return text.ok() ? *text : text.status().ToString();
  };
  EXPECT_EQ(writes("b", absl::OkStatus()), "abc");
  EXPECT_EQ(heard, "ab");
  EXPECT_EQ(writes("b", absl::CancelledError("enough")), "CANCELLED: enough");
  EXPECT_EQ(heard, "a");
  EXPECT_THAT(writes("x", absl::OkStatus()),
              HasSubstr("task writer has told pieces of another text than it gives"));
  EXPECT_THAT(writes("throws", absl::OkStatus()), HasSubstr("task writer throws: no word"));
}

// Reads ahead, and does nothing else.
class Reading final : public Task, public ReadsAhead {
 public:
  explicit Reading(std::vector<ComingLane>& told) : told_(told) {}
  std::vector<TensorSpec> Tensors() const override { return {{"a", {3}}}; }
  uint64_t SampleCount() const override { return 40; }
  std::string DataHash() const override { return "ids"; }
  absl::Status Bind(const FlatSpace&) override { return absl::OkStatus(); }
  absl::Status Initialize(uint64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput&, GradientSink) override {
    return absl::UnimplementedError("it reads alone");
  }
  absl::Status Coming(std::vector<ComingLane> lanes) override {
    if (lanes.empty()) throw std::runtime_error("nothing comes");
    told_ = std::move(lanes);
    return absl::OkStatus();
  }

 private:
  std::vector<ComingLane>& told_;
};

TEST(GuardedTask, IsToldWhatComesWhereTheTaskReadsAhead) {
  SetFloatEnvironment();
  EXPECT_EQ(Make("as it should").value()->reads_ahead(), nullptr);
  std::vector<ComingLane> told;
  const auto task = MakeGuarded("reading", OnBadSample::kStop, [&] {
                      return std::make_unique<Reading>(told);
                    }).value();
  ASSERT_NE(task->reads_ahead(), nullptr);
  EXPECT_TRUE(task->reads_ahead()->Coming({{2, {7, 9}}}).ok());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].epoch, 2);
  EXPECT_EQ(told[0].samples, (std::vector<uint64_t>{7, 9}));
  EXPECT_THAT(std::string(task->reads_ahead()->Coming({}).message()),
              HasSubstr("task reading throws: nothing comes"));
}

TEST(GuardedTask, WhatIsThrownWhenItPreparesIsAnError) {
  SetFloatEnvironment();
  struct Row {
    std::function<absl::Status()> prepare;
    absl::StatusCode code;
    const char* says;
  };
  const Row rows[] = {
      {[] { return absl::OkStatus(); }, absl::StatusCode::kOk, ""},
      {[] { return absl::DataLossError("rows.csv:7"); }, absl::StatusCode::kDataLoss, "rows.csv:7"},
      {[]() -> absl::Status { throw TaskError(absl::DataLossError("rows.csv:8")); },
       absl::StatusCode::kDataLoss, "rows.csv:8"},
      {[]() -> absl::Status { throw std::runtime_error("no luck"); },
       absl::StatusCode::kFailedPrecondition, "task odd throws when it prepares: no luck"},
      {[]() -> absl::Status { throw 7; }, absl::StatusCode::kFailedPrecondition,
       "task odd throws what is no exception when it prepares"},
      {[]() -> absl::Status { throw std::bad_alloc(); }, absl::StatusCode::kResourceExhausted,
       "task odd: there is no memory left"},
      {[]() -> absl::Status { throw std::system_error(ENOSPC, std::generic_category()); },
       absl::StatusCode::kResourceExhausted, "No space left on device: free some space"},
      {[] {
         _mm_setcsr(_mm_getcsr() & ~0x8040u);
         return absl::OkStatus();
       },
       absl::StatusCode::kFailedPrecondition, "has changed how the processor rounds"},
  };
  for (const Row& row : rows) {
    const absl::Status prepared = PrepareGuarded("odd", row.prepare);
    EXPECT_EQ(prepared.code(), row.code) << prepared;
    EXPECT_THAT(std::string(prepared.message()), HasSubstr(row.says));
    EXPECT_TRUE(FloatEnvironmentIsSet());
  }
}

// One that calls what it learns a phase.
class NoPhase final : public MeetingTask {
 public:
  NoPhase() : MeetingTask(7, 2) {}
  std::vector<TensorSpec> Phases() const override { return {{"weight", {3}}}; }
};

TEST(GuardedTask, PhasesAreToldOnAndAreOfTheirKind) {
  const auto meeting = MakeGuarded("meeting", OnBadSample::kStop,
                                   [] { return std::make_unique<MeetingTask>(7, 2); });
  ASSERT_TRUE(meeting.ok()) << meeting.status();
  ASSERT_NE((*meeting)->syncs(), nullptr);
  EXPECT_EQ((*meeting)->syncs()->Phases(), MeetingTask(7, 2).Phases());
  EXPECT_EQ(Make("as it should").value()->syncs(), nullptr);
  const auto wrong =
      MakeGuarded("wrong", OnBadSample::kStop, [] { return std::make_unique<NoPhase>(); });
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wrong.status().message()),
              HasSubstr("task wrong tells phase 'weight', which is no phase"));
}

// Has fewer phases when it is asked again, or measures something else.
class Wavering final : public MeetingTask, public Evaluates {
 public:
  enum class In { kNothing, kPhases, kMetrics };
  explicit Wavering(In in) : MeetingTask(7, 2), in_(in) {}
  std::vector<TensorSpec> Phases() const override {
    std::vector<TensorSpec> phases = MeetingTask::Phases();
    if (phases_asked_++ > 0 && in_ == In::kPhases) phases.pop_back();
    return phases;
  }
  std::vector<TaskMetric> Metrics() const override {
    if (metrics_asked_++ > 0 && in_ == In::kMetrics) return {{"loss"}, {"accuracy"}};
    return {{"loss"}};
  }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t>,
                                                      absl::Span<const float>) override {
    return absl::UnimplementedError("it is only asked");
  }

 private:
  const In in_;
  mutable int phases_asked_ = 0;
  mutable int metrics_asked_ = 0;
};

TEST(GuardedTask, PhasesAndMetricsAreTheSameWhenItIsAskedAgain) {
  const auto made = [](Wavering::In in) {
    return MakeGuarded("wavering", OnBadSample::kStop,
                       [in] { return std::make_unique<Wavering>(in); })
        .status();
  };
  EXPECT_TRUE(made(Wavering::In::kNothing).ok()) << made(Wavering::In::kNothing);
  const absl::Status phases = made(Wavering::In::kPhases);
  EXPECT_EQ(phases.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(phases.message()),
              HasSubstr("task wavering has other phases when it is asked again: 3 of them, and "
                        "then 2"));
  const absl::Status metrics = made(Wavering::In::kMetrics);
  EXPECT_EQ(metrics.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(metrics.message()),
              HasSubstr("task wavering has other metrics when it is asked again"));
}

}  // namespace
}  // namespace muster::worker
