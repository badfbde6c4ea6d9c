// The coordinator's state machine (docs/protocol.md sections 2 and 4 to 8): the table of jobs, the
// queue and the slots of the cluster; everything else it hands to the JobRun concerned. It decides;
// coordinator/runtime persists and publishes, in the order of the actions. Deterministic,
// single-threaded; time comes with each input. Lives as long as the program: one term.
//
//   queued ──(slots are free)──▶ a JobRun ──(ended)──▶ ended ──(submitted again)──▶ queued
//                                                        └──(deleted)──▶ gone
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/state/actions.h"
#include "coordinator/state/job_run.h"
#include "coordinator/state/queue.h"
#include "coordinator/state/settings.h"
#include "coordinator/state/status.h"

namespace muster::coordinator {

// What a restart finds: the journal's jobs, each with the records of its current lineage that are
// in the ledger (contiguous from the fork: the step after the last), the last ones, and its
// committed manifests.
struct RecoveredState {
  std::vector<JobJournal> jobs;
  std::map<std::string, Step> recorded;
  std::map<std::string, RecentSteps> recent;
  std::map<std::string, std::vector<Manifest>> manifests;
};

class Coordinator {
 public:
  Coordinator(std::string cluster, TermNumber term, Settings settings, RecoveredState recovered,
              Time now);
  std::vector<Action> Handle(const Input& input, Time now);

  // In the order of their ids.
  std::vector<std::string> JobIds() const;
  const JobJournal* Find(const std::string& id) const;
  // Jobs of which StatusOf may tell something else than when this was called last, or that are
  // gone.
  std::set<std::string> TakeChanged() { return std::exchange(changed_, {}); }
  JobStatus StatusOf(const std::string& id) const;  // of one of them
  std::vector<JobStatus> Status() const;
  // What a process that asks for its job is told; nothing: no such job is running.
  std::optional<JobIs> JobOf(const std::string& id) const;
  // Empty: of none.
  // For a process of the job while the job does not run.
  Leave LeaveOf(const std::string& id) const;
  std::string JobOfMember(const MemberId& member) const;
  TermNumber term() const { return leadership_.term; }

 private:
  struct Job {
    std::variant<StoredJob, JobRun> is;
    std::string waits_for{};     // in the queue
    bool being_deleted = false;  // DeleteJob has not been answered

    JobRun* run() { return std::get_if<JobRun>(&is); }
    const JobRun* run() const { return std::get_if<JobRun>(&is); }
    const JobJournal& journal() const { return run() ? run()->journal() : stored().journal; }
    StoredJob& stored() { return std::get<StoredJob>(is); }
    const StoredJob& stored() const { return std::get<StoredJob>(is); }
  };

  void On(const Submit&);
  void On(const Cancel&);
  void On(const Stop&);
  void On(const Delete&);
  void On(const JobDeleted&);
  void On(const MemberSays&);
  void On(const MemberDown&);
  void On(const AgentUp&);
  void On(const AgentDown&);
  void On(const AgentSays&);
  void On(const ManifestCommitted&);
  void On(const ManifestFailed&);
  void On(const DigestDone&);
  void On(const Tick&);

  void OnJoin(const MemberId& member, const Join& join);
  void Do(Action action) { actions_.push_back(std::move(action)); }
  void DoAll(std::vector<Action> actions);
  JobRun* RunOf(const std::string& id);
  void Pass(const std::string& id, const JobInput& input);  // to its run, if it has one
  void Rest(const std::string& id);
  void PutBack(Job& job, const RuntimeSpec& runtime);
  void Enqueue(Job& job);
  void StartWhatFits();
  void Start(const QueueDecision::Start& start);
  StartNumber NextStart();
  QueueInput InputOfQueue() const;
  void TellWhyTheyWait(const QueueDecision& decision);
  Wanted EverythingWanted() const;

  const Leadership leadership_;
  Time now_{};                   // of the input that is handled
  std::vector<Action> actions_;  // of that input
  bool queue_changed_ = true;    // by that input: something may start
  bool wanted_changed_ = false;  // by that input: agents are told

  std::map<std::string, Job> jobs_;
  std::set<std::string> changed_;              // since somebody looked
  std::map<Incarnation, std::string> job_of_;  // members of jobs that run, live and evicted ones
  std::map<std::string, int32_t> slots_;       // of host agents that are there, by node
  std::vector<std::string> to_delete_;         // found at the start; until the first input
  int64_t next_submission_ = 1;
  int64_t starts_ = 0;  // of jobs, in this term
};

}  // namespace muster::coordinator
