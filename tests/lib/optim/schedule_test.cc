#include "lib/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>
#include <vector>

namespace muster {
namespace {

constexpr OptimizerSpec kOptimizer = {.learning_rate = 0.4};

double Rate(const ScheduleSpec& schedule, int64_t step, int64_t total) {
  return LearningRate(kOptimizer, schedule, step, total);
}

TEST(LearningRate, ConstantIsTheGivenRateExactly) {
  for (int64_t step = 0; step < 7; ++step)
    EXPECT_EQ(Rate({.kind = ScheduleKind::kConstant, .final_ratio = 0.3}, step, 7), 0.4);
}

TEST(LearningRate, WarmsUpFromAboveZeroToTheFullRate) {
  for (ScheduleKind kind : {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine,
                            ScheduleKind::kPolynomial}) {
    const ScheduleSpec schedule = {.kind = kind, .warmup_steps = 4};
    EXPECT_DOUBLE_EQ(Rate(schedule, 0, 100), 0.1);
    EXPECT_DOUBLE_EQ(Rate(schedule, 1, 100), 0.2);
    EXPECT_DOUBLE_EQ(Rate(schedule, 2, 100), 0.3);
    EXPECT_EQ(Rate(schedule, 3, 100), 0.4);
  }
}

TEST(LearningRate, LinearFallsToTheFinalRatioAtTheLastStep) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kLinear, .final_ratio = 0.25};
  EXPECT_EQ(Rate(schedule, 0, 11), 0.4);
  EXPECT_DOUBLE_EQ(Rate(schedule, 5, 11), 0.25);
  EXPECT_DOUBLE_EQ(Rate(schedule, 10, 11), 0.1);
}

TEST(LearningRate, CosineIsThatOfTheMathLibrary) {
  const ScheduleSpec schedule = {
      .kind = ScheduleKind::kCosine, .warmup_steps = 10, .final_ratio = 0.1};
  for (int64_t step = 10; step < 1000; ++step) {
    const double t = static_cast<double>(step - 9) / 990;
    const double expected = 0.4 * (0.1 + 0.9 * (1 + std::cos(M_PI * t)) / 2);
    EXPECT_NEAR(Rate(schedule, step, 1000), expected, 1e-15);
  }
  EXPECT_DOUBLE_EQ(Rate(schedule, 999, 1000), 0.04);
}

TEST(LearningRate, StartsAtTheFullRateWithoutWarmUp) {
  for (ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    EXPECT_EQ(Rate({.kind = kind}, 0, 1), 0.4);
    EXPECT_EQ(Rate({.kind = kind}, 0, 50), 0.4);
  }
}

