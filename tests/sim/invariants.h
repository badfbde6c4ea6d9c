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

namespace muster::sim {

class MemberProcess;

class Invariants {
 public:
  struct Sight {
    std::function<const MemberProcess*(const MemberId&)> find;  // null: it has died
    std::function<SimJob*(const MemberId&)> job_of;             // also of the dead
    std::function<std::vector<const MemberProcess*>(const SimJob&)> members;
    std::function<std::vector<const SimJob*>()> jobs;
    int32_t slots = 0;                     // of all hosts
    std::function<int32_t()> slots_known;  // of those that the coordinator knows of
  };
  Invariants(Around around, Sight sight) : around_(around), sight_(std::move(sight)) {}

  void BeforePersist(const SimJob& job, const coordinator::JobJournal& next);
  void CheckRecord(SimJob& job, const StepRecord& record);
  void CheckManifest(SimJob& job, const Manifest& manifest);
  // A member says this, and the coordinator is about to hear it.
  void CheckTold(const MemberId& from, const ToCoordinator& message);
  // The coordinator says this to a member.
  void CheckSaid(const MemberId& to, const FromCoordinator& message);
  // A member is about to hear this.
  void CheckHeard(const MemberProcess& member, const FromCoordinator& message);
  void CheckWords(const std::string& text);
  // An agent is told this; one starts this.
  void CheckWanted(const AgentId& agent, const Wanted& wanted);
  void CheckSpawn(const SimJob& job, const AgentId& agent, const agent::Spawn& spawn);
  // From now on another one judges, which has heard nobody.
  void CoordinatorStarts() {
    words_.clear();
    wakes_at_ = 0;
    stops_due_.clear();
  }
  void CoordinatorStandsStill(int64_t until);
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
  void CheckPlaces(const SimJob& job, const coordinator::JobJournal& next);
  bool IsWithinReach(const MemberProcess& process) const;
  bool WasCut(const MemberProcess& process, int64_t ms) const;
  void CheckVerdict(const SimJob& job, const MemberId& out, const std::string& why);
  bool SpokeOfLate(const MemberId& member) const;
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
  void CheckDigest(SimJob& job, Step end);
  void CheckStop(const SimJob& job, TermNumber term);
  void CheckAudit(const SimJob& job);
  void CheckAccount(const SimJob& job);

  Around around_;
  const Sight sight_;
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
  std::map<PlacementNumber, AgentId> agent_of_;  // all that were ever told or started
  std::map<MemberId, Sealed> sealed_;            // what each answered last
  std::map<agent::ProcessKey, int64_t> nameless_ends_;
  // Jobs that were told to stop, by the owner of chunk 0 of their active view, which is to be given
  // the stop before the coordinator handles anything else.
  std::map<MemberId, const SimJob*> stops_due_;
};

}  // namespace muster::sim
