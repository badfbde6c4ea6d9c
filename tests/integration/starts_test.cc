#include "tests/integration/starts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::integration {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kFirst[] = "job one: worker-0 starts as placement 7, incarnation 0a\n";
constexpr char kAgain[] = "job one: worker-0 starts as placement 7, incarnation 0b\n";
constexpr char kEnd[] = "job one: worker-0 was killed by SIGKILL; it starts again in 0.2 s\n";

TEST(Starts, AreReadFromWhatAgentsSay) {
  const std::vector<Start> starts =
      StartsIn({{"a", std::string("host a with 2 slots in /x\njoined the cluster at b\n") + kFirst +
                          kEnd + "job two: server-1 starts as placement 4294967297\n"}});
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].host, "a");
  EXPECT_EQ(starts[0].job, "one");
  EXPECT_EQ(starts[0].member, "worker-0");
  EXPECT_EQ(starts[0].placement, 7);
  EXPECT_EQ(starts[0].incarnation, "0a");
  EXPECT_EQ(starts[1].job, "two");
  EXPECT_EQ(starts[1].placement, 4294967297);
  EXPECT_EQ(starts[1].incarnation, "");
}

TEST(Starts, APlacementMayStartAgainWhereItsProcessHasEnded) {
  EXPECT_THAT(StartedTwice({{"a", std::string(kFirst) + kEnd + kAgain}}), IsEmpty());
  // The first agent has ended, and its members with it: another one is told other numbers.
  EXPECT_THAT(StartedTwice({{"a", kFirst}, {"a", "job one: worker-0 starts as placement 9\n"}}),
              IsEmpty());
  EXPECT_THAT(StartedTwice({{"a", kFirst}, {"a", "job two: worker-0 starts as placement 8\n"}}),
              IsEmpty());
  // Another place for its name, as that host was lost.
  EXPECT_THAT(StartedTwice({{"a", kFirst}, {"b", "job one: worker-0 starts as placement 9\n"}}),
              IsEmpty());
}

TEST(Starts, OneThatRunsIsNotStartedASecondTime) {
  EXPECT_THAT(StartedTwice({{"a", std::string(kFirst) + kAgain}}),
              ElementsAre(HasSubstr("starts while one of that name runs there")));
  EXPECT_THAT(StartedTwice({{"a", std::string(kFirst) +
                                      "job two: worker-0 ended with exit code 0\n" + kAgain}}),
              ElementsAre(HasSubstr("starts while one of that name runs there")));
}

TEST(Starts, NoPlacementStartsOnTwoHosts) {
  EXPECT_THAT(
      StartedTwice({{"a", std::string(kFirst) + kEnd}, {"b", kAgain}}),
      ElementsAre("worker-0 of job one, placement 7, on host b was started on host a, too"));
}

TEST(Starts, NoPlacementStartsUnderTwoAgentsOfAHost) {
  EXPECT_THAT(
      StartedTwice({{"a", kFirst}, {"a", kAgain}}),
      ElementsAre("worker-0 of job one, placement 7, on host a was started by another agent "
                  "of that host, too"));
}

TEST(Starts, NoIncarnationComesTwice) {
  EXPECT_THAT(StartedTwice({{"a", std::string(kFirst) + kEnd + kFirst}}),
              ElementsAre(HasSubstr("has an incarnation that was there before")));
}

}  // namespace
}  // namespace muster::integration
