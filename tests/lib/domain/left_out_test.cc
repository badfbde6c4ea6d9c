#include "lib/domain/left_out.h"

#include <algorithm>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/grid.h"
#include "lib/domain/layout.h"
#include "lib/domain/ledger.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Values = std::vector<float>;

TrainingSpec Leaving(int64_t batch, int32_t lanes) {
  TrainingSpec training;
  training.batch = batch;
  training.lanes = lanes;
  training.steps = 100;
  training.data.on_bad_sample = OnBadSample::kSkip;
  return training;
}

// Whichever samples are left out, in whatever order lanes are added.
TEST(LeftOut, IsExactInAnyOrderOfTheLanes) {
  std::mt19937_64 random(5);
  for (const auto& [batch, lanes] : std::vector<std::pair<int64_t, int32_t>>{
           {1, 1}, {7, 7}, {24, 3}, {25, 4}, {100, 6}, {1000, 7}, {4100, 4096}, {65536, 5}})
    for (const unsigned one_in : {1u, 2u, 30u}) {
      const TrainingSpec training = Leaving(batch, lanes);
      const uint64_t samples = static_cast<uint64_t>(batch) * 3 - 2;  // the last step is short
      const auto floats = static_cast<size_t>(LeftOutTensor(training).Elements());
      for (const Step step : {Step(0), Step(2)}) {
        std::vector<Values> of_lanes;
        std::vector<uint64_t> all;
        for (int32_t lane = 0; lane < lanes; ++lane) {
          const uint64_t first = FirstOfLane(training, samples, step, LaneId(lane));
          std::vector<uint64_t> positions;
          for (uint64_t i = 0; i < LaneSamples(training, samples, step, LaneId(lane)).count; ++i)
            if (random() % one_in == 0) positions.push_back(first + i);
          all.insert(all.end(), positions.begin(), positions.end());
          if (lane >= 64 && positions.empty()) continue;
          WriteLeftOut(positions, absl::MakeSpan(of_lanes.emplace_back(floats)));
        }
        std::shuffle(of_lanes.begin(), of_lanes.end(), random);
        Values sum(floats);
        for (const Values& of_lane : of_lanes)
          for (size_t i = 0; i < floats; ++i) sum[i] += of_lane[i];
        ASSERT_EQ(ReadLeftOut(sum), all) << batch << " samples, " << lanes << " lanes";
      }
    }
}

TEST(LeftOut, BytesThatAreNoPlacesAreNone) {
  EXPECT_THAT(ReadLeftOut(Values{-1, NAN, INFINITY, 16777216.0f, 0.5f, -0.0f}), IsEmpty());
  EXPECT_THAT(ReadLeftOut(Values{0, 16777215.0f}), testing::SizeIs(24));
  EXPECT_THAT(ReadLeftOut(Values{5, 2}), ElementsAre(0, 2, 25));
}

// All subtrees that one member can hold go into one frame, and the tensors into one chunk.
TEST(LeftOut, AsManyPlacesAsFit) {
  EXPECT_EQ(MostSamplesWithPlaces(Leaving(8, 8)), 65536);
  EXPECT_EQ(MostSamplesWithPlaces(Leaving(8, 4096)), 512 * 24);
  for (const bool validates : {false, true})
    for (const int32_t lanes : {1, 12, 700, 2048, 4096}) {
      TrainingSpec training = Leaving(8, lanes);
      if (validates) training.validation.every_steps = 5;
      const int64_t most = MostSamplesWithPlaces(training);
      EXPECT_EQ(most == 0, validates && lanes == 4096) << lanes;
      if (most == 0) continue;
      training.batch = most;
      std::vector<TensorSpec> tensors = {{"weight", {40}}, LeftOutTensor(training)};
      if (validates) {
        std::vector<TaskMetric> metrics = {{"loss"}};
        while (metrics.size() < kMostMetrics)
          metrics.push_back({absl::StrCat("m", metrics.size())});
        const auto sums = SumTensors(training.validation, metrics);
        tensors.insert(tensors.end(), sums->begin(), sums->end());
      }
      const auto layout = Layout::Make(tensors, ChunkBytes(training));
      ASSERT_TRUE(layout.ok()) << layout.status();
      TrainingSpec widest = training;
      widest.chunk_bytes = kMaxChunkBytes;
      EXPECT_LE(4 * layout->chunks().back().count, ChunkBytes(widest)) << lanes;
    }
}

