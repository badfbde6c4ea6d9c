#include "worker/tasks/make_task.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::worker {
namespace {

TEST(MakeTask, MakesCountingInEveryBuild) {
  TrainingSpec training;
  training.task = "counting";
  training.data.samples = 7;
  const auto task = MakeTask(training);
  ASSERT_TRUE(task.ok()) << task.status();
  EXPECT_EQ((*task)->SampleCount(), 7u);
}

TEST(MakeTask, AnUnknownTaskIsAnErrorThatNamesTheKnown) {
  TrainingSpec training;
  training.task = "count";
  const absl::Status status = MakeTask(training).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("'count'"), testing::HasSubstr("counting")));
}

TEST(MakeTask, DataGoesToTasksThatReadItOnly) {
  TrainingSpec training;
  training.task = "counting";
  training.data.paths = {"/tmp"};
  EXPECT_THAT(std::string(MakeTask(training).status().message()),
              testing::StartsWith("data.paths"));
}

}  // namespace
}  // namespace muster::worker
