#include "lib/domain/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

using Values = std::vector<float>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TrainingSpec Measuring() {
  TrainingSpec training;
  training.steps = 100;
  training.batch = 10;
  training.validation = {.every_steps = 5, .patience = 2};
  return training;
}

TEST(MeasuredSteps, AreMultiplesOfStepsAndOfEpochs) {
  TrainingSpec training = Measuring();
  training.validation = {.every_steps = 5, .every_epochs = 2};
  // 25 samples in batches of 10: three steps an epoch.
  std::vector<int64_t> measured;
  for (int64_t s = 0; s < 20; ++s)
    if (IsMeasuredIn(training, 25, Step(s))) measured.push_back(s);
  EXPECT_THAT(measured, ElementsAre(5, 6, 10, 12, 15, 18));
  training.validation = {};
  for (int64_t s = 0; s < 20; ++s) EXPECT_FALSE(IsMeasuredIn(training, 25, Step(s)));
}

TEST(MeasuredLanes, ShareAllSamplesEachOnce) {
  for (const int32_t lanes : {1, 3, 7, 4096})
    for (const uint64_t samples : {uint64_t{1}, uint64_t{10}, kMostSamples}) {
      uint64_t next = 0;
      for (int32_t l = 0; l < lanes; ++l) {
        const IdRange range = MeasuredBy(LaneId(l), lanes, samples);
        EXPECT_EQ(range.begin, next);
        EXPECT_GE(range.end, range.begin);
        next = range.end;
      }
      EXPECT_EQ(next, samples);
    }
}

TEST(SumTensors, TellTheMetricsToWhoeverHasTheLayout) {
  const std::vector<TaskMetric> metrics = {{"loss"}, {"perplexity", TaskMetricKind::kExpOfMean}};
  const auto tensors = SumTensors(Measuring().validation, metrics);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(MetricsIn(*tensors), metrics);
  for (const TensorSpec& tensor : *tensors) EXPECT_EQ(tensor.kind, TensorKind::kSum);
  ValidationSpec other = Measuring().validation;
  other.metric = "accuracy";
  EXPECT_THAT(SumTensors(other, metrics).status().message(),
              HasSubstr("validation.metric: the task measures no accuracy; it measures: loss, "
                        "perplexity"));
  EXPECT_FALSE(SumTensors(other, {}).ok());
  EXPECT_FALSE(SumTensors(Measuring().validation,
                          std::vector<TaskMetric>(kMostMetrics + 1, TaskMetric{"loss"}))
                   .ok());
}

// The sums of a model with these metrics, of which the first is judged.
class SumPlacesTest : public testing::Test {
 protected:
  static Layout MakeLayout() {
    std::vector<TensorSpec> tensors = {{"weight", {40}}, {"mean", {3}, TensorKind::kBuffer}};
    const auto sums = SumTensors(Measuring().validation, {{"loss"}, {"accuracy"}});
    tensors.insert(tensors.end(), sums->begin(), sums->end());
    return Layout::Make(tensors, 64).value();
  }
  size_t size() const { return static_cast<size_t>(places_.chunk().count); }
  Values TermsOf(std::vector<TaskMetricSum> measured) const {
    Values terms(size());
    places_.Write(measured, absl::MakeSpan(terms));
    return terms;
  }
  // As state(step + 1) tells what these lanes have brought.
  MeasuredState After(const std::vector<Values>& lanes) const {
    Values sum(size()), state(size());
    for (const Values& terms : lanes)
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += terms[i];
    places_.Apply(Measuring(), /*samples=*/1000, Step(5), sum, state, absl::MakeSpan(state));
    return places_.Read(state);
  }

  const Layout layout_ = MakeLayout();
  const SumPlaces places_{Measuring().validation, layout_};
};

