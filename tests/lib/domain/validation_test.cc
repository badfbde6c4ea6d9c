#include "lib/domain/validation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/auc.h"

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
              HasSubstr("validation.metric: the task measures no 'accuracy'; it measures: loss, "
                        "perplexity"));
  EXPECT_FALSE(SumTensors(other, {}).ok());
  EXPECT_FALSE(SumTensors(Measuring().validation,
                          std::vector<TaskMetric>(kMostMetrics + 1, TaskMetric{"loss"}))
                   .ok());
}

TEST(SumTensors, AnAucTakesMoreRoom) {
  const std::vector<TaskMetric> metrics = {{"loss"}, {"accuracy"}, {"auc", TaskMetricKind::kAuc}};
  const auto tensors = SumTensors(Measuring().validation, metrics);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(MetricsIn(*tensors), metrics);
  std::vector<TaskMetric> more = metrics;
  more.push_back({"other", TaskMetricKind::kAuc});
  EXPECT_THAT(SumTensors(Measuring().validation, more).status().message(),
              HasSubstr("takes 3392 bytes; at most 2048 are allowed, 64 for each metric and 1600 "
                        "for an AUC"));
}

// Of all pairs the share in the right order, ties counted half.
double PairByPair(const std::vector<std::pair<double, bool>>& scores) {
  double right = 0, pairs = 0;
  for (const auto& [score, positive] : scores)
    for (const auto& [other, is_positive] : scores) {
      if (!positive || is_positive) continue;
      ++pairs;
      right += score > other ? 1 : score == other ? 0.5 : 0;
    }
  return right / pairs;
}

std::vector<double> Counted(const std::vector<std::pair<double, bool>>& scores) {
  std::vector<double> counts(2 * kScoreBins);
  for (const auto& [score, positive] : scores)
    ++counts[ScoreBin(score) + (positive ? kScoreBins : 0)];
  return counts;
}

TEST(AucOf, IsThatOfAllPairsButForThoseWithinABin) {
  std::mt19937 random(5);
  for (const double spread : {0.01, 0.3, 1.0, 4.0, 30.0})
    for (const double apart : {0.0, 0.5, 3.0}) {
      std::normal_distribution<double> noise(0, spread);
      std::vector<std::pair<double, bool>> scores, in_bins;
      for (int i = 0; i < 700; ++i) {
        const bool positive = random() % 5 == 0;
        scores.emplace_back(noise(random) + (positive ? apart : 0), positive);
        in_bins.emplace_back(static_cast<double>(ScoreBin(scores.back().first)), positive);
      }
      const std::vector<double> counts = Counted(scores);
      const std::optional<double> auc = MeanOf(AucOf(counts));
      ASSERT_TRUE(auc.has_value());
      EXPECT_NEAR(*auc, PairByPair(in_bins), 1e-12) << "of what the bins tell apart it is exact";
      double within = 0, negative = 0, positive = 0;
      for (size_t b = 0; b < kScoreBins; ++b) {
        within += counts[b] * counts[kScoreBins + b];
        negative += counts[b];
        positive += counts[kScoreBins + b];
      }
      EXPECT_LE(std::abs(*auc - PairByPair(scores)), within / (2 * negative * positive) + 1e-12);
    }
  EXPECT_EQ(MeanOf(AucOf(Counted({{1, true}, {2, true}}))), std::nullopt) << "no pair";
  EXPECT_THAT(MeanOf(AucOf(Counted({{1, true}, {-1, false}}))), Optional(1.0));
  EXPECT_THAT(MeanOf(AucOf(Counted({{-kInfinity, true}, {kInfinity, false}}))), Optional(0.0));
}

