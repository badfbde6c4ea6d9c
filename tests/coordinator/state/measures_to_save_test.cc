#include "coordinator/state/measures_to_save.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/validation.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "step: value" of each.
template <class Actions>
std::vector<std::string> SavedIn(const Actions& actions) {
  std::vector<std::string> saved;
  for (const Action& action : actions)
    if (const auto* save = std::get_if<SaveMeasure>(&action))
      saved.push_back(absl::StrCat(save->step.value(), ": ", save->measure.value));
  return saved;
}

// A job that is over, of which the record after its last checkpoint is the last one: it has none at
// its end.
RecoveredState Over(JobPhase phase, const std::string& best = "validation.loss") {
  JobJournal job{.id = "job", .spec = SpecOf(1, 2), .phase = phase};
  job.spec.training.validation.every_steps = 2;
  job.spec.runtime.checkpoint.at_end = false;
  job.spec.runtime.checkpoint.keep_best = best;
  job.environment = Environment();
  const auto sums = SumTensors(job.spec.training.validation, {{"loss"}, {"accuracy"}});
  job.environment->tensors.insert(job.environment->tensors.end(), sums->begin(), sums->end());
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), ""}};
  job.recorded = Step(19);
  RecoveredState found;
  found.jobs = {job};
  found.recorded["job"] = Step(19);
  StepRecord record;
  record.lineage = LineageNumber(1);
  record.step = Step(18);
  record.measures = {{8, 4}, {3, 4}};
  found.recent["job"].records[Step(18)] = record;
  Manifest manifest;
  manifest.job = "job";
  manifest.lineage = LineageNumber(1);
  manifest.step = Step(18);
  found.manifests["job"] = {manifest};
  return found;
}

// The coordinator before may have ended between the last record and the writing.
TEST(MeasuresToSave, AreToldAgainByACoordinatorThatStartsAlsoOfAJobThatIsOver) {
  for (const JobPhase phase :
       {JobPhase::kDone, JobPhase::kStopped, JobPhase::kFailed, JobPhase::kCancelled}) {
    SCOPED_TRACE(PhaseName(phase));
    Coordinator coordinator("cluster", TermNumber(2), {}, Over(phase), Time());
    EXPECT_THAT(SavedIn(coordinator.Handle(Tick{}, Time())), ElementsAre("18: 2"));
    EXPECT_THAT(SavedIn(coordinator.Handle(Tick{}, Time())), IsEmpty()) << "once";
  }
}

// Steps may be short and a disk slow.
TEST(MeasuresToSave, IsKnownWhenTheCheckpointIsCommittedThousandsOfStepsLater) {
  RecoveredState found = Over(JobPhase::kStopped);
  RecentSteps& recent = found.recent["job"];
  for (int64_t step = 19; step < 5000; ++step) {
    StepRecord record;
    record.lineage = LineageNumber(1);
    record.step = Step(step);
    recent.Add(std::move(record));
    recent.Trim(Step(step));
  }
  EXPECT_EQ(recent.records.count(Step(18)), 0u);
  const JobJournal& job = found.jobs[0];
  EXPECT_THAT(SavedIn(MeasuresToSave(job, found.manifests["job"], recent)), ElementsAre("18: 2"));
  recent.Void(Step(18));
  EXPECT_THAT(SavedIn(MeasuresToSave(job, found.manifests["job"], recent)), IsEmpty());
}

TEST(MeasuresToSave, OfWhatIsNotAskedForOrIsDeletedThereIsNone) {
  RecoveredState none = Over(JobPhase::kDone, "");
  RecoveredState deleted = Over(JobPhase::kDone);
  deleted.jobs[0].deleting = true;
  RecoveredState voided = Over(JobPhase::kDone);
  voided.jobs[0].lineages.push_back({LineageNumber(2), LineageNumber(1), Step(10), ""});
  for (RecoveredState* found : {&none, &deleted, &voided}) {
    Coordinator coordinator("cluster", TermNumber(2), {}, std::move(*found), Time());
    EXPECT_THAT(SavedIn(coordinator.Handle(Tick{}, Time())), IsEmpty());
  }
}

}  // namespace
}  // namespace muster::coordinator
