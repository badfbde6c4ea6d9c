// What must hold at every moment and at the end of a job (docs/protocol.md section 9), beyond what
// each member checks of its own values. Looks on and changes nothing but coverage. Lives as long as
// the world.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

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
    int32_t slots = 0;
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
  // It will wake up then. Without a time: a new coordinator has started, which has not stood still.
  void CoordinatorStandsStill(std::optional<int64_t> until) { coordinator_wakes_at_ = until; }
  // It sends a member away with its state, because it knows more than the journal.
  void CheckSentAway(const MemberId& member, const std::string& why);
  // The job is done, or was cancelled, under the coordinator of this term.
  void CheckEnd(SimJob& job, TermNumber term);

 private:
  void Violate(const SimJob& job, const std::string& what);
  void CheckStart(const SimJob& job, const coordinator::JobJournal& next);
  void CheckView(const SimJob& job, const View& view);
  void CheckMembers(const SimJob& job, const View& view);
  void CheckLanesOf(const SimJob& job, const View& view);
  void CheckFoldedLanes(const SimJob& job, const View& view, size_t index);
  void CheckHolders(const SimJob& job, const Heal& heal);
  void CheckDigest(SimJob& job, Step end);
  void CheckStop(const SimJob& job, TermNumber term);
  void CheckAudit(const SimJob& job);
  void CheckAccount(const SimJob& job);

  Around around_;
  const Sight sight_;
  std::optional<int64_t> coordinator_wakes_at_;
  std::map<MemberId, Sealed> sealed_;  // what each answered last
};

}  // namespace muster::sim
