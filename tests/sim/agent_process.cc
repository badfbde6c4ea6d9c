#include "tests/sim/agent_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/coordinator_process.h"

namespace muster::sim {
namespace {

agent::SupervisorOptions Quick(const AgentHello& hello, bool signs) {
  agent::SupervisorOptions options;
  options.slots = hello.slots;
  for (const HostDevice& device : hello.devices) options.devices.push_back(device.id);
  options.signs = signs;
  options.first_backoff = std::chrono::milliseconds(50);
  options.longest_backoff = std::chrono::milliseconds(1500);
  return options;
}

}  // namespace

AgentProcess::AgentProcess(Around around, NodeId node, AgentHello hello, agent::KnownTerms known,
                           CoordinatorAddresses addresses, bool signs, Events events)
    : around_(around),
      node_(node),
      hello_(std::move(hello)),
      events_(std::move(events)),
      runner_(around_.schedule),
      supervisor_(Quick(hello_, signs)),
      addresses_(addresses),
      obedience_(std::move(known)) {
  around_.network.Add(node_, &runner_);
  runner_.Later(0, [this] { Connect(); });
  if (signs) Renew();
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

void AgentProcess::Act(const agent::TellDevices& a) {
  hello_.devices = a.devices;
  if (heard_) Send(DevicesHeld{a.devices});
}

void AgentProcess::Act(const agent::Spawn& a) {
  const SignMember* const own = certificates_.Find(a.key);
  events_.spawn(a, own == nullptr ? std::nullopt : std::optional(own->process.incarnation));
}

// ---- certificates

void AgentProcess::Act(const agent::AskToSign& a) {
  SignMember question{{a.key.job, a.key.name, a.placement, events_.draw(a.key)}, {}};
  question.public_key = absl::StrCat("key of ", question.process.incarnation.hi);
  certificates_.Begin(question);
  Ask(question);
  if (around_.schedule.OneIn(8)) AskAsAnother(question);
}

// Who has taken the host's key, too, asks for a certificate of its own; by then there may be
// another coordinator.
void AgentProcess::AskAsAnother(SignMember question) {
  question.public_key += ", of another";
  runner_.Later(around_.schedule.Random(100, 4000), [this, question] { Ask(question); });
}

void AgentProcess::Ask(const SignMember& question) {
  if (heard_) Send(question);
}

void AgentProcess::Hear(const MemberSigned& answer) {
  if (!heard_) return;
  const ProcessName& process = answer.process;
  const auto meaning = certificates_.MeaningOf(process);
  if (meaning == agent::Certificates::Meaning::kStale) return;
  if (certificates_.Find(agent::KeyOf(process))->public_key != answer.certificate_pem)
    return Hear(SignRefused{process, "it is for another key"});
  certificates_.Got(process, answer.authority_pem,
                    std::chrono::milliseconds(around_.schedule.Random(500, 5000)),
                    TimeOf(around_.schedule.now()));
  if (meaning == agent::Certificates::Meaning::kRenewal) around_.coverage.Add(Corner::kRenewals);
  if (meaning == agent::Certificates::Meaning::kFirst)
    Do(agent::Signed{agent::KeyOf(process), process.placement});
}

void AgentProcess::Hear(const SignRefused& refused) {
  if (!heard_) return;
  const ProcessName& process = refused.process;
  const auto meaning = certificates_.MeaningOf(process);
  certificates_.Failed(process, TimeOf(around_.schedule.now()));
  if (meaning == agent::Certificates::Meaning::kFirst)
    Do(agent::SignFailed{agent::KeyOf(process), process.placement, refused.why});
}

void AgentProcess::Hear(const AuthorityIs& authority) {
  certificates_.Trust(authority.hash, TimeOf(around_.schedule.now()));
}

void AgentProcess::Renew() {
  for (const SignMember& question : certificates_.Renew(TimeOf(around_.schedule.now())))
    Ask(question);
  runner_.Later(250, [this] { Renew(); });
}

// ---- the session with the coordinator

void AgentProcess::Connect() {
  if (session_ != 0 || dialed_ != 0) return;
  if (CoordinatorProcess* coordinator = events_.coordinator(addresses_.current()))
    dialed_ = around_.network.Open(
        node_, addresses_.current(),
        {[this](SimSessionId s) { OnUp(s); }, [this](SimSessionId s) { OnDown(s); }},
        coordinator->Accept(node_));
  if (dialed_ != 0) return;
  addresses_.GoOn();
  runner_.Later(around_.schedule.Random(50, 500), [this] { Connect(); });
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
  if (!std::exchange(heard_, false)) addresses_.GoOn();
  runner_.Later(around_.schedule.Random(50, 500), [this] { Connect(); });
}

void AgentProcess::Send(const FromAgent& message) {
  if (session_ == 0) return;
  around_.network.Send(
      session_, node_,
      [session = session_, find = events_.coordinator, to = addresses_.current(), message] {
        if (CoordinatorProcess* coordinator = find(to)) coordinator->Said(session, message);
      });
}

// We send nothing before the coordinator has spoken, because what it missed is told again then.
void AgentProcess::Act(const agent::ReportExit& a) {
  if (heard_) Send(a.exited);
}

void AgentProcess::Said(SimSessionId session, const ToAgent& message) {
  if (session == session_) std::visit([this](const auto& said) { Hear(said); }, message);
}

// As agent/runtime/link.cc does.
void AgentProcess::Hear(const Wanted& wanted) {
  if (!obedience_.WhyNot(wanted).empty()) {
    around_.coverage.Add(Corner::kNotObeyed);
    if (obedience_.cluster().empty()) around_.coverage.Add(Corner::kHeededItsDisk);
    return around_.network.Break(session_);
  }
  if (obedience_.Obey(wanted)) events_.keep(obedience_.known());
  events_.obeys(wanted.term);
  if (!std::exchange(heard_, true)) {
    Do(agent::SessionUp{});
    for (const SignMember& question : certificates_.Unanswered()) {
      around_.coverage.Add(Corner::kQuestionsAskedAgain);
      Ask(question);
    }
  }
  Do(agent::WantMembers{wanted});
  for (const agent::ProcessKey& key : certificates_.All())
    if (!supervisor_.Runs(key) && !supervisor_.IsSigning(key)) certificates_.End(key);
}

}  // namespace muster::sim
