// What the train thread makes of its commands: lanes that are added to a step, lanes that were
// given up, memory that frames still read.
#include "worker/runtime/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/domain/lanes.h"
#include "lib/task/counting.h"
#include "tests/support/around_counting.h"
#include "tests/support/take_event.h"

namespace muster::worker {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Values = std::vector<float>;

constexpr uint64_t kSamples = 11;

Values CopyOf(const FlatPtr& memory) { return {memory->all().begin(), memory->all().end()}; }

class TrainerTest : public testing::Test {
 protected:
  TrainerTest() {
    TrainerParts parts;
    parts.port = &port_;
    parts.events = events_;
    parts.copied = &copied_;
    parts.metrics = &registry_;
    parts.failpoints = &failpoints_;
    parts.make_task = [this](const TrainingSpec& training, DataPart, const auto&) {
      return make_(training);
    };
    parts.comes = [this](const JobSpec& job) { patience_ = job.runtime.thread_patience; };
    trainer_ = std::make_unique<Trainer>(std::move(parts));
    thread_ = std::thread([this] { trainer_->Run(); });
    TrainingSpec& training = job_.spec.training;
    training.task = "counting";
    training.data.samples = kSamples;
    training.batch = 11;  // of the four lanes three have three samples, one has two
    training.lanes = 4;
    training.steps = 5;
    training.chunk_bytes = 64;
    training.optimizer.kind = OptimizerKind::kSgd;
    training.optimizer.learning_rate = 1;
    port_.box.Post(DoPrepare{job_});
    setup_ = Take<Prepared>().setup.value();
    state_ = setup_->pool->BorrowZeroed();
  }
  ~TrainerTest() override {
    port_.box.Close();
    thread_.join();
  }

  template <class E>
  E Take() {
    return TakeEvent<E>(*events_);
  }
  // The subtrees of all lanes of step 0 that the train thread has now.
  std::map<TreeNode, FlatPtr> Compute(int64_t id, std::vector<LaneId> lanes) {
    port_.box.Post(
        DoCompute{{id, Step(0), std::move(lanes), {}, {}, kSamples}, LineageNumber(1), state_});
    std::map<TreeNode, FlatPtr> sums;
    for (size_t chunks = 0; chunks < static_cast<size_t>(setup_->layout.chunk_count());) {
      GradientsReady ready = Take<GradientsReady>();
      chunks += ready.ready.chunks.size();
      sums = std::move(ready.sums);
    }
    return sums;
  }
  static double Total(const FlatPtr& sum) {
    double total = 0;
    for (float v : sum->all()) total += static_cast<double>(v);
    return total;
  }

  JobIs job_;
  std::function<std::unique_ptr<Task>(const TrainingSpec&)> make_ = MakeCounting;
  double patience_ = 0;  // of the job that came last; the train thread's
  Metrics registry_{{}, "test"};
  CopyCounter copied_{0};
  Failpoints failpoints_{[](absl::string_view) {}};
  TrainPort port_;
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::unique_ptr<Trainer> trainer_;
  std::thread thread_;
  SetupPtr setup_;
  FlatPtr state_;
};

// What a task opens is to know how long it may wait.
TEST_F(TrainerTest, AJobIsToldBeforeItsTaskIsMade) {
  double known = 0;
  make_ = [&](const TrainingSpec& training) {
    known = patience_;
    return MakeCounting(training);
  };
  job_.spec.runtime.thread_patience = 600;
  port_.box.Post(DoPrepare{job_});
  ASSERT_TRUE(Take<Prepared>().setup.ok());
  EXPECT_EQ(known, 600);
}

// The first sum may be on its way to an owner when the view changes and adds a lane.
TEST_F(TrainerTest, SumsThatWentOutStayAsTheyAreWhenALaneIsAdded) {
  const auto first = Compute(1, {LaneId(0)});
  ASSERT_EQ(first.size(), 1u);
  const Values before = CopyOf(first.begin()->second);
  const auto both = Compute(2, {LaneId(1)});
  ASSERT_EQ(both.size(), 1u);
  EXPECT_EQ(both.begin()->first, (TreeNode{0, 2}));
  EXPECT_EQ(CopyOf(first.begin()->second), before);
  EXPECT_EQ(Total(both.begin()->second), -6.0) << "three samples each";
}

// After a rewind the same step is computed anew.
TEST_F(TrainerTest, LanesThatWereGivenUpAreNotInTheNextSumsOfTheirStep) {
  Compute(1, {LaneId(0), LaneId(1)});
  port_.abandoned = 2;
  port_.box.Post(DoAbandon{2});
  const Abandoned abandoned = Take<LanesAbandoned>().abandoned;
  EXPECT_EQ(abandoned.id, 2);
  EXPECT_EQ(abandoned.lanes_run, 2);
  const auto again = Compute(3, {LaneId(1)});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again.begin()->first, (TreeNode{1, 2}));
  EXPECT_EQ(Total(again.begin()->second), -3.0);
}

// A frame with a piece of the state may wait for a slow receiver while the step is applied.
TEST_F(TrainerTest, AStateThatFramesStillReadIsNotWritten) {
  const FlatPtr results = setup_->pool->BorrowZeroed();
  for (float& v : results->all()) v = -1;
  for (const bool lent : {true, false}) {
    const FlatPtr before = state_;
    port_.box.Post(DoApply{{Step(0), std::nullopt}, results, {state_, {}}, lent});
    const StateMemory after = Take<StateApplied>().state;
    EXPECT_EQ(after.values == before, !lent) << "what nobody reads is written in place";
    if (lent) {
      EXPECT_THAT(CopyOf(before), Each(0.0f));
    }
    state_ = setup_->pool->BorrowZeroed();
  }
}

// As batch norm, which has no variance of one sample.
class NeedsTwoSamples final : public AroundCounting {
 public:
  using AroundCounting::AroundCounting;
  absl::StatusOr<LaneOutput> RunLane(const LaneInput&, GradientSink) override {
    return absl::FailedPreconditionError("one sample is too few");
  }
};

class FailingProbeTest : public TrainerTest {
 protected:
  std::string Refused(OnBadSample on_bad_sample) {
    make_ = [](const TrainingSpec& training) {
      return std::make_unique<NeedsTwoSamples>(training);
    };
    job_.spec.training.data.on_bad_sample = on_bad_sample;
    port_.box.Post(DoPrepare{job_});
    const absl::Status status = Take<Prepared>().setup.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  }
};

TEST_F(FailingProbeTest, NamesItsSamples) {
  EXPECT_EQ(Refused(OnBadSample::kStop),
            "probe lane of the first 4 samples: one sample is too few");
}

TEST_F(FailingProbeTest, SaysWhatToDoWhereTheyMayBeBad) {
  EXPECT_THAT(Refused(OnBadSample::kSkip),
              AllOf(HasSubstr("without those that cannot be read (data.on_bad_sample;"),
                    HasSubstr("put others first in data.paths): one sample is too few")));
}

}  // namespace
}  // namespace muster::worker
