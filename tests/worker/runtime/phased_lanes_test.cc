// What the train thread makes of commands about lanes that meet in phases: what it tells, in which
// order, and under which compute.
#include "worker/runtime/phased_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "lib/domain/lanes.h"
#include "tests/support/meeting_task.h"
#include "tests/support/take_event.h"
#include "worker/runtime/trainer.h"

namespace muster::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kSamples = 11;
constexpr size_t kMet = 3;  // phases that lanes meet; one more is met by none

// It notes the threads that it is measured on.
class MeasuredMeetingTask final : public MeetingTask, public Evaluates {
 public:
  explicit MeasuredMeetingTask(std::vector<std::thread::id>& threads)
      : MeetingTask(kSamples, kMet), threads_(threads) {}
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}}; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float>) override {
    threads_.push_back(std::this_thread::get_id());
    return std::vector<TaskMetricSum>{{1, static_cast<double>(samples.size())}};
  }

 private:
  std::vector<std::thread::id>& threads_;
};

class PhasedLanesTest : public testing::Test {
 protected:
  explicit PhasedLanesTest(bool is_measured = false) {
    TrainerParts parts;
    parts.port = &port_;
    parts.events = events_;
    parts.copied = &copied_;
    parts.metrics = &registry_;
    parts.failpoints = &failpoints_;
    parts.make_task = [this](const TrainingSpec&, DataPart, const auto&) {
      return std::make_unique<MeasuredMeetingTask>(measured_on_);
    };
    trainer_ = std::make_unique<Trainer>(std::move(parts));
    thread_ = std::thread([this] { trainer_->Run(); });
    JobIs job;
    TrainingSpec& training = job.spec.training;
    training.task = "meeting";
    training.sync_batch_norm = true;
    training.batch = 11;
    training.lanes = 4;
    training.steps = 5;
    training.chunk_bytes = 64;
    training.optimizer.kind = OptimizerKind::kSgd;
    training.optimizer.learning_rate = 1;
    if (is_measured) training.validation.every_steps = 1;
    port_.box.Post(DoPrepare{job});
    setup_ = Take<Prepared>().setup.value();
    state_ = setup_->pool->BorrowZeroed();
    totals_ = setup_->pool->BorrowZeroed();
    for (float& total : totals_->all()) total = 2;
  }
  ~PhasedLanesTest() override {
    port_.box.Close();
    thread_.join();
  }

  template <class E>
  E Take() {
    return TakeEvent<E>(*events_);
  }
  std::vector<ChunkId> ChunksOf(std::vector<size_t> phases) const {
    std::vector<ChunkId> chunks;
    for (const size_t p : phases) {
      const PhasePlace& place = setup_->layout.phases()[p];
      for (int32_t c = 0; c < place.chunks; ++c) chunks.emplace_back(place.first_chunk.value() + c);
    }
    return chunks;
  }
  void Compute(int64_t id, std::vector<LaneId> lanes, std::vector<size_t> totals = {},
               Step step = Step(0)) {
    port_.box.Post(DoCompute{{id, step, std::move(lanes), {}, ChunksOf(totals), kSamples},
                             LineageNumber(1),
                             state_,
                             totals_});
  }
  void Give(std::vector<size_t> phases, Step step = Step(0)) {
    port_.box.Post(DoGiveTotals{{step, ChunksOf(std::move(phases))}, totals_});
  }
  // The phases that are told next, `count` of them, each with what it brings to these nodes.
  std::vector<size_t> Told(int64_t id, size_t count, std::vector<TreeNode> nodes) {
    std::vector<size_t> told;
    while (told.size() < count) {
      const GradientsReady ready = Take<GradientsReady>();
      EXPECT_EQ(ready.ready.id, id);
      EXPECT_THAT(ready.sums, IsEmpty());
      for (size_t p = 0; p <= kMet; ++p)
        if (ready.ready.chunks == ChunksOf({p})) told.push_back(p);
      std::vector<TreeNode> of;
      for (const Partial& partial : ready.ready.partials) {
        of.push_back(partial.node);
        EXPECT_EQ(partial.weight, 0);
        for (const ChunkId chunk : ready.ready.chunks)
          EXPECT_EQ(ready.phases.count({chunk, partial.node}), 1U);
      }
      EXPECT_EQ(of, nodes);
    }
    return told;
  }

