// The agent of one host of the simulation: the real supervisor, and its session with the
// coordinator, as agent/runtime/link.h has it. Lives from its start to its death.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/state/certificates.h"
#include "agent/state/obedience.h"
#include "agent/state/supervisor.h"
#include "tests/sim/around.h"

namespace muster::sim {

class CoordinatorProcess;

class AgentProcess {
 public:
  struct Events {
    // With the incarnation that was signed; nothing: nobody signs here.
    std::function<void(const agent::Spawn&, std::optional<Incarnation>)> spawn;
    std::function<void(const agent::ProcessKey&, int signal)> signal;
    std::function<CoordinatorProcess*(NodeId)> coordinator;     // null: none is there
    std::function<Incarnation(const agent::ProcessKey&)> draw;  // of a process that starts next
    std::function<void(const agent::KnownTerms&)> keep;         // on the disk of its host
    std::function<void(TermNumber)> obeys;
  };
  // `hello`: what it says first in each session. `known`: what its disk knows. `signs`: its members
  // need certificates.
  AgentProcess(Around around, NodeId node, AgentHello hello, agent::KnownTerms known,
               CoordinatorAddresses addresses, bool signs, Events events);
  ~AgentProcess();

  NodeId node() const { return node_; }
  const AgentId& id() const { return hello_.agent; }
  Runner& runner() { return runner_; }
  // Something happened on its host; the supervisor decides what follows.
  void Do(const agent::SupervisorEvent& event);
  // A coordinator's word came over that session.
  void Said(SimSessionId session, const ToAgent& message);
  void SayThatItEnds();  // now, and in each new session

 private:
  void Connect();
  void OnUp(SimSessionId session);
  void OnDown(SimSessionId session);
  void Send(const FromAgent& message);
  void Act(const agent::Spawn& a);
  void Act(const agent::AskToSign& a);
  void Act(const agent::SendSignal& a) { events_.signal(a.key, a.signal); }
  void Act(const agent::ReportExit& a);
  void Act(const agent::TellDevices& a);
  void Act(const agent::NoteExit& a) { certificates_.End(a.key); }
  void Act(const agent::NoteWait&) { around_.coverage.Add(Corner::kWaitsForDevices); }
  void Hear(const Wanted& wanted);
  void Hear(const MemberSigned& answer);
  void Hear(const SignRefused& refused);
  void Hear(const AuthorityIs& authority);
  void Ask(const SignMember& question);
  void AskAsAnother(SignMember question);
  void Renew();
  void SetTimer();

  Around around_;
  const NodeId node_;
  AgentHello hello_;
  const Events events_;
  Runner runner_;
  agent::Supervisor supervisor_;
  CoordinatorAddresses addresses_;
  agent::Obedience obedience_;
  agent::Certificates certificates_;
  SimSessionId session_ = 0;
  SimSessionId dialed_ = 0;
  bool ends_ = false;
  bool heard_ = false;  // the coordinator has spoken in this session
  int64_t timer_ = 0;
};

}  // namespace muster::sim
