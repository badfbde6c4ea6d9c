// The coordinator's state machine (docs/protocol.md sections 2 and 4 to 8): the tables of jobs and
// of hosts, and who is placed where; everything else it hands to the JobRun concerned. It decides;
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
#include <vector>

#include "coordinator/state/actions.h"
#include "coordinator/state/host_failures.h"
#include "coordinator/state/host_records.h"
#include "coordinator/state/host_table.h"
#include "coordinator/state/job_table.h"
#include "coordinator/state/launch.h"
#include "coordinator/state/placement.h"
#include "coordinator/state/settings.h"

namespace muster::coordinator {

class Coordinator {
 public:
  Coordinator(std::string cluster, TermNumber term, Settings settings, RecoveredState recovered,
              Time now);
  // Take and Settle. Where many jobs wait a decision on places takes long, so whoever has several
  // inputs takes them all, and settles once, before what came out of them is written.
  std::vector<Action> Handle(const Input& input, Time now);
  std::vector<Action> Take(const Input& input, Time now);
  std::vector<Action> Settle(Time now);  // who starts, moves or waits, and what agents are told

  const JobTable& jobs() const { return jobs_; }
  std::vector<HostRoom> Rooms() const;           // with their namespaces
  std::vector<HostStatus> HostStatuses() const;  // by name, for people
  // Whom people are known by, in the order in which they were made.
  const std::vector<Token>& tokens() const { return tokens_; }
  // Hosts that may join, or may not any more.
  const HostRecords& host_records() const { return book_.records(); }
  // Jobs of which something may have changed since this was called last, or that are gone.
  std::set<std::string> TakeChanged() { return jobs_.TakeChanged(); }
  // The same of the hosts, without what stands in the jobs.
  bool TakeHostsChanged() { return hosts_.TakeChanged(); }
  // Hosts that are to be made for jobs, where that is so.
  const Launches& launches() const { return launches_; }
  const Quotas& quotas() const { return quotas_; }
  std::string JobOfMember(const MemberId& member) const;  // empty: of none
  TermNumber term() const { return leadership_.term; }

 private:
  void On(const Submit&);
  void On(const Adopt&);
  void On(const Fork&);
  void On(const Cancel&);
  void On(const Stop&);
  void On(const Delete&);
  void On(const RemoveCheckpoint&);
  void On(const Scale&);
  void On(const SetQueue&);
  void On(const SetQuota&);
  void On(const Drain&);
  void On(const MakeToken&);
  void On(const RevokeToken&);
  void On(const AdmitHost&);
  void On(const RevokeHost&);
  void On(const HostJoins&);
  void On(const JobDeleted&);
  void On(const MemberSays&);
  void On(const MemberDown&);
  void On(const AgentUp&);
  void On(const HostEnds&);
  void On(const DevicesTold&);
  void On(const TrustTold&);
  void On(const AgentDown&);
  void On(const AgentSays&);
  void On(const SignatureAsked&);
  void On(const LaunchTold&);
  void On(const ManifestCommitted&);
  void On(const ManifestFailed&);
  void On(const ManifestRemoved&);
  void On(const DigestDone&);
  void On(const SpoolTidied&);
  void On(const Tick&);

  void OnJoin(const MemberSays& says, const Join& join);
  void OnExit(const ProcessExited& exited);
  void Do(Action action) { actions_.push_back(std::move(action)); }
  void DoAll(std::vector<Action> actions);
  void Pass(const std::string& id, const JobInput& input);  // to its run, if it has one
  void Change(StoredJob& job, std::vector<Action> actions);
  StoredJob& PutToRest(const std::string& id);
  void PutBack(const Submit& submit);
  void PlaceAndTell();
  void PlaceWhatFits();
  void LookAtLaunches();
  void ForgetHostsOfNoLaunch();
  std::string JobOfHost(const std::string& host) const;
  void LetLeave(const PlacementDecision& decision);
  PlacementInput InputOfPlacement() const;
  int64_t NextNumber();
  void TellWhyTheyWait(const PlacementDecision& decision);
  bool MayMove(const ProcessExited& exited) const;
  void NoteFailure(const std::string& host, const std::string& job);
  void NoteWhereItRuns(const JobRun& run);
  void SayLeftOut(const std::string& host, const std::vector<std::string>& jobs);
  bool LetBack(const std::string& host);
  void LoseHosts();
  void DeleteWhatIsOver();
  void TakeBack(const std::string& host, Incarnation agent, const std::string& why = "");
  void Expel(const std::string& host, const std::string& why);
  bool IsOfAnotherJob(const ProcessName& process) const;
  bool LivesOn(const std::string& host);
  std::set<std::string> Namespaces() const;
  void TellHosts();

  const Leadership leadership_;
  Time now_{};                   // of the input that is handled
  std::vector<Action> actions_;  // of that input
  bool places_changed_ = true;   // since that was settled: something may start, or move
  bool wanted_changed_ = false;  // since then: agents may be told something else

  HostTable hosts_;
  HostBook book_;
  HostFailures failures_;
  Quotas quotas_;
  std::vector<Token> tokens_;  // at most kMostTokens
  JobTable jobs_;
  // Where hosts are made for jobs:
  Launches launches_;
  std::map<std::string, std::string> waits_for_launch_;  // why jobs have none yet, for people
  std::map<std::string, LaunchTold> told_of_launches_;   // what was told last, by name
  std::map<Incarnation, std::string> job_of_;  // members of jobs that run, live and evicted ones
  std::map<AgentId, Wanted> told_;             // what each agent with a session was told last
  const Time began_;
  Time last_tick_;
  Time looked_for_room_{};
  std::vector<std::string> to_delete_;  // found at the start; until the first input
  int64_t next_submission_ = 1;
  int64_t numbers_ = 0;  // of starts and placements, in this term
};

}  // namespace muster::coordinator
