#include "coordinator/state/stored_job.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "coordinator/state/plan.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/domain/grid.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

// The next view is another start of the job: from a checkpoint, and with new processes.
void GoOnLater(JobJournal& job) {
  job.resumes = true;
  if (!job.view) return;
  for (const ViewMember& m : job.view->members) job.lanes.Lose(m.id.incarnation, m.role);
}

// A worker makes it when it leaves, because all steps are done. One that was told of another start
// tells of another end.
bool TakeSample(JobJournal& job, const ProcessExited& exited) {
  if (exited.sample.empty() || exited.start != job.start || !Ended(job.phase)) return false;
  return std::exchange(job.ending.sample, exited.sample) != exited.sample;
}

}  // namespace

JobStatus StatusOf(const StoredJob& job) {
  JobStatus status;
  status.job = job.journal;
  status.step = job.recorded;
  status.steps = TotalStepsOf(job.journal, job.stream.known());
  if (IsStreamed(job.journal.spec.training))
    status.stream = StatusOf(job.stream, job.journal.spec.training.data);
  for (const Manifest& m : job.manifests) status.checkpoints.emplace_back(m.lineage, m.step);
  if (job.journal.phase != JobPhase::kQueued) return status;
  status.waits_for = job.waits_for;
  if (!job.waits_for.empty()) status.job.reason = job.waits_for;
  return status;
}

uint64_t SampleCountOf(const JobJournal& job, const StreamKnown& stream) {
  if (!job.environment) return 0;
  return IsStreamed(job.spec.training) ? SamplesOf(stream) : job.environment->samples;
}

int64_t TotalStepsOf(const JobJournal& job, const StreamKnown& stream) {
  if (!job.environment) return 0;
  const TrainingSpec& training = job.spec.training;
  if (!IsStreamed(training)) return TotalSteps(training, job.environment->samples);
  return KnownTotal(StepsOf(training), stream).value_or(training.steps);
}

void Know(StoredJob& job, const Manifest& manifest) {
  const auto place = [](const Manifest& m) { return std::pair(m.lineage, m.step); };
  std::vector<Manifest>& all = job.manifests;
  const auto at = std::find_if(all.begin(), all.end(), [&](const Manifest& other) {
    return place(other) >= place(manifest);
  });
  if (at == all.end() || place(*at) != place(manifest)) all.insert(at, manifest);
}

void Forget(StoredJob& job, LineageNumber lineage, Step step) {
  std::erase_if(job.manifests,
                [&](const Manifest& m) { return m.lineage == lineage && m.step == step; });
}

std::string WhyNotRemoved(const JobStatus& status, LineageNumber lineage, Step step, bool force) {
  const JobJournal& job = status.job;
  if (job.deleting) return absl::StrCat("job ", job.id, " is being deleted");
  const std::pair place(lineage, step);
  const auto& known = status.checkpoints;
  // Nobody goes back to another one by himself.
  if (std::find(known.begin(), known.end(), place) == known.end()) return "";
  const std::string it = absl::StrCat("the checkpoint of step ", step.value());
  if (!Ended(job.phase))
    return absl::StrCat(it, " stays while job ", job.id,
                        " is under way, which may go back to it; what checkpoint.keep of the job "
                        "does not keep goes by itself");
  const TrainingSpec& training = job.spec.training;
  if (CanGoOn(job.phase) && (IsStreamed(training) || FollowersOf(training) > 0))
    return absl::StrCat(it, " stays while job ", job.id, " can go on: its ",
                        IsStreamed(training) ? "stream was trimmed" : "measures are taken",
                        " by the checkpoints there are; cancel the job first");
  const auto newest = std::find_if(known.rbegin(), known.rend(), [&](const auto& one) {
    return OnAncestry(job.lineages, one.first, one.second);
  });
  if (force || newest == known.rend() || *newest != place) return "";
  return absl::StrCat(it, " is the newest of job ", job.id,
                      ", from which it would go on; `force` deletes it all the same");
}

std::vector<Action> Enqueue(StoredJob& job, const std::string& text) {
  JobJournal& j = job.journal;
  j.phase = JobPhase::kQueued;
  j.reason = "waits for its turn";
  GoOnLater(j);
  // Scaled beyond what its hosts are, it could not start on them again.
  if (!j.launch.is_elastic && j.launch.hosts < LeastMembersOf(j.spec)) j.launch = {};
  // What it reached stays its result until it has started: it may be cancelled before that.
  j.ending = {.digest = std::move(j.ending.digest)};
  job.waits_for.clear();
  job.ended.reset();
  return {PersistJob{j}, Announce{j.id, "state", text, {{"state", "queued"}}}};
}

