#include "bench/coordinator/simulated_agents.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/wire/message_codec.h"

namespace muster::bench {
namespace {

constexpr Duration kConnectTimeout = std::chrono::seconds(30);

Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace

SimulatedAgents::SimulatedAgents(int32_t hosts, int32_t slots, std::string address)
    : slots_(slots),
      address_(std::move(address)),
      transport_(MakeGrpcTransport({})),
      agents_(static_cast<size_t>(hosts)),
      untold_(static_cast<size_t>(hosts)) {
  for (size_t i = 0; i < agents_.size(); ++i)
    agents_[i].id = {absl::StrCat("host-", i), {1, Mix64(i + 1)}};
}

SimulatedAgents::~SimulatedAgents() {
  std::vector<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(mutex_);
    for (Agent& agent : agents_) {
      ++agent.connection;
      sessions.push_back(std::move(agent.session));
    }
  }
  for (auto& session : sessions)
    if (session) session->Close(absl::CancelledError("the benchmark is over"));
}

void SimulatedAgents::Connect() {
  size_t count = 0;
  {
    MutexLock lock(mutex_);
    count = agents_.size();
  }
  for (size_t i = 0; i < count; ++i) Open(i);
}

void SimulatedAgents::Open(size_t index) {
  AgentHello hello;
  int64_t connection = 0;
  std::shared_ptr<Session> before;  // let go of without the lock
  {
    MutexLock lock(mutex_);
    Agent& agent = agents_[index];
    SetTold(agent, std::nullopt);
    connection = ++agent.connection;
    hello = {agent.id, agent.follows, agent.id.host, slots_};
    before = std::move(agent.session);
  }
  before.reset();
  auto session = transport_->Connect(
      address_, kConnectTimeout,
      {[this, index, connection](const Frame& frame) { OnFrame(index, connection, frame); },
       [this, index, connection](const absl::Status& why) { OnBroken(index, connection, why); }});
  session->Send({Encode(FromAgent(hello)), {}});
  MutexLock lock(mutex_);
  agents_[index].session = std::move(session);
}

void SimulatedAgents::SetTold(Agent& agent, std::optional<int64_t> processes) {
  processes_ += processes.value_or(0) - agent.processes.value_or(0);
  if (agent.processes && !processes) ++untold_;
  if (!agent.processes && processes) --untold_;
  agent.processes = processes;
}

void SimulatedAgents::OnFrame(size_t index, int64_t connection, const Frame& frame) {
  const absl::StatusOr<ToAgent> message = DecodeToAgent(frame.header);
  const Wanted* wanted = message.ok() ? std::get_if<Wanted>(&*message) : nullptr;
  if (wanted == nullptr) return;
  int64_t processes = 0;
  for (const JobProcesses& job : wanted->jobs)
    processes += static_cast<int64_t>(job.processes.size());
  MutexLock lock(mutex_);
  if (agents_[index].connection != connection) return;
  SetTold(agents_[index], processes);
  ++told_;
  changed_.NotifyOne();
}

void SimulatedAgents::OnBroken(size_t index, int64_t connection, const absl::Status& why) {
  MutexLock lock(mutex_);
  if (agents_[index].connection != connection) return;
  if (trouble_.empty()) trouble_ = absl::StrCat(agents_[index].id.host, ": ", why.ToString());
  changed_.NotifyOne();
}

bool SimulatedAgents::AwaitProcesses(int64_t processes, Duration patience) {
  const Time deadline = Now() + patience;
  MutexLock lock(mutex_);
  while (untold_ > 0 || processes_ != processes) {
    if (!trouble_.empty() || Now() >= deadline) return false;
    changed_.WaitUntil(mutex_, deadline);
  }
  return true;
}

bool SimulatedAgents::Replace(int32_t host, Duration patience) {
  const auto index = static_cast<size_t>(host);
  {
    MutexLock lock(mutex_);
    Agent& agent = agents_[index];
    agent.follows = agent.id.incarnation;
    ++agent.id.incarnation.hi;
  }
  Open(index);
  const Time deadline = Now() + patience;
  MutexLock lock(mutex_);
  while (agents_[index].processes != slots_) {
    if (!trouble_.empty() || Now() >= deadline) return false;
    changed_.WaitUntil(mutex_, deadline);
  }
  return true;
}

void SimulatedAgents::ExpectRestart() {
  MutexLock lock(mutex_);
  for (Agent& agent : agents_) ++agent.connection;
}

int64_t SimulatedAgents::told() const {
  MutexLock lock(mutex_);
  return told_;
}

std::string SimulatedAgents::Trouble() const {
  MutexLock lock(mutex_);
  return trouble_;
}

}  // namespace muster::bench
