// Decides what a seed kills, stops, cuts off and damages, and when. Lives as long as the world.
#pragma once

#include <functional>
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
  // The coordinator says this to a member. Some faults wait for such a moment.
  void OnSaid(const MemberId& to, const FromCoordinator& message);
  // A member is about to hear this.
  void OnHeard(const MemberProcess& member, const FromCoordinator& message);
  // A member has brought a phase, or has its total.
  void OnPhase(const MemberProcess& member);

 private:
  void Inject();
  void InjectLater();
  MemberProcess* AnyMember();
  MemberProcess* AnyOther(const MemberProcess& member);
  SimJob* AnyJob();
  void KillMember();
  void KillServer();
  void KillMany();
  void KillOneByOne();
  void KillOneOfAll();
  void KillMemberAndCoordinator();
  void StallMember();
  void HangTrainThread();
  void StallCoordinator();
  void HoldUpDecisions();
  void StallAgent();
  void StallEverything();
  bool HasAllItsMembers(const SimJob& job) const;
  void Stall(const std::string& name, int64_t ms, Corner any, Corner longer_than_lease);
  void KillCoordinator();
  void BreakSessions();
  void BreakAgentSession();
  size_t AnyHost();
  void HarmLaunch();
  void HarmReader();
  bool HasStreams() const;
  void KillHost();
  void EndHost();
  void DrainHost();
  void ScaleJob();
  void CutAgent();
  void CutMembers();
  void CutHosts();
  void ExpectVerdict(const MemberProcess& a, const MemberProcess& b);
  void CutFromCoordinator();
  void CutPair(const std::string& a, const std::string& b, int64_t from, int64_t to);
  void StopJob();
  void CancelJob();
  void DamageCheckpoint();
  void FailWhileForming();
  bool AnyForming() const;
  void AmbushRewind(const MemberId& member, const Heal& heal);
  void AmbushStop(const MemberId& owner);
  // Adds the corners at its first call.
  std::function<void()> AddOnce(const std::vector<Corner>& corners);

  World& world_;
  Around around_;
  int left_;
  bool ambush_ = false;  // the next forming view is met by a second fault
  int64_t quiet_until_ = 0;
};

}  // namespace muster::sim
