#include "lib/base/descriptors.h"

#include <sys/resource.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(Descriptors, AreSplitSoThatEachPartHasItsOwn) {
  const struct {
    int limit;
    DescriptorBudget coordinator;
    DescriptorBudget member;
  } kTable[] = {
      {96, {48, 12, 36}, {66, 12, 18}},
      {128, {48, 20, 60}, {78, 20, 30}},
      {256, {64, 48, 144}, {136, 48, 72}},
      {1024, {256, 192, 576}, {544, 192, 288}},
      {4096, {1024, 768, 2304}, {2176, 768, 1152}},
      {20'000, {1024, 1000, 8192}, {5120, 1000, 4096}},
      {65'536, {1024, 1000, 8192}, {5120, 1000, 4096}},
  };
  for (const auto& row : kTable) {
    EXPECT_EQ(*SplitDescriptors(row.limit), row.coordinator) << row.limit;
    EXPECT_EQ(*SplitDescriptorsOfMember(row.limit), row.member) << row.limit;
  }
}

TEST(Descriptors, PartsNeverAddUpToMoreThanTheLimit) {
  for (int limit = kFewestDescriptors; limit < 70'000; ++limit) {
    for (const auto& budget : {*SplitDescriptors(limit), *SplitDescriptorsOfMember(limit)}) {
      ASSERT_LE(budget.reserved + budget.http + budget.sessions, limit);
      ASSERT_GE(budget.reserved, 48) << limit;
      ASSERT_GE(budget.http, 8) << limit;
      ASSERT_GE(budget.sessions, 8) << limit;
    }
  }
}

TEST(Descriptors, TooFewAreRefusedWithWhatToDo) {
  const absl::Status refused = SplitDescriptors(kFewestDescriptors - 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("ulimit -n"));
  EXPECT_FALSE(SplitDescriptorsOfMember(0).ok());
}

TEST(Descriptors, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const int limit = RaiseDescriptorLimit();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(static_cast<rlim_t>(limit), after.rlim_cur);
  EXPECT_EQ(after.rlim_cur, std::min<rlim_t>(before.rlim_max, 65'536));
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace muster
