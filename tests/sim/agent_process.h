// The agent of one host of the simulation: the real supervisor, and its session with the
// coordinator, as agent/runtime/link.h has it. Lives from its start to its death.
#pragma once

#include <functional>
#include <string>

#include "agent/state/supervisor.h"
#include "tests/sim/around.h"

namespace muster::sim {

class CoordinatorProcess;

class AgentProcess {
 public:
  struct Events {
    std::function<void(const agent::Spawn&)> spawn;
    std::function<void(const agent::ProcessKey&, int signal)> signal;
    std::function<CoordinatorProcess*()> coordinator;  // null: it is down
  };
  // `hello`: what it says first in each session.
  AgentProcess(Around around, NodeId node, AgentHello hello, Events events);
  ~AgentProcess();

  NodeId node() const { return node_; }
  const AgentId& id() const { return hello_.agent; }
  Runner& runner() { return runner_; }
  // Something happened on its host; the supervisor decides what follows.
  void Do(const agent::SupervisorEvent& event);
  // The coordinator sends this over the open session.
  void SendWanted(const Wanted& wanted);
  void SayThatItEnds();  // now, and in each new session

 private:
  void Connect();
  void OnUp(SimSessionId session);
  void OnDown(SimSessionId session);
  void Send(const FromAgent& message);
  void Act(const agent::Spawn& a) { events_.spawn(a); }
  void Act(const agent::SendSignal& a) { events_.signal(a.key, a.signal); }
  void Act(const agent::ReportExit& a);
  void Act(const agent::NoteExit& a);
  void SetTimer();

  Around around_;
  const NodeId node_;
  const AgentHello hello_;
  const Events events_;
  Runner runner_;
  agent::Supervisor supervisor_;
  SimSessionId session_ = 0;
  SimSessionId dialed_ = 0;
  bool ends_ = false;
  bool heard_ = false;  // the coordinator has spoken in this session
  int64_t timer_ = 0;
};

}  // namespace muster::sim
