#include "cli/demo_compare.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobResult Result(std::vector<StepFingerprint> fingerprints) {
  JobResult result;
  result.fingerprints = std::move(fingerprints);
  result.first_loss = 5.5;
  return result;
}

TEST(DemoCompareTest, TheFirstFingerprintAfterTheLastRecovery) {
  const std::vector<StepFingerprint> list = {{10, "a"}, {30, "c"}, {20, "b"}};
  EXPECT_EQ(FirstFingerprintAfter(list, 9), 10);
  EXPECT_EQ(FirstFingerprintAfter(list, 10), 20);
  EXPECT_EQ(FirstFingerprintAfter(list, 30), -1);
  EXPECT_EQ(FirstFingerprintAfter({}, 0), -1);
}

TEST(DemoCompareTest, EqualOnlyWhenBothHaveTheSame) {
  const JobResult one = Result({{10, "a"}, {20, "b"}});
  EXPECT_TRUE(Compare(one, Result({{20, "b"}}), 20).equal);
  EXPECT_FALSE(Compare(one, Result({{20, "x"}}), 20).equal);
  EXPECT_FALSE(Compare(one, Result({{10, "b"}}), 20).equal);
  EXPECT_FALSE(Compare(Result({}), Result({}), 20).equal)
      << "nothing equals nothing, but proves nothing";
}

TEST(DemoCompareTest, ADisturbedRunMustHaveBeenDisturbed) {
  JobResult result = Result({{20, "b"}});
  result.job.recoveries = 2;
  result.steps_without_coordinator = 20;
  EXPECT_EQ(Shortfall(result), "");
  result.steps_without_coordinator = 19;
  EXPECT_THAT(Shortfall(result), HasSubstr("only 19 steps went on without the coordinator"));
  result.steps_without_coordinator = 20;
  result.job.recoveries = 0;
  EXPECT_THAT(Shortfall(result), HasSubstr("no recovery"));
  result.job.recoveries = 2;
  result.missed_faults = {"kill coordinator at step 35"};
  EXPECT_THAT(Shortfall(result), HasSubstr("kill coordinator at step 35"));
}

TEST(DemoCompareTest, SaysSo) {
  const JobResult one = Result({{20, "b"}});
  EXPECT_THAT(Compare(one, one, 20).text, HasSubstr("The fingerprints agree"));
  EXPECT_THAT(Compare(one, Result({{20, "x"}}), 20).text, HasSubstr("DIFFER"));
  EXPECT_THAT(Compare(one, Result({{20, "x"}}), 20).text, Not(HasSubstr("agree")));
}

}  // namespace
}  // namespace muster::cli