TEST(ScoreBin, IsAQuarterWide) {
  EXPECT_EQ(ScoreBin(0), 48u);
  EXPECT_EQ(ScoreBin(-1e-9), 47u);
  EXPECT_EQ(ScoreBin(0.25), 49u);
  EXPECT_EQ(ScoreBin(-11.76), 0u);
  EXPECT_EQ(ScoreBin(-kInfinity), 0u);
  EXPECT_EQ(ScoreBin(11.75), 95u);
  EXPECT_EQ(ScoreBin(1e300), 95u);
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

TEST(SumPlaces, AnAucIsTheSameHoweverLanesCutTheSamples) {
  std::vector<TensorSpec> tensors = {{"weight", {40}}};
  ValidationSpec validation = Measuring().validation;
  validation.metric = "auc";
  validation.mode = Better::kLarger;
  TrainingSpec training = Measuring();
  training.validation = validation;
  const auto sums = SumTensors(validation, {{"loss"}, {"auc", TaskMetricKind::kAuc}});
  ASSERT_TRUE(sums.ok()) << sums.status();
  tensors.insert(tensors.end(), sums->begin(), sums->end());
  const Layout layout = Layout::Make(tensors, 64).value();
  const SumPlaces places(validation, layout);
  const auto size = static_cast<size_t>(places.chunk().count);
  // As state(6) tells what so many lanes have brought of these scores, the last lane first.
  const auto after = [&](const std::vector<TaskMetricSum>& lanes) {
    Values sum(size), state(size);
    for (size_t l = lanes.size(); l-- > 0;) {
      Values terms(size);
      places.Write({{1, 1}, lanes[l]}, absl::MakeSpan(terms));
      for (size_t i = 0; i < size; ++i) sum[i] += terms[i];
    }
    places.Apply(training, /*samples=*/1000, Step(5), sum, state, absl::MakeSpan(state));
    return places.Read(state);
  };
  std::mt19937 random(9);
  std::vector<std::pair<double, bool>> scores;
  for (int i = 0; i < 5000; ++i) {
    const bool positive = random() % 3 == 0;
    scores.emplace_back(std::normal_distribution<double>(positive ? 1 : 0, 2)(random), positive);
  }
  const Measure whole = AucOf(Counted(scores));
  for (const size_t lanes : {size_t{1}, size_t{7}, size_t{4096}}) {
    std::vector<TaskMetricSum> brought(lanes);
    for (size_t i = 0; i < scores.size(); ++i)
      brought[i % lanes] += TaskMetricSum{0, 0, Counted({scores[i]})};
    const MeasuredState measured = after(brought);
    EXPECT_EQ(measured.measures[1], whole);
    EXPECT_EQ(measured.learned.best, MeanOf(whole));
    EXPECT_THAT(MeanOf(measured.measures[0]), Optional(1.0));
  }
  // As many as all lanes may bring, and one more.
  std::vector<double> most(2 * kScoreBins, 0x1p24 - 1);
  const MeasuredState large = after(std::vector<TaskMetricSum>(4096, {0, 0, most}));
  EXPECT_THAT(MeanOf(large.measures[1]), Optional(0.5));
  const double all = 4096 * (0x1p24 - 1) * kScoreBins;
  EXPECT_EQ(large.measures[1].weight, all * all);
  for (const double bad : {0x1p24, -1.0, 0.5, kNan}) {
    most[17] = bad;
    EXPECT_EQ(MeanOf(after({{0, 0, Counted(scores)}, {0, 0, most}}).measures[1]), std::nullopt);
  }
  EXPECT_EQ(MeanOf(after({{0, 0, {1, 2}}}).measures[1]), std::nullopt) << "other bins";
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
  for (const TaskMetricSum& bad :
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
  EXPECT_EQ(CutsIn(Measuring().validation, after, Step(5)), 1);
  EXPECT_EQ(CutsIn(Measuring().validation, after, Step(6)), 2);
}

TrainingSpec Followed(int64_t every, int64_t delay) {
  TrainingSpec training = Measuring();
  training.validation = {.every_steps = every, .on = MeasuredOn::kFollower, .delay = delay};
  return training;
}

TEST(Delay, IsFromAStateToTheFirstThatHasLearnedOfIt) {
  EXPECT_EQ(DelayOf(Measuring().validation), 1);
  EXPECT_EQ(BroughtIn(Measuring(), 25, Step(5)), Step(5));
  for (const int64_t every : {1, 5, 6})
    for (int64_t delay = 1; delay <= every; ++delay) {
      const TrainingSpec training = Followed(every, delay);
      for (int64_t s = 0; s < 30; ++s) {
        std::optional<Step> brought, outstanding;
        for (int64_t measured = every; measured <= s; measured += every) {
          if (measured + delay - 1 == s) brought = Step(measured);
          if (measured < s && s <= measured + delay - 1) {
            EXPECT_FALSE(outstanding) << "one at most";
            outstanding = Step(measured);
          }
        }
        EXPECT_EQ(BroughtIn(training, 25, Step(s)), brought) << every << " " << delay << " " << s;
        EXPECT_EQ(OutstandingIn(training, 25, Step(s)), outstanding)
            << every << " " << delay << " " << s;
      }
    }
}

TEST(Delay, IsAtMostTheStepsBetweenMeasuresAndOfEpochsTheyAreKnownLate) {
  EXPECT_TRUE(CheckDelay(Followed(5, 5), 25).ok());
  EXPECT_FALSE(CheckDelay(Followed(5, 6), 25).ok());
  TrainingSpec training = Followed(0, 7);
  training.validation.every_epochs = 2;
  // 25 samples in batches of 10: three steps an epoch.
  EXPECT_THAT(CheckDelay(training, 25).message(), HasSubstr("7 is more than the 6 steps"));
  training.validation.delay = 6;
  EXPECT_TRUE(CheckDelay(training, 25).ok());
  EXPECT_EQ(OutstandingIn(training, 25, Step(11)), Step(6));
  EXPECT_EQ(OutstandingIn(training, 25, Step(12)), std::nullopt);
  EXPECT_EQ(OutstandingIn(training, 25, Step(13)), Step(12));
}

// The measure of the last state of all has no step to ride with.
TEST(Validation, AnErrorOfItsFilesNamesTheFieldThatNamesThem) {
  TrainingSpec training;
  const absl::Status missing = absl::FailedPreconditionError("data.paths: a.csv does not exist");
  EXPECT_EQ(ErrorOfValidation(training, missing).message(),
            "validation: data.paths: a.csv does not exist");
  training.validation.paths = {"a.csv"};
  EXPECT_EQ(ErrorOfValidation(training, missing),
            absl::FailedPreconditionError("validation.paths: a.csv does not exist"));
  EXPECT_EQ(ErrorOfValidation(training, absl::DataLossError("a.csv:3: no number")),
            absl::DataLossError("validation: a.csv:3: no number"));
  EXPECT_TRUE(ErrorOfValidation(training, absl::OkStatus()).ok());
}

TEST(MeasuredByAFollower, AreTheStatesBeforeTheLast) {
  TrainingSpec training = Measuring();
  training.steps = 20;
  EXPECT_FALSE(IsFollowed(training, 25, Step(5))) << "workers measure it";
  training.validation = {.every_steps = 5, .on = MeasuredOn::kFollower, .delay = 2};
  std::vector<int64_t> followed;
  for (int64_t s = 0; s < 30; ++s)
    if (IsFollowed(training, 25, Step(s))) followed.push_back(s);
  EXPECT_THAT(followed, ElementsAre(5, 10, 15));
}

TEST(Sums, OfAFollowerAreWhatLanesCanHaveAddedUpTo) {
  MeasureSums sums;
  sums.floats.assign(2 * kFloatsOfMetric, 0.0f);
  sums.floats[3] = -(1 << 24) + 1;
  sums.floats[26] = (1 << 24) - 1;
  EXPECT_EQ(WhyNotSums(sums), "");
  const auto with = [&](size_t at, float limb) {
    MeasureSums other = sums;
    other.floats[at] = limb;
    return WhyNotSums(other);
  };
  for (const float limb : {0.5f, 16777216.0f, -16777216.0f, std::nanf(""), HUGE_VALF})
    EXPECT_THAT(with(0, limb), HasSubstr("limb")) << limb;
  EXPECT_THAT(with(10, -1), HasSubstr("weight"));
  EXPECT_THAT(with(31, -1), HasSubstr("weight"));
  EXPECT_THAT(with(0, -0.0f), HasSubstr("weight"));
  sums.floats.pop_back();
  EXPECT_THAT(WhyNotSums(sums), HasSubstr("31 numbers"));
  EXPECT_THAT(WhyNotSums({}), HasSubstr("0 numbers"));
  sums.floats.assign((kMostMetrics + 1) * kFloatsOfMetric, 0.0f);
  EXPECT_THAT(WhyNotSums(sums), HasSubstr("512 numbers"));
}

TEST(ValuesOf, AreWhatPeopleWant) {
  const auto values = ValuesOf({{"loss"}, {"perplexity", TaskMetricKind::kExpOfMean}, {"recall"}},
                               {{3, 2}, {0, 2}, {1, 0}});
  EXPECT_THAT(values, ElementsAre(MetricValue{"loss", 1.5}, MetricValue{"perplexity", 1.0},
                                  MetricValue{"recall", std::nullopt}));
}

}  // namespace
}  // namespace muster
