#include "cli/job_result.h"

#include <gtest/gtest.h>

namespace muster::cli {
namespace {

TEST(CommandToMeasure, IsOfTheStateThatTheNewestCheckpointHasWhereItWasNotMeasured) {
  JobResult result;
  result.folder = "runs/my job";
  result.job.id = "j-1";
  result.job.state = "done";
  result.job.step = result.job.checkpoint_step = 300;
  EXPECT_EQ(CommandToMeasure(result, {}), "muster evaluate j-1 --dir 'runs/my job'");
  EXPECT_EQ(CommandToMeasure(result, {"build", "my plug-ins"}),
            "muster evaluate j-1 --dir 'runs/my job' --plugins build --plugins 'my plug-ins'");
  result.job.validation_step = 300;
  EXPECT_EQ(CommandToMeasure(result, {}), "") << "it was measured";
  result.job.validation_step = 250;
  result.job.checkpoint_step = 250;  // checkpoint.at_end: false
  EXPECT_EQ(CommandToMeasure(result, {}), "");
  result.job.checkpoint_step = 300;
  result.job.state = "stopped";
  EXPECT_EQ(CommandToMeasure(result, {}), "") << "it goes on";
  result.job.state = "done";
  result.error = absl::InternalError("the coordinator would not stay up");
  EXPECT_EQ(CommandToMeasure(result, {}), "");
}

}  // namespace
}  // namespace muster::cli
