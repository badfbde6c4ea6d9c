// Sending overlaps with the backward pass of the last lane, and costs no copies.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "lib/transport/counters.h"
#include "lib/wire/message_codec.h"
#include "tests/support/cluster.h"

namespace muster {
namespace {

constexpr int kTensors = 16;
constexpr int64_t kElements = 4096;  // 16 KiB each

constexpr uint64_t kModelBytes = kTensors * kElements * sizeof(float);

// Of one worker.
struct Sent {
  std::atomic<uint64_t> handed_over{0};  // payload bytes of partial sums given to Send
  std::atomic<int> in_time{0};           // steps in which half of them were, before the last tensor
};

// A model of many tensors whose backward pass, at its last tensor, waits until half of all partial
// sums have been handed to the network: it would wait for ever if they left only after it.
class Gradual final : public Task {
 public:
  explicit Gradual(Sent& sent) : sent_(sent) {}

  std::vector<TensorSpec> Tensors() const override {
    std::vector<TensorSpec> tensors;
    for (int t = 0; t < kTensors; ++t)
      tensors.push_back({absl::StrCat("t", t), {kElements}, TensorKind::kParameter});
    return tensors;
  }
  uint64_t SampleCount() const override { return 8; }
  std::string DataHash() const override { return "none"; }
  absl::Status Bind(const FlatSpace& space) override {
    space_ = space;
    return absl::OkStatus();
  }
  absl::Status Initialize(uint64_t, absl::Span<float>) override { return absl::OkStatus(); }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    const LaneOutput output{static_cast<int64_t>(input.samples.size()), 1.0};
    const bool last = input.lane % 2 == 1;  // of a worker that holds two lanes
    const uint64_t before = sent_.handed_over;
    sink.outcome(output);
    for (size_t t = kTensors; t-- > 0;) {
      for (float& v :
           sink.gradient.subspan(static_cast<size_t>(space_.tensors[t].offset), kElements))
        v = static_cast<float>(input.lane + 1);
      if (t == 0 && last) AwaitHalf(before);
      sink.ready(t);
    }
    return output;
  }

 private:
  // A worker sends the chunks that the other one owns: half of the model.
  void AwaitHalf(uint64_t before) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (sent_.handed_over - before < kModelBytes / 2 / 2) {
      if (std::chrono::steady_clock::now() > patience) return;
      std::this_thread::yield();
    }
    ++sent_.in_time;
  }

  Sent& sent_;
  FlatSpace space_;
};

JobSpec GradualSpec() {
  JobSpec spec;
  spec.training.task = "counting";  // only a name: the test makes its own
  spec.training.lanes = 4;
  spec.training.batch = 8;
  spec.training.steps = 6;
  spec.training.chunk_bytes = 4096;
  spec.runtime.workers_min = spec.runtime.workers_max = 2;
  spec.runtime.checkpoint.every_seconds = 0;
  spec.runtime.first_bucket_bytes = 16 << 10;
  spec.runtime.bucket_bytes = 32 << 10;
  return spec;
}

class OverlapTest : public testing::Test {
 protected:
  OverlapTest() { std::filesystem::create_directories(dir_); }
  ~OverlapTest() override { std::filesystem::remove_all(dir_); }

  TestMemberOptions Worker(const std::string& name, Sent& sent) {
    TestMemberOptions options;
    options.name = name;
    options.make_task = [&sent](const TrainingSpec&, DataPart, const auto&) {
      return std::make_unique<Gradual>(sent);
    };
    options.spoil = [&sent](Frame& frame) {
      const auto message = DecodePeerMessage(frame.header);
      if (message.ok() && std::holds_alternative<Partials>(*message))
        sent.handed_over += frame.payload.size();
    };
    return options;
  }

  const std::string dir_ = testing::TempDir() + "overlap-" + std::to_string(getpid());
  LoopNetwork network_;
};

TEST_F(OverlapTest, HalfOfTheBytesAreHandedOverBeforeTheLastTensor) {
  TestCoordinator coordinator(network_, dir_);
  Sent by_one, by_two;
  TestMember one(network_, coordinator.address(), Worker("worker-0", by_one));
  TestMember two(network_, coordinator.address(), Worker("worker-1", by_two));
  coordinator.Submit("job", GradualSpec());
  const coordinator::JobJournal job = coordinator.AwaitEnd("job");
  EXPECT_EQ(job.phase, coordinator::JobPhase::kDone) << job.reason;
  one.AwaitExit();
  two.AwaitExit();
  for (const Sent* sent : {&by_one, &by_two}) {
    EXPECT_EQ(sent->in_time, 6) << "every step";
    EXPECT_EQ(sent->handed_over, 6 * kModelBytes / 2);
  }
  // Nothing is copied on the way out. On the way in partial sums are added where they lie and
  // results are copied once, to where they land: half a model per worker and step. Besides,
  // state(0) was copied to the worker that did not make it, and the last checkpoint's parts are
  // one model.
  const uint64_t copied = one.copied() + two.copied();
  EXPECT_EQ(copied, (6 + 1 + 1) * kModelBytes);
  EXPECT_LE(static_cast<double>(copied) / static_cast<double>(network_.counters().bytes_sent),
            0.65);
}

}  // namespace
}  // namespace muster
