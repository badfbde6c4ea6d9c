// The train thread of a follower: it reads checkpoints and measures them, and trains nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/domain/validation.h"
#include "lib/kernels/float_env.h"
#include "tests/lib/checkpoint/support.h"
#include "tests/support/take_event.h"
#include "worker/runtime/lane_measures.h"
#include "worker/runtime/trainer.h"

namespace muster::worker {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTrained = 10, kMeasured = 11;

// The ugly model. A sample's loss is a weighted sum of all parameters.
class Weighing final : public Task, public Evaluates {
 public:
  Weighing(DataPart part, std::atomic<int>& alive)
      : samples_(part == DataPart::kTraining ? kTrained : kMeasured), alive_(alive) {
    ++alive_;
  }
  ~Weighing() override { --alive_; }

  std::vector<TensorSpec> Tensors() const override { return UglyTensors(); }
  uint64_t SampleCount() const override { return samples_; }
  std::string DataHash() const override { return absl::StrCat("weighing ", samples_); }
  absl::Status Bind(const FlatSpace&) override { return absl::OkStatus(); }
  absl::Status Initialize(uint64_t, absl::Span<float> parameters) override {
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i] = static_cast<float>(i % 7);
    return absl::OkStatus();
  }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    const LaneOutput output{.weight = static_cast<int64_t>(input.samples.size()), .loss = 1};
    sink.outcome(output);
    for (size_t t = 0; t < UglyTensors().size(); ++t) sink.ready(t);
    return output;
  }
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> values) override {
    TaskMetricSum sum;
    for (const uint64_t id : samples)
      for (size_t i = 0; i < values.size(); ++i)
        sum.sum += static_cast<double>(values[i]) / static_cast<double>(i + id + 3);
    sum.weight = static_cast<double>(samples.size());
    return std::vector<TaskMetricSum>{sum};
  }

 private:
  const uint64_t samples_;
  std::atomic<int>& alive_;
};

class FollowerTrainerTest : public DirTest {
 protected:
  void SetUp() override {
    DirTest::SetUp();
    job_.job = kJob;
    job_.checkpoint_dir = dir_;
    TrainingSpec& training = job_.spec.training;
    training.task = "weighing";
    training.batch = 6;
    training.lanes = 3;
    training.steps = 20;
    training.chunk_bytes = kUglyChunkBytes;
    training.optimizer.kind = OptimizerKind::kAdam;
    training.validation = {.every_steps = 4, .batch = 2, .on = MeasuredOn::kFollower, .delay = 2};
  }
  void TearDown() override {
    End();
    DirTest::TearDown();
  }

  void End() {
    if (!thread_.joinable()) return;
    port_->box.Close();
    thread_.join();
  }

  // The train thread of a follower, or of a worker.
  absl::StatusOr<SetupPtr> Prepare(bool follows) {
    End();
    port_ = std::make_unique<TrainPort>();
    TrainerParts parts;
    parts.port = port_.get();
    parts.events = events_;
    parts.copied = &copied_;
    parts.metrics = &registry_;
    parts.failpoints = &failpoints_;
    parts.follows = follows;
    parts.make_task = [this](const TrainingSpec&, DataPart part,
                             const auto&) -> std::unique_ptr<Task> {
      return std::make_unique<Weighing>(part, part == DataPart::kTraining ? trains_ : measures_);
    };
    trainer_ = std::make_unique<Trainer>(std::move(parts));
    thread_ = std::thread([this] { trainer_->Run(); });
    port_->box.Post(DoPrepare{job_});
    return Take<Prepared>().setup;
  }

  template <class E>
  E Take() {
    return TakeEvent<E>(*events_);
  }
  MeasureEnded Measure(int64_t id, const Manifest& manifest) {
    port_->box.Post(DoMeasure{{id, manifest}});
    return Take<StateMeasured>().ended;
  }

