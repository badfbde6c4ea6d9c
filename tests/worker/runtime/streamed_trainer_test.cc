// What the train thread does for a job whose data is a stream: samples that nobody has told of are
// neither read nor read ahead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "lib/task/counting.h"
#include "tests/support/around_counting.h"
#include "tests/support/take_event.h"
#include "worker/runtime/trainer.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Ids = std::vector<uint64_t>;

struct Read {
  std::vector<ComingLane> coming, ran;
};

// Samples without an end, of which only the first few come.
class OfStream final : public AroundCounting, public ReadsAhead {
 public:
  OfStream(const TrainingSpec& training, Read& read) : AroundCounting(training), read_(read) {}

  uint64_t SampleCount() const override { return kMostSamples; }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    read_.ran.push_back({input.epoch, {input.samples.begin(), input.samples.end()}});
    return AroundCounting::RunLane(input, std::move(sink));
  }
  absl::Status Coming(std::vector<ComingLane> lanes) override {
    read_.coming = std::move(lanes);
    return absl::OkStatus();
  }

 private:
  Read& read_;
};

class StreamedTrainerTest : public testing::Test {
 protected:
  StreamedTrainerTest() {
    TrainingSpec& training = job_.spec.training;
    training.task = "counting";
    training.data.samples = 64;
    training.stream = StreamFrom::kSocket;
    training.batch = 4;
    training.lanes = 2;
    training.epochs = 1;
    training.optimizer.kind = OptimizerKind::kSgd;
    training.optimizer.learning_rate = 1;
  }
  ~StreamedTrainerTest() override {
    port_.box.Close();
    if (thread_.joinable()) thread_.join();
  }

  absl::StatusOr<SetupPtr> Prepare(bool has_data_set) {
    TrainerParts parts;
    parts.port = &port_;
    parts.events = events_;
    parts.copied = &copied_;
    parts.metrics = &registry_;
    parts.failpoints = &failpoints_;
    parts.make_task = [this, has_data_set](
                          const TrainingSpec& training, DataPart,
                          std::shared_ptr<const SpoolMap> spool) -> std::unique_ptr<Task> {
      given_ = std::move(spool);
      if (has_data_set) return std::make_unique<OfStream>(training, read_);
      return MakeCounting(training);
    };
    trainer_ = std::make_unique<Trainer>(std::move(parts));
    thread_ = std::thread([this] { trainer_->Run(); });
    port_.box.Post(DoPrepare{job_, spool_});
    return TakeEvent<Prepared>(*events_).setup;
  }
  // What is read for both lanes of a step.
  Read Compute(const SetupPtr& setup, int64_t step, uint64_t samples, bool next_is_known) {
    read_ = {};
    port_.box.Post(
        DoCompute{{++id_, Step(step), {LaneId(0), LaneId(1)}, {}, {}, samples, next_is_known},
                  LineageNumber(1),
                  setup->pool->BorrowZeroed()});
    for (size_t chunks = 0; chunks < static_cast<size_t>(setup->layout.chunk_count());)
      chunks += TakeEvent<GradientsReady>(*events_).ready.chunks.size();
    return read_;
  }

  JobIs job_;
  const std::shared_ptr<const SpoolMap> spool_ = std::make_shared<const SpoolMap>("/nowhere");
  std::shared_ptr<const SpoolMap> given_;
  Read read_;
  int64_t id_ = 0;
  Metrics registry_{{}, "test"};
  CopyCounter copied_{0};
  Failpoints failpoints_{[](absl::string_view) {}};
  TrainPort port_;
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::unique_ptr<Trainer> trainer_;
  std::thread thread_;
};

TEST_F(StreamedTrainerTest, PreparesWithSamplesThatAreMade) {
  const absl::StatusOr<SetupPtr> setup = Prepare(true);
  ASSERT_TRUE(setup.ok()) << setup.status();
  EXPECT_EQ((*setup)->environment.samples, kMostSamples);
  EXPECT_EQ(given_, spool_);
  ASSERT_EQ(read_.ran.size(), 1u);
  EXPECT_EQ(read_.ran[0].epoch, -1) << "nothing may have come yet";
  EXPECT_THAT(read_.ran[0].samples, ElementsAre(0, 1, 2, 3));
}

TEST_F(StreamedTrainerTest, ReadsAheadWhatIsKnown) {
  const SetupPtr setup = Prepare(true).value();
  const Read alone = Compute(setup, 0, kMostSamples, /*next_is_known=*/false);
  ASSERT_EQ(alone.coming.size(), 2u);
  EXPECT_EQ(alone.coming[0].samples, (Ids{0, 1}));
  EXPECT_EQ(alone.coming[1].samples, (Ids{2, 3}));
  ASSERT_EQ(alone.ran.size(), 2u);
  EXPECT_EQ(alone.ran[0].epoch, 0);
  EXPECT_EQ(alone.ran[0].samples, (Ids{0, 1}));
  const Read both = Compute(setup, 1, kMostSamples, /*next_is_known=*/true);
  ASSERT_EQ(both.coming.size(), 4u);
  EXPECT_EQ(both.coming[0].samples, (Ids{4, 5}));
  EXPECT_EQ(both.coming[3].samples, (Ids{10, 11}));
}

TEST_F(StreamedTrainerTest, TheLastStepHasWhatIsLeft) {
  const SetupPtr setup = Prepare(true).value();
  const Read last = Compute(setup, 1, /*samples=*/5, /*next_is_known=*/false);
  ASSERT_EQ(last.ran.size(), 1u) << "the second lane is empty";
  EXPECT_EQ(last.ran[0].samples, (Ids{4}));
}

TEST_F(StreamedTrainerTest, ATaskWithSamplesOfItsOwnIsRefused) {
  const absl::Status status = Prepare(false).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("data.format: task counting"));
  EXPECT_THAT(read_.ran, IsEmpty());
}

}  // namespace
}  // namespace muster::worker
