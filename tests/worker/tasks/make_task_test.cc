#include "worker/tasks/make_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

CopyCounter& Uncounted() {
  static CopyCounter copied{0};
  return copied;
}

TEST(MakeTask, MakesCountingInEveryBuild) {
  Law law;
  law.task = "counting";
  law.data.samples = 7;
  const auto task = MakeTask(law, Uncounted());
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->SampleCount(), 7u);
}

TEST(MakeTask, AnUnknownTaskIsAnErrorThatNamesTheKnown) {
  Law law;
  law.task = "count";
  const absl::Status status = MakeTask(law, Uncounted()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("'count'"), testing::HasSubstr("counting")));
}

TEST(MakeTask, DataGoesToTasksThatReadItOnly) {
  Law law;
  law.task = "counting";
  law.data.paths = {"/tmp"};
  EXPECT_THAT(std::string(MakeTask(law, Uncounted()).status().message()),
              testing::StartsWith("data.paths"));
}

}  // namespace
}  // namespace muster::worker
