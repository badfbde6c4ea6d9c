// What must hold at every moment and at the end of a job (docs/protocol.md section 9), beyond what
// each member checks of its own values. Looks on and changes nothing but coverage. Lives as long as
// the world.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/state/actions.h"
#include "tests/sim/around.h"
#include "tests/sim/job.h"
#include "tests/sim/stream_invariants.h"

namespace muster::sim {

class MemberProcess;

class Invariants {
 public:
  struct Sight {
    std::function<const MemberProcess*(const MemberId&)> find;  // null: it has died
    std::function<SimJob*(const MemberId&)> job_of;             // also of the dead
    std::function<std::vector<const MemberProcess*>(const SimJob&)> members;
    std::function<std::vector<const SimJob*>()> jobs;
    int32_t slots = 0;                                     // of all hosts
    std::function<int32_t()> slots_known;                  // of those that the coordinator knows of
    std::function<const coordinator::Quotas&()> quotas{};  // as persisted
    // Of so many devices each that would fit into the hosts that the coordinator knows of.
    std::function<int32_t(int32_t devices_each)> workers_known{};
    std::function<NodeId()> coordinator_node{};
    bool signs = false;     // members need certificates
    bool launches = false;  // each job has hosts that are made for it
  };
  Invariants(Around around, Sight sight)
      : around_(around), sight_(std::move(sight)), streams_(around) {}

  StreamInvariants& streams() { return streams_; }
  void BeforePersist(const SimJob& job, const coordinator::JobJournal& next);
  void CheckRecord(SimJob& job, const StepRecord& record);
  void CheckFact(SimJob& job, const MeasureFact& fact);
  void BeforePrune(const SimJob& job, const coordinator::PruneManifests& prune);
  void CheckPruned(const SimJob& job, const std::vector<Manifest>& before,
                   const coordinator::PruneManifests& prune);
  void CheckManifest(SimJob& job, const Manifest& manifest);
  // A member says this, and the coordinator is about to hear it.
  void CheckTold(const MemberId& from, const ToCoordinator& message);
  // The coordinator says this to a member.
  void CheckSaid(const MemberId& to, const FromCoordinator& message);
  // A member is about to hear this.
  void CheckHeard(const MemberProcess& member, const FromCoordinator& message);
  void CheckWords(const std::string& text);
  // An agent is told this; one starts this.
  void CheckWanted(const AgentId& agent, const Wanted& wanted, bool is_replaced);
  void CheckSpawn(const SimJob& job, const AgentId& agent, const agent::Spawn& spawn);
  // A process of the job starts there, and hosts are made for jobs.
  void CheckHostOf(const SimJob& job, const std::string& host);
  // It says so of its host.
  void CheckHeld(const AgentId& agent, const std::vector<HostDevice>& devices);
  // The coordinator signs this; a process with this certificate, or without one, starts.
  void CheckSigned(const SimJob& job, const SignMember& ask);
  void CheckHasCertificate(const SimJob& job, const MemberId& member);
  // From now on another one judges, which has heard nobody.
  void CoordinatorStarts() {
    words_.clear();
    wakes_at_ = 0;
    stops_due_.clear();
  }
  void CoordinatorStandsStill(int64_t until);
  // A coordinator that was replaced lives now, on a journal of its own: it tells members and agents
  // what nobody else knows. Whether the other one is right about who lives is not judged then.
  void TwoCoordinators() { two_until_ = around_.schedule.now(); }
  // To the coordinator, though it may still wait to be handled.
  void WordCame(const MemberId& from) {
    words_[from] = {around_.schedule.now(), stood_still_, standstills_};
  }
  // A process has ended of which its agent cannot tell the incarnation.
  void NamelessEnd(const agent::ProcessKey& process) {
    nameless_ends_[process] = around_.schedule.now();
  }
  // It sends a member away with its state, because it knows more than the journal.
  void CheckSentAway(const MemberId& member, const std::string& why);
  // The job is done, or was cancelled, under the coordinator of this term.
  void CheckEnd(SimJob& job, TermNumber term);

 private:
  void Violate(const SimJob& job, const std::string& what);
  void CheckStart(const SimJob& job, const coordinator::JobJournal& next);
  void CheckRewind(const SimJob& job);
  void CheckPreemption(const SimJob& job, const coordinator::JobJournal& next);
  void CheckQuota(const SimJob& job, const coordinator::JobJournal& next);
  void CheckPlaces(const SimJob& job, const coordinator::JobJournal& next);
  void CheckLaunch(const SimJob& job, const coordinator::JobJournal& next);
  void CheckGrant(const SimJob& job, const coordinator::JobJournal& next);
  void CheckDevices(const SimJob& job, const coordinator::JobJournal& next);
  bool IsWithinReach(const MemberProcess& process) const;
  bool WasCut(const MemberProcess& process, int64_t ms) const;
  void CheckVerdict(const SimJob& job, const MemberId& out, const std::string& why);
  bool SpokeOfLate(const MemberId& member) const;
  int64_t BeforeAwake(int64_t ms) const;
  bool HasFact(const SimJob& job, const std::vector<Lineage>& lineages, Step measured) const;
  bool IsToBeMeasured(const SimJob& job, const std::vector<Lineage>& lineages,
                      const Manifest& m) const;
  bool IsMeasureLost(const SimJob& job) const;
  bool HoldsStateOf(const MemberId& member, LineageNumber lineage) const;
  void NoteStop(const SimJob& job, const coordinator::JobJournal& next);
  void CheckStopsGiven(const SimJob& job, const MemberId& to, const FromCoordinator& message);
  void CheckNoStopIsDue();
  void CheckView(const SimJob& job, const View& view);
  void CheckMembers(const SimJob& job, const View& view);
  void CheckLanesOf(const SimJob& job, const View& view);
  void CheckFoldedLanes(const SimJob& job, const View& view, size_t index);
  void CheckHolders(const SimJob& job, const Heal& heal);
  void CheckSilence(const SimJob& job, const MemberId& member);
  void CheckLastMeasure(const SimJob& job, Step end);
  void CheckDigest(SimJob& job, Step end);
  void CheckStop(const SimJob& job, Step end, TermNumber term);
  void CheckAudit(SimJob& job);
  void CheckAccount(const SimJob& job);

  Around around_;
  const Sight sight_;
  StreamInvariants streams_;
  // How long, and how often, the coordinator has stood still: in all, and when a member's last word
  // came.
  struct Word {
    int64_t at = 0;
    int64_t stood_still = 0;
    int64_t standstills = 0;
  };
  std::map<MemberId, Word> words_;
  int64_t wakes_at_ = 0;
  int64_t stood_still_ = 0;
  int64_t standstills_ = 0;
  std::map<std::string, int64_t> left_at_;  // when a member of a job left last, by the job's id
  int64_t two_until_ = 0;  // since then there is one coordinator; 0: there never were two
  struct Standstill {
    int64_t from = 0, until = 0;
  };
  std::vector<Standstill> standstill_times_;            // of the coordinator, one after the other
  std::map<PlacementNumber, AgentId> agent_of_;         // all that were ever told or started
  std::map<std::string, const SimJob*> job_of_launch_;  // by name, all that were ever granted
  std::map<Incarnation, std::string> keys_;             // that were ever signed
  std::map<MemberId, Sealed> sealed_;                   // what each answered last
  std::map<agent::ProcessKey, int64_t> nameless_ends_;
  // Jobs that were told to stop, by the owner of chunk 0 of their active view, which is to be given
  // the stop before the coordinator handles anything else.
  std::map<MemberId, const SimJob*> stops_due_;
};

}  // namespace muster::sim