namespace {

// Of a job that is taken out of the queue.
std::string WhatStays(const StoredJob& job) {
  if (job.recorded == Step(0)) return "before it started";
  const std::string steps = Plural(job.recorded.value(), "step");
  return job.journal.ending.digest.empty()
             ? absl::StrCat("before it went on after ", steps)
             : absl::StrCat("before it went on; its result after ", steps, " stays");
}

}  // namespace

std::vector<Action> CancelAtRest(StoredJob& job) {
  JobJournal& j = job.journal;
  std::string reason = absl::StrCat("cancelled ", WhatStays(job));
  if (j.phase == JobPhase::kStopped) reason = "cancelled after it was stopped";
  if (j.phase == JobPhase::kFailed) reason = absl::StrCat("cancelled after it failed: ", j.reason);
  job.recent = {};  // only a job that can go on needs them
  return MarkEnded(j, JobPhase::kCancelled, reason, kExitStopped);
}

std::vector<Action> StopAtRest(StoredJob& job) {
  job.journal.ending.stop_asked = true;
  return MarkEnded(job.journal, JobPhase::kStopped, absl::StrCat("stopped ", WhatStays(job)),
                   kExitStopped);
}

std::vector<Action> FailAtRest(StoredJob& job, const std::string& reason, int exit_code) {
  const std::string goes_back = WhyTriedAgain(job.journal, reason, exit_code);
  if (!goes_back.empty()) return Enqueue(job, goes_back);
  return MarkEnded(job.journal, JobPhase::kFailed, reason, exit_code);
}

std::vector<Action> ScaleAtRest(StoredJob& job, const Scale& scale) {
  RuntimeSpec& runtime = job.journal.spec.runtime;
  runtime.workers_min = scale.workers_min;
  runtime.workers_max = scale.workers_max;
  if (!job.journal.launch.is_elastic) job.journal.launch = {};  // others, of that number
  return {PersistJob{job.journal}};
}

std::vector<Action> SetQueueAtRest(StoredJob& job, const SetQueue& set) {
  if (job.journal.deleting || job.journal.spec.queue == set.queue) return {};
  job.journal.spec.queue = set.queue;
  return {PersistJob{job.journal}};
}

// The id stays taken until everything of the job has been removed.
std::vector<Action> BeginDeletion(StoredJob& job) {
  if (std::exchange(job.being_deleted, true)) return {};
  job.journal.deleting = true;
  job.journal.reason = "is being deleted";
  return {PersistJob{job.journal}, DeleteJob{job.journal.id}};
}

std::vector<Action> DeletionFailed(StoredJob& job, const std::string& why) {
  job.being_deleted = false;
  JobJournal& j = job.journal;
  j.reason = absl::StrCat("could not be deleted: ", why, "; delete it again");
  return {PersistJob{j}, Announce{j.id, "state", j.reason, {}}};
}

std::vector<Action> NoteExit(StoredJob& job, const ProcessExited& exited) {
  JobJournal& j = job.journal;
  if (j.deleting) return {};
  const bool has_sample = TakeSample(j, exited);
  const bool has_lanes = exited.lanes.incarnation != Incarnation{} && j.lanes.Told(exited.lanes);
  if (!has_sample && !has_lanes) return {};
  return {PersistJob{j}};
}

std::string WhyTriedAgain(JobJournal& job, const std::string& reason, int exit_code) {
  const int32_t retries = job.spec.queue.retries;
  if (job.retried >= retries || EndsItsJob(exit_code) || exit_code == kExitNotFinite) return "";
  ++job.retried;
  job.launch = {};  // the next try has other hosts
  return absl::StrCat("failed: ", reason, "; it is tried again, ", job.retried, " of ",
                      Plural(retries, "time"));
}

Announce AnnouncementOfEnd(const JobJournal& job) {
  return Announce{job.id, "done", job.reason, {{"state", std::string(PhaseName(job.phase))}}};
}

std::vector<Action> MarkEnded(JobJournal& job, JobPhase phase, const std::string& reason,
                              int exit_code) {
  job.phase = phase;
  job.launch = {};
  job.reason = reason;
  job.ending.exit_code = exit_code;
  return {PersistJob{job}, AnnouncementOfEnd(job)};
}

}  // namespace muster::coordinator