  Manifest Saved(const muster::Setup& setup, uint64_t seed, int64_t step) {
    return *Save(*files_, setup.layout, MakeState(setup.layout, seed), 1, step, 2, kUglyChunkBytes,
                 setup.environment.tensors);
  }
  // What lanes bring of that state.
  MeasureSums Expected(const muster::Setup& setup, uint64_t seed) {
    const State state = MakeState(setup.layout, seed);
    absl::StatusOr<MeasureSums> sums = absl::InternalError("not measured");
    std::thread([&] {
      SetFloatEnvironment();
      auto measures =
          LaneMeasures::Make(std::make_unique<Weighing>(DataPart::kValidation, measures_),
                             job_.spec.training, UglyTensors())
              .value();
      EXPECT_TRUE(measures->Bind(setup.layout).ok());
      const absl::Span<const float> all = state.slots[0];
      sums = measures->MeasureAll(all.first(static_cast<size_t>(setup.layout.model_elements())),
                                  [] { return absl::OkStatus(); });
    }).join();
    return sums.value();
  }

  JobIs job_;
  Metrics registry_{{}, "test"};
  CopyCounter copied_{0};
  Failpoints failpoints_{[](absl::string_view) {}};
  std::atomic<int> trains_{0}, measures_{0};  // tasks that are there
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::unique_ptr<TrainPort> port_;
  std::unique_ptr<Trainer> trainer_;
  std::thread thread_;
};

TEST_F(FollowerTrainerTest, MeasuresTheCheckpointsThatItIsAskedFor) {
  const absl::StatusOr<SetupPtr> setup = Prepare(/*follows=*/true);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ(trains_, 0) << "it keeps no data that it does not measure with";
  for (const uint64_t seed : {1, 2}) {
    const auto id = static_cast<int64_t>(seed);
    const MeasureEnded ended = Measure(id, Saved(**setup, seed, 4 * id));
    EXPECT_EQ(ended.id, id);
    ASSERT_TRUE(ended.sums.ok()) << ended.sums.status();
    EXPECT_EQ(*ended.sums, Expected(**setup, seed));
  }
  EXPECT_NE(Expected(**setup, 1), Expected(**setup, 2));
}

TEST_F(FollowerTrainerTest, ADamagedCheckpointIsSaidAndTheNextOneMeasured) {
  const SetupPtr setup = Prepare(/*follows=*/true).value();
  const Manifest damaged = Saved(*setup, 1, 4), sound = Saved(*setup, 2, 8);
  const std::string file = dir_ + "/" + damaged.segments[0].file;
  // The values come first; what stands behind them is not read.
  FlipBits(file, std::filesystem::file_size(file) / 8, 0x10);
  const MeasureEnded ended = Measure(1, damaged);
  EXPECT_EQ(ended.sums.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(ended.sums.status().message()), HasSubstr(damaged.segments[0].file));
  EXPECT_EQ(Measure(2, sound).sums.value(), Expected(*setup, 2));
  std::filesystem::remove(file);
  EXPECT_FALSE(Measure(3, damaged).sums.ok());
}

TEST_F(FollowerTrainerTest, WhatIsAskedForNoMoreIsNotMeasured) {
  const SetupPtr setup = Prepare(/*follows=*/true).value();
  const Manifest manifest = Saved(*setup, 1, 4);
  port_->abandoned = 3;
  port_->box.Post(DoMeasure{{2, manifest}});
  EXPECT_EQ(Measure(3, manifest).id, 3) << "of the second nothing is said";
}

TEST_F(FollowerTrainerTest, AWorkerFindsTheSameEnvironmentAndDropsWhatAFollowerMeasuresWith) {
  const SetupPtr follower = Prepare(/*follows=*/true).value();
  const SetupPtr worker = Prepare(/*follows=*/false).value();
  EXPECT_EQ(follower->environment, worker->environment);
  EXPECT_TRUE(worker->environment.numeric.contains("validation_probe"));
  EXPECT_EQ(trains_, 1);
  EXPECT_EQ(measures_, 0);
  job_.spec.training.validation.on = MeasuredOn::kWorkers;
  job_.spec.training.validation.delay = 1;
  const SetupPtr measuring = Prepare(/*follows=*/false).value();
  EXPECT_EQ(measures_, 1);
}

TEST_F(FollowerTrainerTest, AJobThatHasNoUseForItIsSaid) {
  TrainingSpec& training = job_.spec.training;
  training.validation = {.every_epochs = 2, .on = MeasuredOn::kFollower, .delay = 5};
  // Two steps an epoch.
  const absl::Status late = Prepare(/*follows=*/false).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition) << "it is the job's fault";
  EXPECT_THAT(std::string(late.message()), HasSubstr("validation.delay: 5"));
  training.validation = {.every_epochs = 2};
  EXPECT_EQ(Prepare(/*follows=*/true).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace muster::worker
