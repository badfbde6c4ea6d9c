#include "coordinator/state/job_state.h"

#include <iterator>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

struct PhaseCase {
  JobPhase phase;
  std::string name;
  bool ended;
  bool can_go_on;
  std::string why_not_deleted;
};

TEST(JobState, WhatEachPhaseMeans) {
  const std::vector<PhaseCase> cases = {
      {JobPhase::kQueued, "queued", false, false,
       "job lm is queued; stop or cancel it before it is deleted"},
      {JobPhase::kChecking, "checking", false, false,
       "job lm is checking; stop or cancel it before it is deleted"},
      {JobPhase::kStarting, "starting", false, false,
       "job lm is starting; stop or cancel it before it is deleted"},
      {JobPhase::kRunning, "running", false, false,
       "job lm is running; stop or cancel it before it is deleted"},
      {JobPhase::kRecovering, "recovering", false, false,
       "job lm is recovering; stop or cancel it before it is deleted"},
      {JobPhase::kStopping, "stopping", false, false,
       "job lm is stopping; stop or cancel it before it is deleted"},
      {JobPhase::kDone, "done", true, false, ""},
      {JobPhase::kStopped, "stopped", true, true, ""},
      {JobPhase::kFailed, "failed", true, true, ""},
      {JobPhase::kCancelled, "cancelled", true, false, ""},
  };
  ASSERT_EQ(cases.size(), std::size(kJobPhases)) << "a phase is missing here";
  for (size_t i = 0; i < cases.size(); ++i) {
    const PhaseCase& c = cases[i];
    EXPECT_EQ(c.phase, kJobPhases[i]);
    EXPECT_EQ(PhaseName(c.phase), c.name);
    EXPECT_EQ(Ended(c.phase), c.ended) << c.name;
    EXPECT_EQ(CanGoOn(c.phase), c.can_go_on) << c.name;
    JobJournal job;
    job.id = "lm";
    job.phase = c.phase;
    EXPECT_EQ(WhyNotDeleted(job), c.why_not_deleted) << c.name;
  }
}

TEST(JobState, ANewJobIsQueuedAndHasNothingYet) {
  const JobJournal job;
  EXPECT_EQ(job.phase, JobPhase::kQueued);
  EXPECT_EQ(job.start, StartNumber(0));
  EXPECT_EQ(job.number, ViewNumber(0));
  EXPECT_FALSE(job.view.has_value());
  EXPECT_FALSE(job.ending.stop_asked);
  EXPECT_FALSE(job.ending.stop_at.has_value());
}

}  // namespace
}  // namespace muster::coordinator
