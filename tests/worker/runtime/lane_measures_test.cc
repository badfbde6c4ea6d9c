// What one process measures of a state, lane after lane, beside what the lanes of workers add up
// to.
#include "worker/runtime/lane_measures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/kernels/float_env.h"
#include "lib/task/counting.h"
#include "muster/data_set.h"
#include "worker/runtime/gradient_tree.h"

namespace muster::worker {
namespace {

using testing::HasSubstr;

// Its measures are sums of terms of which no two are alike, so that another order, or another cut,
// would give other bits in plain floating point.
class Uneven final : public Task, public Evaluates {
 public:
  explicit Uneven(uint64_t samples) : samples_(samples) {}

  std::vector<TensorSpec> Tensors() const override { return {{"a", {3}}}; }
  uint64_t SampleCount() const override { return samples_; }
  std::string DataHash() const override { return hash; }
  absl::Status Bind(const FlatSpace&) override { return absl::OkStatus(); }
  absl::Status Initialize(uint64_t, absl::Span<float>) override { return absl::OkStatus(); }
  absl::StatusOr<LaneOutput> RunLane(const LaneInput&, GradientSink) override {
    return absl::InternalError("no lane is run");
  }
  std::vector<TaskMetric> Metrics() const override { return {{"loss"}, {"accuracy"}}; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> values) override {
    std::vector<TaskMetricSum> sums(metrics_told);
    for (const uint64_t id : samples) {
      if (id == broken) return absl::DataLossError("uneven.csv: broken");
      const auto x = static_cast<double>(id) + 0.7;
      sums[0].sum += std::sin(x) * 1e6 / x + static_cast<double>(values[id % 3]);
      sums[0].weight += 0.25;
      if (metrics_told > 1) sums[1].sum += id == no_number ? std::nan("") : 1 / x;
    }
    if (metrics_told > 1) sums[1].weight = static_cast<double>(samples.size());
    return sums;
  }

  std::string hash = "uneven";
  size_t metrics_told = 2;
  uint64_t broken = std::numeric_limits<uint64_t>::max();
  uint64_t no_number = broken;

 private:
  const uint64_t samples_;
};

struct Rig {
  Rig(int32_t lanes, uint64_t samples) {
    training.lanes = lanes;
    training.batch = 2 * lanes;
    training.validation = {.every_steps = 2, .batch = 3};
    auto own = std::make_unique<Uneven>(samples);
    task = own.get();
    std::vector<TensorSpec> tensors = own->Tensors();
    measures = LaneMeasures::Make(std::move(own), training, tensors).value();
    tensors.insert(tensors.end(), measures->sum_tensors().begin(), measures->sum_tensors().end());
    layout = Layout::Make(tensors, 64).value();
    places = SumPlaces(training.validation, layout);
    EXPECT_TRUE(measures->Bind(layout).ok());
    values = {0.125F, -3.5F, 1e-3F};
  }

  absl::StatusOr<MeasureSums> All() {
    absl::StatusOr<MeasureSums> terms = absl::InternalError("not measured");
    std::thread([&] {
      SetFloatEnvironment();
      terms = measures->MeasureAll(values, [this] { return GoesOn(); });
    }).join();
    return terms;
  }

  // As workers do: each lane's terms stand in its gradient, and are folded in the canonical tree.
  MeasureSums OfLanes() {
    FlatPool pool(static_cast<size_t>(layout.elements()));
    CopyCounter copied{0};
    GradientTree tree(layout, training.lanes, pool, copied);
    std::thread([&] {
      SetFloatEnvironment();
      for (int32_t lane = training.lanes; lane-- > 0;) {
        FlatPtr gradient = tree.NewLeaf();
        EXPECT_TRUE(measures
                        ->Measure(LaneId(lane), values, gradient->of(places.chunk()),
                                  [] { return absl::OkStatus(); })
                        .ok());
        tree.Add(LaneId(lane), std::move(gradient), 1, 0);
      }
    }).join();
    const auto sums = tree.Sums();
    EXPECT_EQ(sums.size(), 1u);
    return places.MeasuredIn(sums.begin()->second->of(places.chunk()));
  }

  absl::Status GoesOn() {
    ++batches;
    return batches == cancelled_at ? absl::CancelledError("another state is asked for")
                                   : absl::OkStatus();
  }

