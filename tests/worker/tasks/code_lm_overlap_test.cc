// Sending overlaps with the backward pass of a real model: `code-lm`, through autograd's own hooks.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/wire/message_codec.h"
#include "tests/support/cluster.h"
#include "tests/worker/tasks/lane_rig.h"
#include "tests/worker/tasks/small_specs.h"
#include "worker/tasks/make_task.h"

namespace muster::worker {
namespace {

constexpr int64_t kSteps = 6;

// Of one worker.
struct Sent {
  std::atomic<uint64_t> handed_over{0};  // payload bytes of partial sums given to Send
  std::atomic<int> in_time{0};           // steps in which half of them were, before the last hook
};

// Torch's default generator, which makes first weights, is one for both workers of this process.
Mutex generator_in_use;

// The real task, but within the hook of the last tensor of a worker's last lane it waits until half
// of the step's partial sums have been handed to the network: it would wait for ever if they left
// only after backward. How much a step sends is learned from the first.
class HeldAtTheLastHook final : public Task {
 public:
  HeldAtTheLastHook(const TrainingSpec& training, Sent& sent) : sent_(sent) {
    MutexLock lock(generator_in_use);
    task_ = MakeTask(training).value();
  }

  std::vector<TensorSpec> Tensors() const override { return task_->Tensors(); }
  uint64_t SampleCount() const override { return task_->SampleCount(); }
  std::string DataHash() const override { return task_->DataHash(); }
  absl::Status Bind(const FlatSpace& space) override { return task_->Bind(space); }
  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    MutexLock lock(generator_in_use);
    return task_->Initialize(seed, parameters);
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    const bool last_lane = input.lane % 2 == 1;  // of a worker that holds two
    if (!last_lane) {  // the probe of a worker that joins, too: each lane seeds the generator
      MutexLock lock(generator_in_use);
      return task_->RunLane(input, std::move(sink));
    }
    const uint64_t before = sent_.handed_over;
    if (input.step == 1) bytes_of_a_step_ = before;
    size_t hooks = 0;
    const GradientSink watched{sink.gradient, sink.outcome, [&](size_t tensor) {
                                 if (++hooks == task_->Tensors().size() && input.step > 0)
                                   AwaitHalf(before);
                                 sink.ready(tensor);
                               }};
    return task_->RunLane(input, watched);
  }

 private:
  void AwaitHalf(uint64_t before) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (2 * (sent_.handed_over - before) < bytes_of_a_step_) {
      if (std::chrono::steady_clock::now() > patience) return;
      std::this_thread::yield();
    }
    ++sent_.in_time;
  }

  Sent& sent_;
  std::unique_ptr<Task> task_;
  uint64_t bytes_of_a_step_ = 0;
};

JobSpec SpecOf(const TrainingSpec& training) {
  JobSpec spec;
  spec.training = training;
  spec.training.parameters["dropout"] = 0;  // it would draw from the generator that both share
  spec.training.lanes = 4;
  spec.training.batch = 8;
  spec.training.steps = kSteps;
  spec.training.chunk_bytes = 4096;
  spec.runtime.workers_min = spec.runtime.workers_max = 2;
  spec.runtime.checkpoint.every_seconds = 0;
  spec.runtime.first_bucket_bytes = 4096;  // buckets that fit a model of some 100 KB
  spec.runtime.bucket_bytes = 8192;
  return spec;
}

TestMemberOptions WorkerOf(const std::string& name, Sent& sent) {
  TestMemberOptions options;
  options.name = name;
  options.make_task = [&sent](const TrainingSpec& training, DataPart, const auto&) {
    return std::make_unique<HeldAtTheLastHook>(training, sent);
  };
  options.spoil = [&sent](Frame& frame) {
    const auto message = DecodePeerMessage(frame.header);
    if (message.ok() && std::holds_alternative<Partials>(*message))
      sent.handed_over += frame.payload.size();
  };
  return options;
}

TEST(CodeLmOverlap, HalfOfTheBytesAreHandedOverBeforeTheLastHook) {
  const std::string dir = testing::TempDir() + "code-lm-overlap-" + std::to_string(getpid());
  std::filesystem::create_directories(dir);
  {
    LoopNetwork network;
    TestCoordinator coordinator(network, dir);
    Sent by_one, by_two;
    TestMember one(network, coordinator.address(), WorkerOf("worker-0", by_one));
    TestMember two(network, coordinator.address(), WorkerOf("worker-1", by_two));
    coordinator.Submit("job", SpecOf(SmallCodeLm()));
    const coordinator::JobJournal job = coordinator.AwaitEnd("job");
    EXPECT_EQ(job.phase, coordinator::JobPhase::kDone) << job.reason;
    one.AwaitExit();
    two.AwaitExit();
    for (const Sent* sent : {&by_one, &by_two}) {
      EXPECT_EQ(sent->in_time, kSteps - 1) << "every step but the first";
      EXPECT_GT(sent->handed_over, 0u);
    }
  }
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace muster::worker
