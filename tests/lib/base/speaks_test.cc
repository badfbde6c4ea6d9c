#include "lib/base/speaks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Speaks, TwoUnderstandEachOtherWhereTheirFormsOverlap) {
  struct Row {
    Speaks one, other;
    bool understood;
  };
  const std::vector<Row> rows = {
      {{1, 1, "0.1.0"}, {1, 1, "0.1.0"}, true},  {{1, 1, "0.1.0"}, {1, 2, "0.2.0"}, true},
      {{1, 1, "0.1.0"}, {2, 2, "0.3.0"}, false}, {{1, 1, "0.1.0"}, {2, 3, "0.3.0"}, false},
      {{1, 3, "0.3.0"}, {2, 2, "0.2.0"}, true},  {{1, 3, "0.3.0"}, {3, 5, "0.5.0"}, true},
      {{1, 3, "0.3.0"}, {4, 5, "0.5.0"}, false}, {{3, 3, "0.3.0"}, {1, 2, "0.2.0"}, false},
      {{1, 1, "0.1.0"}, {0, 0, ""}, false},      {{1, 1, "0.1.0"}, {3, 1, "odd"}, false},
      {{1, 1, "0.1.0"}, {-5, 900, "odd"}, true},
  };
  for (const Row& row : rows) {
    const std::string there = WhyNotUnderstood("one", row.one, "other", row.other);
    const std::string back = WhyNotUnderstood("other", row.other, "one", row.one);
    EXPECT_EQ(there.empty(), row.understood) << there;
    EXPECT_EQ(back.empty(), row.understood) << back;
  }
}

TEST(Speaks, WhoIsNotUnderstoodIsNamedWithBothVersionsAndWhatToDo) {
  EXPECT_EQ(WhyNotUnderstood("worker-1", {3, 4, "0.4.0"}, "the coordinator", {1, 1, "0.1.0"}),
            "worker-1 is Muster 0.4.0 and speaks protocol 3 to 4, and the coordinator is Muster "
            "0.1.0 and speaks protocol 1: install the same version on all hosts, or one next to "
            "it");
  const std::string silent =
      WhyNotUnderstood("worker-1", {0, 0, ""}, "the coordinator", {1, 1, "0.1.0"});
  EXPECT_THAT(silent, HasSubstr("worker-1 is of a version that does not say which protocol"));
  EXPECT_THAT(silent, HasSubstr("the coordinator is Muster 0.1.0"));
  EXPECT_THAT(silent, Not(HasSubstr("protocol 0")));
  EXPECT_TRUE(SaysNotUnderstood("closed by 10.0.0.1:7070: FAILED_PRECONDITION: " + silent));
  EXPECT_FALSE(SaysNotUnderstood("closed by 10.0.0.1:7070: ABORTED: replaced"));
}

TEST(Speaks, WhatWeSpeakIsARange) {
  EXPECT_GE(kOldestProtocol, 1) << "0 is said by nobody";
  EXPECT_LE(kOldestProtocol, kProtocol);
  EXPECT_EQ(Speaks{}, (Speaks{kOldestProtocol, kProtocol, kVersion}));
}

}  // namespace
}  // namespace muster
