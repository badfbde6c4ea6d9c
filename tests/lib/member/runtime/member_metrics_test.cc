#include "lib/member/runtime/member_metrics.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(MemberMetricsTest, WhatOnlyAWorkerCountsIsNotExportedByAServer) {
  Metrics metrics({.job = "a", .role = "server", .member = "server-0"}, "1");
  const MemberMetrics server(metrics);
  EXPECT_THAT(metrics.Text(),
              AllOf(HasSubstr("muster_checkpoint_stall_seconds"),
                    Not(HasSubstr("muster_steps_total")), Not(HasSubstr("muster_loss")),
                    Not(HasSubstr("muster_step_seconds")), Not(HasSubstr("muster_samples_total")),
                    Not(HasSubstr("muster_step_phase_seconds_total"))));
  const StepMetrics steps(metrics);
  const TrainMetrics train(metrics);
  EXPECT_THAT(metrics.Text(), AllOf(HasSubstr("muster_steps_total"), HasSubstr("muster_loss"),
                                    HasSubstr("muster_samples_total"),
                                    HasSubstr("muster_step_phase_seconds_total")));
}

}  // namespace
}  // namespace muster
