// The misfortune of a seed: what is killed, stopped, cut off, damaged, and when. Lives as long as
// the world.
#pragma once

#include <string>
#include <vector>

#include "tests/sim/around.h"
#include "tests/sim/job.h"

namespace muster::sim {

class World;
class MemberProcess;

class Faults {
 public:
  Faults(World& world, Around around, int count)
      : world_(world), around_(around), left_(around.schedule.smooth() ? 0 : count) {}

  void Begin();
  bool over() const { return left_ <= 0; }
  // Does the coordinator die now, between two actions?
  bool CoordinatorDies();
  // The coordinator says this: some faults wait for a moment.
  void OnSaid(const MemberId& to, const FromCoordinator& message);
  // A member is about to hear this.
  void OnHeard(const MemberProcess& member, const FromCoordinator& message);

 private:
  void Inject();
  void InjectLater() {
    if (!over()) around_.schedule.At(around_.schedule.Random(20, 900), [this] { Inject(); });
  }
  MemberProcess* AnyMember();
  SimJob* AnyJob();
  void KillMember();
  void KillServer();
  void KillMany();
  void KillMemberAndCoordinator();
  void StallMember();
  void StallCoordinator();
  void StallAgent();
  void KillCoordinator();
  void BreakSessions();
  void BreakAgentSession();
  void CutMembers();
  void CutFromCoordinator();
  void CutPair(const std::string& a, const std::string& b, int64_t from, int64_t to);
  void StopJob();
  void CancelJob();
  void DamageCheckpoint();
  void FailWhileForming();
  bool AnyForming() const;
  void AmbushRewind(const MemberId& member, const Heal& heal);

  World& world_;
  Around around_;
  int left_;
  bool ambush_ = false;  // the next forming view is met by a second fault
};

}  // namespace muster::sim
