#include "coordinator/state/kept_jobs.h"

#include "coordinator/state/job_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::AllOf;
using testing::HasSubstr;

JobSpec SpecWithPath(size_t bytes) {
  JobSpec spec;
  spec.training.data.paths = {std::string(bytes, 'x')};
  return spec;
}

TEST(KeptJobs, WhatIsSubmittedHasRoomAmongAllThatIsKept) {
  const JobSpec small, large = SpecWithPath(10'000), larger = SpecWithPath(20'000);
  const JobBudget budget{.jobs = 3, .spec_bytes = 50'000};
  const struct {
    const char* what;
    KeptJobs kept;
    const JobSpec* spec;
    const JobSpec* held;
    bool has_room;
  } kRows[] = {
      {"the first", {0, 0}, &small, nullptr, true},
      {"the last job", {2, 1000}, &small, nullptr, true},
      {"a job too many", {3, 1000}, &small, nullptr, false},
      {"one that is kept already", {3, 1000}, &small, &small, true},
      {"the last bytes", {1, 50'000 - BytesOf(large)}, &large, nullptr, true},
      {"a byte too many", {1, 50'001 - BytesOf(large)}, &large, nullptr, false},
      {"what is kept already", {1, 50'000}, &large, &large, true},
      {"less than is kept", {1, 50'000}, &large, &larger, true},
      {"more than is kept", {1, 45'000}, &larger, &large, false},
      {"growth for which there is room", {1, 30'000}, &larger, &large, true},
      {"an older store holds more", {9, 90'000}, &small, nullptr, false},
      {"likewise, and it goes on", {9, 90'000}, &large, &large, true},
  };
  for (const auto& row : kRows)
    EXPECT_EQ(WhyNotKept(row.kept, *row.spec, row.held, budget).empty(), row.has_room) << row.what;
}

TEST(KeptJobs, WhoIsRefusedIsToldWhatIsFullAndWhatToDo) {
  const JobBudget budget{.jobs = 3, .spec_bytes = 50 << 10};
  EXPECT_THAT(WhyNotKept({3, 0}, {}, nullptr, budget),
              AllOf(HasSubstr("keeps 3 jobs and may keep 3"), HasSubstr("`muster delete JOB`")));
  const JobSpec spec = SpecWithPath((20 << 10) - BytesOf(JobSpec()));
  EXPECT_THAT(WhyNotKept({2, 49 << 10}, spec, nullptr, budget),
              AllOf(HasSubstr("take 49 KiB, this one takes 20 KiB, and all may take 50 KiB"),
                    HasSubstr("`muster delete JOB`")));
}

// As JSON each takes four bytes.
TEST(KeptJobs, ShortTextsWeighWhatTheyTake) {
  JobSpec spec;
  spec.training.data.paths.assign(10'000, "/");
  EXPECT_GE(BytesOf(spec), 10'000 * sizeof(std::string));
  spec = {};
  spec.training.data.suffixes.assign(10'000, "");
  EXPECT_GE(BytesOf(spec), 10'000 * sizeof(std::string));
}

size_t BytesIn(const JobTable& jobs) {
  size_t bytes = 0;
  for (const JobStatus& status : jobs.Status()) bytes += status.spec_bytes;
  return bytes;
}

// Those that an older store brings, too, and more than may be.
TEST(KeptJobs, JobsCountInEachPhaseUntilTheyAreGone) {
  RecoveredState found;
  for (const JobPhase phase : kJobPhases) {
    JobJournal& job = found.jobs.emplace_back();
    job.id = std::string(PhaseName(phase));
    job.phase = phase;
    job.placements["worker-0"] = {.host = ""};
    job.spec = SpecWithPath(8 << 20);
  }
  JobTable jobs({"cluster", TermNumber(7), Settings()}, std::move(found), Time());
  const size_t all = jobs.Ids().size(), each = BytesOf(SpecWithPath(8 << 20));
  EXPECT_EQ(BytesIn(jobs), all * each);
  EXPECT_GT(BytesIn(jobs), JobBudget().spec_bytes);
  EXPECT_NE(WhyNotKept({all, BytesIn(jobs)}, {}, nullptr), "");
  jobs.Erase("done");
  EXPECT_EQ(BytesIn(jobs), (all - 1) * each);
}

}  // namespace
}  // namespace muster::coordinator
