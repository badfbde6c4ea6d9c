#include "coordinator/state/job_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/exit_codes.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;

JobJournal JobIn(JobPhase phase, const std::string& id, int64_t submission = 1) {
  JobJournal job;
  job.id = id;
  job.phase = phase;
  job.submission = submission;
  job.placements = PlacesOf(3, 1);
  job.spec.runtime.workers_min = 2;
  job.spec.runtime.workers_max = 4;
  job.spec.runtime.servers = 1;
  return job;
}

JobTable TableOf(std::vector<JobJournal> jobs) {
  return JobTable({"cluster", TermNumber(7), Settings()}, {.jobs = std::move(jobs)}, Time());
}

TEST(JobTable, ARestartRunsWhatWasUnderWay) {
  for (const JobPhase phase : kJobPhases) {
    JobTable jobs = TableOf({JobIn(phase, "a")});
    const bool runs = !Ended(phase) && phase != JobPhase::kQueued;
    EXPECT_EQ(jobs.RunOf("a") != nullptr, runs) << PhaseName(phase);
    EXPECT_EQ(jobs.AtRest("a") != nullptr, !runs) << PhaseName(phase);
    EXPECT_EQ(jobs.JobOf("a").has_value(), runs) << PhaseName(phase);
    EXPECT_EQ(jobs.WantedByHost()[""].size(), runs ? 1u : 0u) << PhaseName(phase);
  }
}

TEST(JobTable, WhoAsksForAJobThatDoesNotRunLeavesAsItHasEnded) {
  JobJournal done = JobIn(JobPhase::kDone, "done");
  done.ending.exit_code = kExitDone;
  const JobTable jobs = TableOf({done, JobIn(JobPhase::kQueued, "queued")});
  EXPECT_EQ(jobs.LeaveOf("done").exit_code, kExitDone);
  EXPECT_EQ(jobs.LeaveOf("queued").exit_code, kExitLater);
  EXPECT_EQ(jobs.LeaveOf("none").exit_code, kExitLater);
}

TEST(JobTable, TheQueueSeesWhatIsHeldAndWhoWaits) {
  const JobTable jobs =
      TableOf({JobIn(JobPhase::kRunning, "a", 5), JobIn(JobPhase::kQueued, "b", 6),
               JobIn(JobPhase::kFailed, "c", 7)});
  const PlacementInput input = jobs.InputOfPlacement();
  ASSERT_EQ(input.running.size(), 1u);
  EXPECT_EQ(input.running[0].submission, 5);
  EXPECT_EQ(input.running[0].placed.size(), 4u) << "three workers and a server";
  ASSERT_EQ(input.queued.size(), 1u);
  EXPECT_EQ(input.queued[0].workers_min, 2);
  EXPECT_EQ(input.queued[0].workers_max, 4);
  EXPECT_EQ(input.queued[0].servers, 1);
}

TEST(JobTable, AJobStartsRestsAndGoes) {
  JobTable jobs = TableOf({});
  jobs.Add({.journal = JobIn(JobPhase::kQueued, "a")});
  EXPECT_THAT(jobs.TakeChanged(), ElementsAre("a"));
  jobs.Start("a", Time());
  EXPECT_THAT(jobs.Running(), ElementsAre("a"));
  EXPECT_EQ(jobs.PutToRest("a").journal.id, "a");
  EXPECT_THAT(jobs.Running(), ElementsAre());
  EXPECT_THAT(jobs.TakeChanged(), ElementsAre("a"));
  jobs.Erase("a");
  EXPECT_THAT(jobs.TakeChanged(), ElementsAre("a")) << "who looks finds that it is gone";
  EXPECT_EQ(jobs.Find("a"), nullptr);
  EXPECT_THAT(jobs.Ids(), ElementsAre());
}

}  // namespace
}  // namespace muster::coordinator
