#include "tests/sim/agent_process.h"

#include <algorithm>
#include <utility>

#include "tests/sim/coordinator_process.h"

namespace muster::sim {
namespace {

agent::SupervisorOptions Quick(int32_t slots) {
  agent::SupervisorOptions options;
  options.slots = slots;
  options.first_backoff = std::chrono::milliseconds(50);
  options.longest_backoff = std::chrono::milliseconds(1500);
  return options;
}

}  // namespace

AgentProcess::AgentProcess(Around around, NodeId node, AgentHello hello, Events events)
    : around_(around),
      node_(node),
      hello_(std::move(hello)),
      events_(std::move(events)),
      runner_(around_.schedule),
      supervisor_(Quick(hello_.slots)) {
  around_.network.Add(node_, &runner_);
  runner_.Later(0, [this] { Connect(); });
}

AgentProcess::~AgentProcess() {
  runner_.Die();
  around_.network.Remove(node_);
}

void AgentProcess::Do(const agent::SupervisorEvent& event) {
  for (const agent::SupervisorAction& action :
       supervisor_.Step(event, TimeOf(around_.schedule.now())))
    std::visit([this](const auto& a) { Act(a); }, action);
  SetTimer();
}

void AgentProcess::SetTimer() {
  const int64_t timer = ++timer_;
  const std::optional<Time> next = supervisor_.NextTick();
  if (!next) return;
  const int64_t at = next->time_since_epoch() / std::chrono::milliseconds(1);
  runner_.Later(std::max<int64_t>(1, at - around_.schedule.now()), [this, timer] {
    if (timer == timer_) Do(agent::Tick{});
  });
}

void AgentProcess::Act(const agent::NoteExit&) {}

// ---- the session with the coordinator

void AgentProcess::Connect() {
  if (session_ != 0 || dialed_ != 0) return;
  if (CoordinatorProcess* coordinator = events_.coordinator())
    dialed_ = around_.network.Open(
        node_, kCoordinatorNode,
        {[this](SimSessionId s) { OnUp(s); }, [this](SimSessionId s) { OnDown(s); }},
        coordinator->Accept(node_));
  if (dialed_ == 0) runner_.Later(around_.schedule.Random(50, 500), [this] { Connect(); });
}

void AgentProcess::OnUp(SimSessionId session) {
  dialed_ = 0;
  session_ = session;
  heard_ = false;
  Send(hello_);
  if (ends_) Send(AgentEnds{});
}

void AgentProcess::SayThatItEnds() {
  ends_ = true;
  Send(AgentEnds{});
}

void AgentProcess::OnDown(SimSessionId session) {
  if (session != session_ && session != dialed_) return;
  session_ = dialed_ = 0;
  heard_ = false;
  runner_.Later(around_.schedule.Random(50, 500), [this] { Connect(); });
}

void AgentProcess::Send(const FromAgent& message) {
  if (session_ == 0) return;
  around_.network.Send(session_, node_, [session = session_, find = events_.coordinator, message] {
    if (CoordinatorProcess* coordinator = find()) coordinator->Said(session, message);
  });
}

// We send nothing before the coordinator has spoken, because what it missed is told again then.
void AgentProcess::Act(const agent::ReportExit& a) {
  if (heard_) Send(a.exited);
}

void AgentProcess::SendWanted(const Wanted& wanted) {
  if (session_ == 0) return;
  around_.network.Send(session_, kCoordinatorNode, [this, session = session_, wanted] {
    if (session != session_) return;
    if (!std::exchange(heard_, true)) Do(agent::SessionUp{});
    Do(agent::WantMembers{wanted});
  });
}

}  // namespace muster::sim
