// A job that is at rest: queued, ended, or being deleted. Lives from its submission until it
// starts, and from its end until it starts again or is deleted; a JobRun is made of it and gives it
// back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/state/actions.h"
#include "coordinator/state/recent_steps.h"
#include "coordinator/state/status.h"

namespace muster::coordinator {

struct StoredJob {
  JobJournal journal;
  Step recorded;                    // records of the current lineage below this are in the ledger
  RecentSteps recent;               // of a job that can go on
  std::vector<Manifest> manifests;  // committed ones, oldest first
  StreamRows stream{};              // of a job that has one
  std::string waits_for{};          // in the queue
  bool being_deleted = false;       // DeleteJob has not been answered
  std::optional<Time> ended{};      // when that was noticed
};

JobStatus StatusOf(const StoredJob& job);
// How many samples its data has, as far as is known; 0: its numeric environment is not.
uint64_t SampleCountOf(const JobJournal& job, const StreamKnown& stream);
// How many steps it has in all, as far as is known; 0: that is not known yet.
int64_t TotalStepsOf(const JobJournal& job, const StreamKnown& stream);

// A committed checkpoint, among those that it may go back to.
void Know(StoredJob& job, const Manifest& manifest);
// It is gone.
void Forget(StoredJob& job, LineageNumber lineage, Step step);
// Why a checkpoint of it may not be deleted as a person asks, for people; empty: it may, as far as
// the job is concerned. `force`: also the newest one of an ended job.
std::string WhyNotRemoved(const JobStatus& job, LineageNumber lineage, Step step, bool force);

// Into the queue; `text` says why, for people.
std::vector<Action> Enqueue(StoredJob& job, const std::string& text);
// Of a job that waits in the queue, or was stopped, or failed: it does not go on any more.
std::vector<Action> CancelAtRest(StoredJob& job);
// Before it was started.
std::vector<Action> StopAtRest(StoredJob& job);
// In the queue: the hosts that are made for it will never be there.
std::vector<Action> FailAtRest(StoredJob& job, const std::string& reason, int exit_code);
std::vector<Action> ScaleAtRest(StoredJob& job, const Scale& scale);
std::vector<Action> SetQueueAtRest(StoredJob& job, const SetQueue& set);
// Nothing if it is being deleted already.
std::vector<Action> BeginDeletion(StoredJob& job);
std::vector<Action> DeletionFailed(StoredJob& job, const std::string& why);
// A process of its last start has ended, and tells how many lanes it ran, and what the trained
// model writes.
std::vector<Action> NoteExit(StoredJob& job, const ProcessExited& exited);

// Of a job that has failed by itself: what is said where it goes back into the queue, as its
// `retries` are not used up; one of them is then. Empty: it does not go back. Where a bad job
// fails, it would fail again.
std::string WhyTriedAgain(JobJournal& job, const std::string& reason, int exit_code);

// Of a job that has ended, how followers are told so.
Announce AnnouncementOfEnd(const JobJournal& job);
std::vector<Action> MarkEnded(JobJournal& job, JobPhase phase, const std::string& reason,
                              int exit_code);

}  // namespace muster::coordinator
