#include "tests/sim/client.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"

namespace muster::sim {

using coordinator::JobPhase;

void Client::Submit(SimJob& job) { ask_(coordinator::Submit{job.options.id, job.spec}); }

void Client::SubmitLater(SimJob& job, int64_t most) {
  if (job.options.changes_runtime && around_.schedule.OneIn(3)) ChangeRuntime(job);
  SubmitSoon(job, most);
}

void Client::SubmitChanged(SimJob& job) {
  ChangeRuntime(job);
  SubmitSoon(job, 60);
}

void Client::SubmitSoon(SimJob& job, int64_t most) {
  around_.schedule.At(around_.schedule.Random(1, most), [this, &job] {
    if (!job.gone) Submit(job);
  });
}

void Client::AskAgain(SimJob& job) {
  const bool submitted = job.store.journal || around_.schedule.now() >= job.options.submit_at;
  if (!submitted) return;
  if (around_.schedule.smooth()) return Submit(job);
  if (job.delete_asked) return DeleteLater(job);
  if (job.has_no_sample()) return;
  SubmitLater(job, 60);
}

void Client::Persisted(SimJob& job) {
  const coordinator::JobJournal& journal = *job.store.journal;
  const auto before = phase_.find(job.options.id);
  const bool was_over = before != phase_.end() && coordinator::Ended(before->second);
  phase_[job.options.id] = journal.phase;
  if (absl::StrContains(journal.reason, "could not be deleted")) return DeleteLater(job);
  if (was_over || !coordinator::CanGoOn(journal.phase) || job.has_no_sample()) return;
  around_.coverage.Add(Corner::kResumedJobs);
  if (journal.ending.exit_code == kExitNotFinite) around_.coverage.Add(Corner::kEndsNotFinite);
  around_.coverage.Add(journal.phase == JobPhase::kStopped ? Corner::kStops : Corner::kFailedJobs);
  if (absl::StrContains(journal.reason, "stopped without the checkpoint of step"))
    around_.coverage.Add(Corner::kStopsWithoutLast);
  if (absl::StrContains(journal.reason, "resume: never"))
    job.spec.runtime.resume.kind = ResumeKind::kNever;
  else
    job.spec.runtime.resume.kind = ResumeKind::kLatest;
  SubmitLater(job, 500);
}

namespace {

// A follower takes the place of one, and so does a reader.
int64_t MostWorkers(const SimJob& job) {
  return 4 - FollowersOf(job.spec.training) - ReadersOf(job.spec.training);
}

}  // namespace

// Between two starts the number of processes may change, and how often a checkpoint is made.
void Client::ChangeRuntime(SimJob& job) {
  Schedule& schedule = around_.schedule;
  muster::RuntimeSpec& runtime = job.spec.runtime;
  runtime.workers_max = static_cast<int32_t>(schedule.Random(1, MostWorkers(job)));
  runtime.workers_min = static_cast<int32_t>(schedule.Random(1, runtime.workers_max));
  if (runtime.servers > 0) runtime.servers = static_cast<int32_t>(schedule.Random(1, 3));
  runtime.checkpoint.every_steps = schedule.Random(job.options.stream ? 1 : 0, 8);
  runtime.checkpoint.keep = static_cast<int32_t>(schedule.Random(1, 3));
  runtime.bucket_bytes = 64 * schedule.Random(1, 3);
  runtime.fingerprint_every = schedule.Random(0, 4);
  around_.coverage.Add(Corner::kChangedRuntimes);
  around_.trace.Note(absl::StrCat(job.options.id, " will be submitted with ", runtime.workers_min,
                                  " to ", runtime.workers_max, " workers, ", runtime.servers,
                                  " servers, a checkpoint every ", runtime.checkpoint.every_steps,
                                  " steps"));
}

void Client::Stop(SimJob& job) {
  if (ask_(coordinator::Stop{job.options.id}))
    around_.trace.Note(absl::StrCat(job.options.id, " is told to stop"));
}

void Client::Scale(SimJob& job) {
  muster::RuntimeSpec& runtime = job.spec.runtime;
  const auto most = static_cast<int32_t>(around_.schedule.Random(1, MostWorkers(job)));
  const auto least = static_cast<int32_t>(around_.schedule.Random(1, most));
  if (job.store.ended() || !ask_(coordinator::Scale{job.options.id, least, most})) return;
  runtime.workers_max = most;
  runtime.workers_min = least;
  around_.coverage.Add(Corner::kScales);
  around_.trace.Note(absl::StrCat(job.options.id, " is scaled to ", least, " to ", most));
}

void Client::Cancel(SimJob& job) {
  if (job.store.ended() || !ask_(coordinator::Cancel{job.options.id})) return;
  around_.trace.Note(absl::StrCat(job.options.id, " was cancelled"));
}

void Client::DeleteLater(SimJob& job) {
  job.delete_asked = true;
  around_.schedule.At(around_.schedule.Random(1, 600), [this, &job] {
    if (!job.gone && ask_(coordinator::Delete{job.options.id}))
      around_.trace.Note(absl::StrCat(job.options.id, " is to be deleted"));
  });
}

void Client::SubmitAnew(SimJob& job) {
  phase_.erase(job.options.id);
  around_.schedule.At(around_.schedule.Random(1, 200), [this, &job] { SubmitUntilKnown(job); });
}

// The coordinator may not have heard yet that the one before is gone.
void Client::SubmitUntilKnown(SimJob& job) {
  if (job.store.journal) return;
  Submit(job);
  around_.schedule.At(around_.schedule.Random(50, 300), [this, &job] { SubmitUntilKnown(job); });
}

}  // namespace muster::sim