  TrainingSpec training;
  Uneven* task = nullptr;
  std::unique_ptr<LaneMeasures> measures;
  Layout layout;
  SumPlaces places;
  std::vector<float> values;
  int batches = 0;
  int cancelled_at = 0;
};

bool SameBits(const MeasureSums& one, const MeasureSums& other) {
  const std::vector<float>&a = one.floats, &b = other.floats;
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(LaneMeasuresTest, OneProcessMeasuresTheBitsThatLanesAddUpTo) {
  for (int32_t lanes = 1; lanes <= 7; ++lanes) {
    for (const uint64_t samples : {1, 5, 97}) {  // also fewer than there are lanes
      Rig rig(lanes, samples);
      const absl::StatusOr<MeasureSums> all = rig.All();
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_EQ(all->floats.size(), 32u)
          << "16 floats of each metric, and nothing of what is learned";
      EXPECT_EQ(WhyNotSums(*all), "") << "the coordinator takes it";
      EXPECT_TRUE(SameBits(*all, rig.OfLanes())) << lanes << " lanes, " << samples << " samples";
    }
  }
}

TEST(LaneMeasuresTest, WhatIsNoNumberIsToldAlike) {
  Rig rig(3, 10);
  rig.task->no_number = 4;
  const absl::StatusOr<MeasureSums> all = rig.All();
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(SameBits(*all, rig.OfLanes()));
  EXPECT_EQ(all->floats[31], 1) << "one lane had none of the second metric";
  EXPECT_EQ(all->floats[15], 0);
}

// Ten samples in three lanes of 3, 3 and 4, three at a time: four batches.
TEST(LaneMeasuresTest, WhoIsAskedForAnotherStateStopsBetweenBatches) {
  Rig rig(3, 10);
  ASSERT_TRUE(rig.All().ok());
  EXPECT_EQ(rig.batches, 4);
  rig.batches = 0;
  rig.cancelled_at = 2;
  EXPECT_EQ(rig.All().status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(rig.batches, 2);
}

TEST(LaneMeasuresTest, WhatCannotBeMeasuredIsNamed) {
  Rig rig(3, 10);
  rig.task->broken = 7;
  const absl::Status broken = rig.All().status();
  EXPECT_EQ(broken.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(broken.message()),
              HasSubstr("validation: samples 6 to 8: uneven.csv: broken"));
  rig.task->metrics_told = 1;
  EXPECT_THAT(std::string(rig.All().status().message()),
              HasSubstr("the task measured 1 metrics and named 2"));
}

TEST(LaneMeasuresTest, ATaskWithTheSameSamplesInBothPartsIsNamed) {
  Rig rig(3, 10);
  EXPECT_TRUE(rig.measures->CheckSplit(Uneven(10)).ok()) << "nothing is to be left out";
  rig.training.data.validation_share = 0.1;
  const absl::Status same = rig.measures->CheckSplit(Uneven(10));
  EXPECT_EQ(same.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(same.message()),
              testing::AllOf(testing::StartsWith("data.validation_share: "),
                             HasSubstr("the same 10 samples"), HasSubstr("IsOfPart")));
  EXPECT_TRUE(rig.measures->CheckSplit(Uneven(90)).ok());
  Uneven of_other_content(10);
  of_other_content.hash = "odd";
  EXPECT_TRUE(rig.measures->CheckSplit(of_other_content).ok());
  rig.training.validation.paths = {"held-out"};
  EXPECT_TRUE(rig.measures->CheckSplit(Uneven(10)).ok()) << "these files may hold the same";
}

// Both parts of a data set tell the hash of all of it.
TEST(LaneMeasuresTest, PartsThatAreHalvesAreNoTaskThatIgnoresTheSplit) {
  Rig rig(3, 10);
  DataSpec& data = rig.training.data;
  data.validation_share = 0.5;
  const auto measured = [&] {
    uint64_t count = 0;
    for (uint64_t id = 0; id < 20; ++id) count += IsForValidation(data, id);
    return count;
  };
  while (measured() != 10) ++data.split_seed;
  EXPECT_TRUE(rig.measures->CheckSplit(Uneven(10)).ok());
  while (measured() == 10) ++data.split_seed;
  EXPECT_FALSE(rig.measures->CheckSplit(Uneven(10)).ok());
}

}  // namespace
}  // namespace muster::worker