TEST_F(SumPlacesTest, StandBehindTheModelInOneChunk) {
  EXPECT_EQ(places_.chunk().kind, TensorKind::kSum);
  EXPECT_EQ(places_.chunk().offset, layout_.model_elements());
  EXPECT_EQ(places_.chunk().offset + places_.chunk().count, layout_.elements());
  EXPECT_EQ(layout_.chunks().back().count, 48) << "chunks of other tensors have 16";
  EXPECT_EQ(layout_.ModelSpace().tensors.size(), 2u);
  EXPECT_EQ(layout_.ModelSpace().elements, layout_.model_elements());
}

TEST_F(SumPlacesTest, AStateBeforeTheFirstMeasureTellsNone) {
  const MeasuredState measured = places_.Read(Values(size()));
  EXPECT_THAT(measured.measures, IsEmpty());
  EXPECT_EQ(measured.learned, Learned());
}

TEST_F(SumPlacesTest, TotalsAreExactInAnyOrder) {
  std::mt19937 random(3);
  std::vector<Values> lanes;
  long double loss = 0;  // 64 bits of it: enough for whole multiples of 2^-20 below 2^40
  double weight = 0;
  for (int l = 0; l < 4096; ++l) {
    const double of_lane =
        std::ldexp(std::uniform_int_distribution<int64_t>(-(1LL << 52), 1LL << 52)(random), -20);
    lanes.push_back(TermsOf({{of_lane, 7}, {static_cast<double>(l % 3), 7.25}}));
    loss += of_lane;
    weight += 7;
  }
  const MeasuredState measured = After(lanes);
  EXPECT_EQ(measured.step, Step(5));
  ASSERT_EQ(measured.measures.size(), 2u);
  EXPECT_EQ(measured.measures[0].sum, static_cast<double>(loss));
  EXPECT_EQ(measured.measures[0].weight, weight);
  EXPECT_EQ(measured.measures[1].sum, 4095.0);
  EXPECT_EQ(measured.measures[1].weight, 4096 * 7.25);
  std::shuffle(lanes.begin(), lanes.end(), random);
  EXPECT_EQ(After(lanes), measured);
}

TEST_F(SumPlacesTest, TheLargestSumsOfAllLanesDoNotOverflow) {
  const double most = std::nextafter(0x1p66, 0);
  EXPECT_EQ(After(std::vector<Values>(4096, TermsOf({{most, 1}, {-most, 1}}))).measures[0].sum,
            4096 * most);
  EXPECT_EQ(After(std::vector<Values>(4096, TermsOf({{most, 1}, {-most, 1}}))).measures[1].sum,
            -4096 * most);
}

TEST_F(SumPlacesTest, SmallNumbersKeepWhatIsAMultipleOf2ToTheMinus48) {
  EXPECT_EQ(After({TermsOf({{0x1.8p-47, 1}, {-0x1p-48, 1}})}).measures[0].sum, 0x1.8p-47);
  EXPECT_EQ(After({TermsOf({{0x1.8p-48, 1}, {-0x1.8p-48, 1}})}).measures[1].sum, -0x1p-48);
}

TEST_F(SumPlacesTest, OneLaneThatIsNotANumberSpoilsTheMeanAndNoOther) {
  for (const TaskMetricSum bad :
       {TaskMetricSum{kNan, 1}, {kInfinity, 1}, {0x1p66, 1}, {1, -1}, {1, kNan}, {1, 0x1p36}}) {
    const MeasuredState measured = After({TermsOf({{2, 1}, {3, 1}}), TermsOf({bad, {4, 1}})});
    EXPECT_EQ(MeanOf(measured.measures[0]), std::nullopt);
    EXPECT_THAT(MeanOf(measured.measures[1]), Optional(3.5));
    EXPECT_EQ(measured.learned.best, std::nullopt);
    EXPECT_EQ(measured.learned.since_best, 1);
  }
}