// The chunk of sums of a job that leaves out, with what it measures or alone.
class LeavingPlaces : public testing::TestWithParam<bool> {
 protected:
  LeavingPlaces() {
    training_ = Leaving(30, 2);
    if (GetParam()) training_.validation = {.every_steps = 5, .patience = 2};
    std::vector<TensorSpec> tensors = {{"weight", {40}}};
    if (GetParam()) {
      const auto sums = SumTensors(training_.validation, {{"loss"}});
      tensors.insert(tensors.end(), sums->begin(), sums->end());
    }
    tensors.push_back(LeftOutTensor(training_));
    EXPECT_EQ(MetricsIn(tensors).size(), GetParam() ? 1u : 0u);
    places_ = SumPlaces(training_.validation, Layout::Make(tensors, 64).value());
    state_.resize(static_cast<size_t>(places_.chunk().count));
  }
  MeasuredState After(Step step, const std::vector<uint64_t>& left_out, double loss) {
    Values sum(state_.size());
    if (GetParam() && step == Step(5)) places_.Write({{{loss, 1}}}, absl::MakeSpan(sum));
    places_.WriteLeftOut(left_out, absl::MakeSpan(sum));
    places_.Apply(training_, 1000, step, sum, state_, absl::MakeSpan(state_));
    return places_.Read(state_);
  }

  TrainingSpec training_;
  SumPlaces places_;
  Values state_;
};

TEST_P(LeavingPlaces, TellWhatTheLastStepLeftOutInEachStep) {
  EXPECT_FALSE(places_.empty());
  EXPECT_THAT(places_.Read(state_).left_out, IsEmpty());
  EXPECT_THAT(After(Step(4), {0, 17, 29}, 0).left_out, ElementsAre(0, 17, 29));
  const MeasuredState measured = After(Step(5), {3}, 2.5);
  EXPECT_THAT(measured.left_out, ElementsAre(3));
  EXPECT_EQ(measured.measures.size(), GetParam() ? 1u : 0u);
  const MeasuredState after = After(Step(6), {}, 0);
  EXPECT_THAT(after.left_out, IsEmpty());
  EXPECT_EQ(after.measures, measured.measures) << "they stay until the next step that measures";
  EXPECT_EQ(after.learned, measured.learned);
}
INSTANTIATE_TEST_SUITE_P(WithAndWithoutValidation, LeavingPlaces, testing::Bool());

// ---- the record

StepRecord Leaves(std::vector<uint64_t> left_out, int64_t weight) {
  StepRecord record;
  record.samples = {0, 0, 4};
  record.weight = weight;
  record.left_out = std::move(left_out);
  return record;
}

TEST(LeftOutOfARecord, IsWhatCanBe) {
  const TrainingSpec training = Leaving(4, 2);
  EXPECT_EQ(WhyNotLeftOut(training, Leaves({}, 4)), "");
  EXPECT_EQ(WhyNotLeftOut(training, Leaves({0, 3}, 2)), "");
  EXPECT_EQ(WhyNotLeftOut(training, Leaves({0, 1, 2, 3}, 0)), "");
  for (const std::vector<uint64_t>& wrong :
       std::vector<std::vector<uint64_t>>{{4}, {1, 1}, {2, 1}, {0, 1, 2, 3, 4}})
    EXPECT_THAT(WhyNotLeftOut(training, Leaves(wrong, 0)), HasSubstr("is left out, which there"));
  TrainingSpec stops = training;
  stops.data.on_bad_sample = OnBadSample::kStop;
  EXPECT_THAT(WhyNotLeftOut(stops, Leaves({1}, 3)), HasSubstr("data.on_bad_sample is stop"));
  for (bool StepRecord::*const flag : {&StepRecord::skipped, &StepRecord::without_weight}) {
    StepRecord record = Leaves({1}, 3);
    record.*flag = true;
    EXPECT_THAT(WhyNotLeftOut(training, record), HasSubstr("cannot know"));
  }
}

TEST(LeftOutOfARecord, HasNoWeight) {
  TrainingSpec training = Leaving(4, 2);
  training.task = "counting";
  EXPECT_TRUE(HasWeight(training, Leaves({0, 3}, 2)));
  EXPECT_FALSE(HasWeight(training, Leaves({0, 3}, 4)));
  EXPECT_FALSE(HasWeight(training, Leaves({0, 3}, 1)));
  StepRecord skipped = Leaves({}, 2);
  EXPECT_FALSE(HasWeight(training, skipped));
  skipped.skipped = true;
  EXPECT_TRUE(HasWeight(training, skipped)) << "it does not tell which were left out";
  skipped.weight = 5;
  EXPECT_FALSE(HasWeight(training, skipped));
  skipped.weight = -1;
  EXPECT_FALSE(HasWeight(training, skipped));
  training.task = "own";
  EXPECT_TRUE(HasWeight(training, Leaves({0, 3}, 2 * kMostSampleWeight)));
  EXPECT_FALSE(HasWeight(training, Leaves({0, 3}, 2 * kMostSampleWeight + 1)));
  EXPECT_FALSE(HasWeight(training, Leaves({0, 1, 2, 3}, 1)));
}

}  // namespace
}  // namespace muster