  std::vector<std::thread::id> measured_on_;  // of the train thread
  Metrics registry_{{}, "test"};
  CopyCounter copied_{0};
  Failpoints failpoints_{[](absl::string_view) {}};
  TrainPort port_;
  const std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::unique_ptr<Trainer> trainer_;
  std::thread thread_;
  SetupPtr setup_;
  FlatPtr state_, totals_;
};

TEST_F(PhasedLanesTest, EachPhaseIsToldOnceAllLanesBroughtItAndGradientsAfterTheLastTotal) {
  ASSERT_GT(setup_->layout.phases()[1].chunks, 1) << "a phase may have several";
  const std::vector<TreeNode> both = {{0, 2}};
  Compute(1, {LaneId(0), LaneId(1)});
  EXPECT_THAT(Told(1, 2, both), ElementsAre(kMet, 0)) << "one is met by nobody";
  Give({0}, Step(3));  // of a step whose lanes are not here
  Give({0});
  EXPECT_THAT(Told(1, 1, both), ElementsAre(1));
  std::vector<ChunkId> half = ChunksOf({1});
  const ChunkId rest = half.back();
  half.pop_back();
  port_.box.Post(DoGiveTotals{{Step(0), half}, totals_});
  port_.box.Post(DoGiveTotals{{Step(0), {rest}}, totals_});
  EXPECT_THAT(Told(1, 1, both), ElementsAre(2));
  Give({2, kMet});
  std::set<ChunkId> chunks;
  while (chunks.size() + ChunksOf({0, 1, 2, 3}).size() <
         static_cast<size_t>(setup_->layout.chunk_count())) {
    const GradientsReady ready = Take<GradientsReady>();
    EXPECT_THAT(ready.phases, IsEmpty());
    ASSERT_EQ(ready.ready.partials.size(), 1U);
    EXPECT_EQ(ready.ready.partials[0].weight, 6) << "three samples each";
    chunks.insert(ready.ready.chunks.begin(), ready.ready.chunks.end());
  }
}

class MeasuredPhasedLanesTest : public PhasedLanesTest {
 protected:
  MeasuredPhasedLanesTest() : PhasedLanesTest(/*is_measured=*/true) {}
};

// As Evaluates promises, though lanes have threads of their own.
TEST_F(MeasuredPhasedLanesTest, LanesAreMeasuredOnTheTrainThread) {
  const size_t probed = measured_on_.size();
  Compute(1, {LaneId(0), LaneId(1)}, {}, Step(1));
  Told(1, 1, {{0, 2}});
  EXPECT_GT(measured_on_.size(), probed);
  EXPECT_THAT(measured_on_, testing::Each(thread_.get_id()));
}

// As a change of view adds a lane whose holder was lost, while others wait.
TEST_F(PhasedLanesTest, ALaneThatIsAddedGetsTheTotalsAndAllIsToldAgain) {
  Compute(1, {LaneId(0), LaneId(1)});
  Told(1, 2, {{0, 2}});
  Give({0});
  Told(1, 1, {{0, 2}});
  Compute(2, {LaneId(2)}, {0});
  EXPECT_THAT(Told(2, 3, {{0, 2}, {2, 3}}), ElementsAre(kMet, 0, 1));
  Give({1, 2});
  EXPECT_THAT(Told(2, 1, {{0, 2}, {2, 3}}), ElementsAre(2));
  EXPECT_EQ(Take<GradientsReady>().sums.size(), 2U);
}

TEST_F(PhasedLanesTest, LanesThatWaitAreGivenUpAndRunAnew) {
  Compute(1, {LaneId(0), LaneId(1)});
  Told(1, 2, {{0, 2}});
  Give({0});
  Told(1, 1, {{0, 2}});
  port_.abandoned = 2;
  port_.box.Post(DoAbandon{2});
  EXPECT_EQ(Take<LanesAbandoned>().abandoned.lanes_run, 2);
  Give({1});  // too late
  Compute(3, {LaneId(1)});
  EXPECT_THAT(Told(3, 2, {{1, 2}}), ElementsAre(kMet, 0)) << "from the beginning";
}

// All chunks were fetched from others: nothing that lanes wait for comes any more.
TEST_F(PhasedLanesTest, AStepIsAppliedWhileItsLanesWait) {
  Compute(1, {LaneId(0), LaneId(3)});
  Told(1, 2, {{0, 1}, {3, 4}});
  const FlatPtr results = setup_->pool->BorrowZeroed();
  port_.box.Post(DoApply{{Step(0), std::nullopt}, results, {state_, {}}, false});
  EXPECT_EQ(Take<StateApplied>().step, Step(0));
}

}  // namespace
}  // namespace muster::worker