TEST_F(SumPlacesTest, WhatIsLearnedIsPartOfTheStateAlsoInPlace) {
  const TrainingSpec training = Measuring();
  Values state(size()), other(size());
  const double means[] = {3, 2, 2, 5};
  for (int64_t m = 0; m < 4; ++m) {
    const Values sum = TermsOf({{means[m] * 10, 10}, {0, 10}});
    const Step step(5 * (m + 1));
    places_.Apply(training, /*samples=*/1000, step, sum, state, absl::MakeSpan(other));
    places_.Apply(training, /*samples=*/1000, step, sum, state, absl::MakeSpan(state));
    EXPECT_EQ(state.size(), other.size());
    EXPECT_EQ(places_.Read(state), places_.Read(other));
  }
  const Learned learned = places_.Read(state).learned;
  EXPECT_THAT(learned.best, Optional(2.0));
  EXPECT_EQ(learned.best_step, Step(10));
  EXPECT_EQ(learned.since_best, 2);
  EXPECT_TRUE(learned.enough);
}

Learned LearnAll(const TrainingSpec& training, const std::vector<std::optional<double>>& means) {
  Learned learned;
  for (size_t i = 0; i < means.size(); ++i)
    learned = Learn(training, learned, Step(static_cast<int64_t>(i) + 1), means[i]);
  return learned;
}

TEST(Learn, WhatIsNoBetterByEnoughOrNoNumberUsesPatienceUp) {
  TrainingSpec training = Measuring();
  training.validation.min_delta = 0.5;
  EXPECT_FALSE(LearnAll(training, {3, 2.6}).enough);
  EXPECT_TRUE(LearnAll(training, {3, 2.6, 2.51}).enough) << "compared with 3, the best one";
  EXPECT_FALSE(LearnAll(training, {3, 2.6, 2.5}).enough);
  EXPECT_TRUE(LearnAll(training, {3, std::nullopt, 3}).enough);
  EXPECT_TRUE(LearnAll(training, {std::nullopt, std::nullopt}).enough);
  training.validation.patience = 0;
  EXPECT_FALSE(LearnAll(training, {3, 3, 3, 3, 3}).enough);
}

TEST(Learn, LargerMayBeBetter) {
  TrainingSpec training = Measuring();
  training.validation.mode = Better::kLarger;
  EXPECT_THAT(LearnAll(training, {1, 3, 2}).best, Optional(3.0));
  EXPECT_EQ(LearnAll(training, {1, 3, 2}).best_step, Step(2));
}

TEST(Learn, APlateauCutsTheRateAndCountsAnew) {
  TrainingSpec training = Measuring();
  training.validation.patience = 0;
  training.schedule = {.kind = ScheduleKind::kPlateau, .patience = 1};
  EXPECT_EQ(LearnAll(training, {1, 1}).cuts, 0);
  EXPECT_EQ(LearnAll(training, {1, 1, 1}).cuts, 1);
  EXPECT_EQ(LearnAll(training, {1, 1, 1, 1}).cuts, 1);
  const Learned learned = LearnAll(training, {1, 1, 1, 1, 1});
  EXPECT_EQ(learned.cuts, 2);
  EXPECT_EQ(learned.cuts_before, 1);
  EXPECT_EQ(LearnAll(training, {1, 1, 0.5, 0.5, 0.5}).cuts, 1);
}

TEST(CutsIn, AreThoseBeforeTheMeasureOfTheStep) {
  MeasuredState after{{{1, 1}}, Step(5), {}};
  after.learned.cuts = 2;
  after.learned.cuts_before = 1;
  EXPECT_EQ(CutsIn(after, Step(5)), 1);
  EXPECT_EQ(CutsIn(after, Step(6)), 2);
}

TEST(ValuesOf, AreWhatPeopleWant) {
  const auto values = ValuesOf({{"loss"}, {"perplexity", TaskMetricKind::kExpOfMean}, {"auc"}},
                               {{3, 2}, {0, 2}, {1, 0}});
  EXPECT_THAT(values, ElementsAre(MetricValue{"loss", 1.5}, MetricValue{"perplexity", 1.0},
                                  MetricValue{"auc", std::nullopt}));
}

}  // namespace
}  // namespace muster