TEST(LearningRate, NeverRisesAfterTheWarmUp) {
  for (ScheduleKind kind : {ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    const ScheduleSpec schedule = {.kind = kind, .warmup_steps = 3, .final_ratio = 0.05};
    for (int64_t step = 3; step < 500; ++step)
      EXPECT_LT(Rate(schedule, step, 500), Rate(schedule, step - 1, 500)) << step;
  }
}

// Rates that PyTorch 2.11 gives for the parameter's group before each step.
struct TorchRates {
  std::string made_by;
  ScheduleSpec schedule;
  std::vector<double> rates;
};

std::ostream& operator<<(std::ostream& out, const TorchRates& torch) {
  return out << torch.made_by;
}

class BesideTorch : public testing::TestWithParam<TorchRates> {};

TEST_P(BesideTorch, HasItsRates) {
  const TorchRates& torch = GetParam();
  const auto total = static_cast<int64_t>(torch.rates.size());
  for (int64_t step = 0; step < total; ++step)
    EXPECT_NEAR(Rate(torch.schedule, step, total), torch.rates[static_cast<size_t>(step)], 1e-15)
        << torch.made_by << ", step " << step;
}

INSTANTIATE_TEST_SUITE_P(
    Schedulers, BesideTorch,
    testing::Values(
        TorchRates{"PolynomialLR(total_iters=10, power=0.9)",
                   {.kind = ScheduleKind::kPolynomial, .power = 0.9},
                   {0.4, 0.3638130304331849, 0.3272208584203434, 0.290167138774888,
                    0.2525783469957421, 0.21435469250725864, 0.17535331622163478,
                    0.13535338476065994, 0.0939695154470415, 0.05035701647176668, 0.0}},
        TorchRates{"StepLR(step_size=3, gamma=0.5)",
                   {.kind = ScheduleKind::kStep, .step_size = 3, .gamma = 0.5},
                   {0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1}},
        TorchRates{"MultiStepLR(milestones=[2, 5], gamma=0.5)",
                   {.kind = ScheduleKind::kMilestones, .milestones = {2, 5}, .gamma = 0.5},
                   {0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1}},
        TorchRates{"ChainedScheduler([LinearLR(0.25, total_iters=3), StepLR(2, gamma=0.5)])",
                   {.kind = ScheduleKind::kStep, .warmup_steps = 4, .step_size = 2, .gamma = 0.5},
                   {0.1, 0.2, 0.15000000000000002, 0.2, 0.1, 0.1, 0.05}},
        TorchRates{"CosineAnnealingLR(T_max=10, eta_min=0.04)",
                   {.kind = ScheduleKind::kCosine, .final_ratio = 0.1},
                   {0.4, 0.3911901729331277, 0.36562305898749053, 0.32580134541264516,
                    0.27562305898749057, 0.22, 0.1643769410125095, 0.11419865458735487,
                    0.07437694101250948, 0.04880982706687237, 0.04}},
        TorchRates{
            "OneCycleLR(0.4, total_steps=12, div_factor=10, final_div_factor=100)",
            {.kind = ScheduleKind::kOneCycle, .div_factor = 10, .final_div_factor = 100},
            {0.04, 0.15617112033234362, 0.3547319346707983, 0.3977683990797807, 0.37323187567613086,
             0.32477326241137494, 0.2590920838472987, 0.18526892730143246, 0.1135100289243119,
             0.05373623600840074, 0.014211425020888013, 0.0004}}),
    [](const auto& test) {
      const std::string& name = test.param.made_by;
      return name.substr(0, name.find('('));
    });

TEST(LearningRate, APowerOfOneIsLinear) {
  const ScheduleSpec linear = {
      .kind = ScheduleKind::kLinear, .warmup_steps = 3, .final_ratio = 0.2};
  ScheduleSpec polynomial = linear;
  polynomial.kind = ScheduleKind::kPolynomial;
  for (int64_t step = 0; step < 40; ++step)
    EXPECT_EQ(Rate(polynomial, step, 40), Rate(linear, step, 40)) << step;
}

TEST(LearningRate, PowersAreThoseOfTheMathLibrary) {
  for (const double power : {0.01, 0.5, 0.9, 2.0, 3.7, 100.0}) {
    const ScheduleSpec schedule = {.kind = ScheduleKind::kPolynomial, .power = power};
    for (int64_t step = 0; step < 1000; ++step) {
      const double expected = 0.4 * std::pow(1 - static_cast<double>(step) / 999, power);
      EXPECT_NEAR(Rate(schedule, step, 1000), expected, 1e-13 * expected + 1e-300)
          << power << ", step " << step;
    }
  }
}

TEST(LearningRate, ManyFallsEndAtZeroAndNowhereElse) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kStep, .step_size = 1, .gamma = 0.1};
  EXPECT_EQ(Rate(schedule, (int64_t{1} << 40) - 1, int64_t{1} << 40), 0);
}

// The schedule as torch's own Python has it, with the math library's cosine.
double TorchOneCycle(const ScheduleSpec& s, double top, int64_t step, int64_t total) {
  const auto annealed = [](double start, double end, double share) {
    return end + (start - end) / 2 * (std::cos(M_PI * share) + 1);
  };
  const double initial = top / s.div_factor, least = initial / s.final_div_factor;
  const double end = s.pct_start * static_cast<double>(total) - 1;
  if (static_cast<double>(step) <= end)
    return annealed(initial, top, static_cast<double>(step) / end);
  return annealed(top, least,
                  (static_cast<double>(step) - end) / (static_cast<double>(total - 1) - end));
}

TEST(LearningRate, OneCycleIsThatOfTorch) {
  for (const double pct_start : {0.1, 0.3, 0.77, 1.0}) {
    const ScheduleSpec schedule = {.kind = ScheduleKind::kOneCycle,
                                   .pct_start = pct_start,
                                   .div_factor = 10,
                                   .final_div_factor = 100};
    for (int64_t step = 0; step < 100; ++step)
      EXPECT_NEAR(Rate(schedule, step, 100), TorchOneCycle(schedule, 0.4, step, 100), 1e-15)
          << pct_start << ", step " << step;
  }
}

TEST(LearningRate, OneCycleHasARateAtItsEdges) {
  const ScheduleSpec usual = {.kind = ScheduleKind::kOneCycle};
  EXPECT_DOUBLE_EQ(Rate(usual, 0, 100), 0.4 / 25);
  EXPECT_EQ(Rate(usual, 29, 100), 0.4);
  EXPECT_DOUBLE_EQ(Rate(usual, 99, 100), 0.4 / 25 / 1e4);
  for (const double pct_start : {0.0, 0.3, 0.5, 1.0})
    for (int64_t total = 1; total < 5; ++total)
      for (int64_t step = 0; step < total; ++step) {
        const double rate =
            Rate({.kind = ScheduleKind::kOneCycle, .pct_start = pct_start}, step, total);
        EXPECT_GT(rate, 0) << pct_start << ", step " << step << " of " << total;
        EXPECT_LE(rate, 0.4) << pct_start << ", step " << step << " of " << total;
      }
}

TEST(LearningRate, AWarmUpLongerThanTheJobIsCutOff) {
  const ScheduleSpec schedule = {.kind = ScheduleKind::kCosine, .warmup_steps = 100};
  EXPECT_DOUBLE_EQ(Rate(schedule, 9, 10), 0.04);
}

}  // namespace
}  // namespace muster
