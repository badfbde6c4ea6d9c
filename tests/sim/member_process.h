// A member process of the simulation from the outside: its sessions, its heartbeats, what it asks
// before it is a member, its end. Lives from its start to its death.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/own_gaps.h"
#include "lib/member/state/word_pace.h"
#include "tests/sim/around.h"
#include "tests/sim/follower_machine.h"
#include "tests/sim/machine.h"
#include "tests/sim/peer_links.h"
#include "tests/sim/reader_machine.h"

namespace muster::sim {

class CoordinatorProcess;

class MemberProcess {
 public:
  struct Place {
    SimJob* job;
    MemberId id;
    Role role;
    NodeId node;
    AgentId agent;  // that started it
    PlacementNumber placement;
    std::vector<std::string> devices{};
    CoordinatorAddresses addresses;
  };
  struct Events {
    std::function<MemberProcess*(const MemberId&)> find;
    std::function<CoordinatorProcess*(NodeId)> coordinator;  // null: none is there
    std::function<SimJob*()> job;                            // that has its job's id now
    std::function<void(const MemberProcess&, const FromCoordinator&)> hears;
    std::function<void(Step)> step_done;
    std::function<void(const MemberProcess&)> at_phase;
    std::function<void(int exit_code, const std::string& reason)> left;
  };
  MemberProcess(Around around, Place place, Events events);
  ~MemberProcess();

  const MemberId& id() const { return place_.id; }
  Role role() const { return place_.role; }
  NodeId node() const { return place_.node; }
  SimJob& job() const { return *place_.job; }
  const AgentId& agent() const { return place_.agent; }
  PlacementNumber placement() const { return place_.placement; }
  const std::vector<std::string>& devices() const { return place_.devices; }
  Runner& runner() { return runner_; }
  const Runner& runner() const { return runner_; }
  const Machine* machine() const { return machine_.get(); }  // null: not a member yet
  LaneCount lane_count() const;
  bool reaches_coordinator() const { return session_ != 0; }

  // A coordinator says this.
  void Said(SimSessionId session, const FromCoordinator& message);
  void Leave(int exit_code, const std::string& reason);
  // What its train thread does now, or next, it never gets done. False: it has none, or that hangs
  // already.
  bool HangTrainThread();
  bool hangs() const { return hangs_; }
  bool leaving() const { return leaving_; }

 private:
  void ConnectCoordinator();
  void OnCoordinatorUp(SimSessionId session);
  void OnCoordinatorDown(SimSessionId session);
  void Tell(const ToCoordinator& message);
  void SendToCoordinator(const ToCoordinator& message);
  void SendLateRecords();
  void Introduce();
  bool IsReplaced(const FromCoordinator& message);
  void OnJob(const JobIs& job);
  void BecomeMember(const JobIs& job);
  std::function<void(const std::string&)> Violation();
  void Live();
  void SayAlive(Time now);
  void ChangeSession(const MemberId& peer, void (Machine::*change)(const MemberId& peer));
  void EndIfHung(const std::vector<ThreadAge>& threads);
  void CheckLeave(const muster::Leave& leave);
  void ViolateBusy(const std::string& what);
  MemberConfig ConfigFor(const JobIs& job) const;
  Machine::Outside OutsideOf();
  bool GivesFalseNumbers() const;

  Around around_;
  Place place_;
  const Events events_;
  Runner runner_;
  PeerLinks links_;
  SimSessionId session_ = 0;  // with the coordinator
  SimSessionId dialed_ = 0;
  bool heard_ = false;                 // the coordinator has spoken in this session
  std::vector<Records> late_records_;  // what is told after them waits too, but for segments
  bool preparing_ = false;
  bool leaving_ = false;
  bool hangs_ = false;
  bool lied_ = false;  // about the view that it is in
  OwnGaps gaps_;       // of the thread of the life signs
  WordPace pace_;      // likewise
  bool has_news_ = false;
  std::unique_ptr<Machine> machine_;
  std::unique_ptr<FollowerMachine> follower_;  // in place of that, of one that measures
  std::unique_ptr<ReaderMachine> reader_;      // likewise, of one that spools a stream
};

}  // namespace muster::sim
