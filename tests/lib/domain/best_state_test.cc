#include "lib/domain/best_state.h"

#include <gmock/gmock.h>

#include <limits>

#include "lib/domain/job.h"

namespace muster {
namespace {

JobSpec Keeping(const std::string& measure, const std::string& metric = "loss",
                Better mode = Better::kSmaller) {
  JobSpec spec;
  spec.runtime.checkpoint.keep_best = measure;
  spec.training.validation.metric = metric;
  spec.training.validation.mode = mode;
  return spec;
}

TEST(BestRuleOf, TheModeIsOfItsMetricAndNamesSayTheRest) {
  EXPECT_FALSE(BestRuleOf(Keeping("")).wanted());
  EXPECT_EQ(BestRuleOf(Keeping("validation.loss")), (BestRule{"validation.loss", true}));
  EXPECT_TRUE(BestRuleOf(Keeping("validation.perplexity")).less);
  EXPECT_FALSE(BestRuleOf(Keeping("validation.accuracy")).less);
  EXPECT_TRUE(BestRuleOf(Keeping("validation.loss", "accuracy", Better::kLarger)).less);
  EXPECT_FALSE(BestRuleOf(Keeping("validation.accuracy", "accuracy", Better::kLarger)).less);
  EXPECT_TRUE(BestRuleOf(Keeping("validation.errors", "errors")).less);
  EXPECT_FALSE(BestRuleOf(Keeping("validation.loss", "loss", Better::kLarger)).less);
}

TEST(MeasureFor, IsThatOfTheMetricIfItIsFinite) {
  const BestRule rule{"validation.loss", true};
  EXPECT_EQ(MeasureFor(rule, {{"accuracy", 0.5}, {"loss", 2.0}}),
            (StateMeasure{"validation.loss", 2}));
  EXPECT_EQ(MeasureFor(rule, {{"loss", std::nullopt}}), std::nullopt);
  EXPECT_EQ(MeasureFor(rule, {{"accuracy", 0.5}}), std::nullopt);
  EXPECT_EQ(MeasureFor(rule, {}), std::nullopt);
}

TEST(BestOf, TheFirstThanWhichNoneIsBetter) {
  const auto of = [](double value) { return StateMeasure{"validation.loss", value}; };
  const BestRule less{"validation.loss", true}, more{"validation.loss", false};
  EXPECT_EQ(BestOf({of(3), of(1), of(2), of(1)}, less), 1u);
  EXPECT_EQ(BestOf({of(3), of(1), of(3)}, more), 0u);
  EXPECT_EQ(BestOf({std::nullopt, of(3), std::nullopt}, less), 1u);
  EXPECT_EQ(BestOf({StateMeasure{"validation.accuracy", 0}, of(3)}, less), 1u)
      << "of another measure";
  EXPECT_EQ(BestOf({std::nullopt}, less), std::nullopt);
  EXPECT_EQ(BestOf({of(3)}, BestRule{}), std::nullopt);
}

TEST(CheckBestRule, NamesWhatIsMeasured) {
  EXPECT_TRUE(CheckBestRule({"validation.loss", true}, {"loss", "accuracy"}).ok());
  EXPECT_TRUE(CheckBestRule({}, {"loss"}).ok());
  EXPECT_EQ(CheckBestRule({"validation.auc", false}, {"loss", "accuracy"}).message(),
            "checkpoint.keep.best: the task measures no auc; it measures: loss, accuracy");
}

}  // namespace
}  // namespace muster
