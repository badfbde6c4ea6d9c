#include "tests/sim/world.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/lease.h"

namespace muster::sim {
namespace {

constexpr int64_t kMostEvents = 2000000;
constexpr int64_t kPatience = 120000;  // after the last fault

}  // namespace

World::World(WorldOptions options)
    : options_(std::move(options)),
      schedule_(options_.seed, options_.smooth),
      trace_(schedule_),
      network_(schedule_, coverage_),
      around_{schedule_, network_, trace_, coverage_},
      invariants_(around_, SightOfAll()),
      client_(around_, [this](const coordinator::Input& input) { return Ask(input); }),
      faults_(*this, around_, options_.faults) {
  for (const JobOptions& job : options_.jobs) {
    const auto made = jobs_.emplace(job.id, std::make_unique<SimJob>(job)).first;
    if (first_job_ == nullptr) first_job_ = made->second.get();
  }
  if (jobs_.size() > 1) coverage_.Add(Corner::kSecondJobs);
  for (size_t i = 0; i < options_.hosts.size(); ++i)
    hosts_.push_back({i == 0 ? "host" : absl::StrCat("host-", i), options_.hosts[i], 0, nullptr});
  if (hosts_.size() > 1) coverage_.Add(Corner::kSeveralHosts);
  for (Host& host : hosts_) StartAgent(host);
  StartCoordinator();
  for (auto& [id, job] : jobs_)
    if (job->options.submit_at > 0)
      schedule_.At(job->options.submit_at, [this, j = job.get()] { client_.Submit(*j); });
}

World::~World() = default;

Invariants::Sight World::SightOfAll() {
  return {[this](const MemberId& id) { return Find(id); },
          [this](const MemberId& id) {
            const auto it = job_of_.find(id);
            return it == job_of_.end() ? nullptr : it->second;
          },
          [this](const SimJob& job) {
            std::vector<const MemberProcess*> members;
            for (const auto& [node, process] : members_)
              if (&process->job() == &job) members.push_back(process.get());
            return members;
          },
          [this] {
            std::vector<const SimJob*> jobs;
            for (const auto& [id, job] : jobs_) jobs.push_back(job.get());
            return jobs;
          },
          std::accumulate(options_.hosts.begin(), options_.hosts.end(), 0),
          [this] {
            int32_t slots = 0;
            for (const coordinator::HostRoom& room : coordinator_->state().hosts().Rooms())
              if (!room.drains) slots += room.slots;
            return slots;
          }};
}

// ---- finding

MemberProcess* World::Find(const MemberId& id) {
  for (const auto& [node, process] : members_)
    if (process->id() == id) return process.get();
  return nullptr;
}

agent::ProcessKey World::KeyOf(const std::string& name) const {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  if (parts.size() == 1) return {first_job_->options.id, name};
  return {parts[0], parts[1]};
}

// The one that was started last: on two hosts two of one name may run, of which one was given up.
MemberProcess* World::FindByName(const std::string& name) {
  const agent::ProcessKey key = KeyOf(name);
  MemberProcess* found = nullptr;
  for (const auto& [node, process] : members_)
    if (process->id().name == key.name && process->job().options.id == key.job)
      found = process.get();
  return found;
}

World::Host* World::HostOf(const std::string& agent) {
  for (size_t i = 0; i < hosts_.size(); ++i)
    if (agent == (i == 0 ? "agent" : absl::StrCat("agent-", i))) return &hosts_[i];
  return nullptr;
}

World::Host& World::HostOf(const MemberProcess& member) {
  return *std::find_if(hosts_.begin(), hosts_.end(),
                       [&](const Host& host) { return host.name == member.agent().host; });
}

NodeId World::NodeOf(const std::string& name) {
  if (name == "coordinator") return kCoordinatorNode;
  if (const Host* host = HostOf(name)) return host->agent ? host->agent->node() : 0;
  const MemberProcess* process = FindByName(name);
  return process == nullptr ? 0 : process->node();
}

Runner* World::RunnerOf(const std::string& name) {
  if (name == "coordinator") return coordinator_ ? &coordinator_->runner() : nullptr;
  if (const Host* host = HostOf(name)) return host->agent ? &host->agent->runner() : nullptr;
  MemberProcess* process = FindByName(name);
  return process == nullptr ? nullptr : &process->runner();
}

std::vector<MemberProcess*> World::AllMembers() {
  std::vector<MemberProcess*> all;
  for (const auto& [node, process] : members_) all.push_back(process.get());
  return all;
}

std::string World::NameOf(const MemberProcess& member) const {
  return jobs_.size() == 1 ? member.id().name
                           : absl::StrCat(member.job().options.id, "/", member.id().name);
}

Step World::furthest() const {
  Step s(0);
  for (const auto& [node, process] : members_)
    if (process->machine() != nullptr) s = std::max(s, process->machine()->member().step());
  return s;
}

bool World::ended() const { return over_.size() == jobs_.size(); }

// ---- processes

void World::StartAgent(Host& host) {
  const NodeId node = kFirstAgentNode + static_cast<NodeId>(&host - hosts_.data());
  const uint64_t name = HashBytes(host.name);
  AgentHello hello{.agent = {host.name, {++host.lives, name}}, .node = host.name};
  // It finds the folder of the one before it, unless another machine has taken its name.
  if (host.lives > 1 && (schedule_.smooth() || !schedule_.OneIn(6)))
    hello.follows = {host.lives - 1, name};
  hello.slots = host.slots;
  host.agent = std::make_unique<AgentProcess>(
      around_, node, std::move(hello),
      AgentProcess::Events{
          [this, &host](const agent::Spawn& spawn) { Spawn(host, spawn); },
          [this, &host](const agent::ProcessKey& key, int signal) { Signal(host, key, signal); },
          [this] { return coordinator_.get(); }});
}

void World::Spawn(Host& host, const agent::Spawn& spawn) {
  const agent::ProcessKey& key = spawn.key;
  SimJob& job = *jobs_.at(key.job);
  const MemberId id{
      key.name,
      {static_cast<uint64_t>(++starts_[key]), HashBytes(absl::StrCat(key.job, "/", key.name))}};
  const NodeId node = next_node_++;
  job_of_[id] = &job;
  invariants_.CheckSpawn(job, host.agent->id(), spawn);
  MemberProcess::Events events;
  events.find = [this](const MemberId& member) { return Find(member); };
  events.coordinator = [this] { return coordinator_.get(); };
  events.job = [this, id, name = key.job] { return job_of_[id] = jobs_.at(name).get(); };
  events.hears = [this](const MemberProcess& member, const FromCoordinator& message) {
    invariants_.CheckHeard(member, message);
    faults_.OnHeard(member, message);
  };
  events.step_done = [agent = host.agent.get(), key] { agent->Do(agent::Progressed{key}); };
  events.left = [this, node](int code, const std::string& reason) {
    schedule_.At(0, [this, node, code, reason] { End(node, "left: " + reason, code, 0); });
  };
  auto process = std::make_unique<MemberProcess>(
      around_, MemberProcess::Place{&job, id, spawn.role, node, host.agent->id(), spawn.placement},
      events);
  trace_.Note(absl::StrCat(NameOf(*process), " starts",
                           hosts_.size() > 1 ? absl::StrCat(" on ", host.name) : "",
                           " (incarnation ", id.incarnation.hi, ")"));
  for (const HostCut& hosts : cut_hosts_) Cut(hosts, *process);
  members_[node] = std::move(process);
  const auto here = std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second->agent().host == host.name;
  });
  if (here > host.slots)
    trace_.Violate(absl::StrCat(here, " processes run on ", host.slots, " slots of ", host.name));
}

void World::Signal(const Host& host, const agent::ProcessKey& key, int signal) {
  MemberProcess* process = nullptr;
  for (const auto& [node, member] : members_)
    if (member->agent().host == host.name && member->id().name == key.name &&
        member->job().options.id == key.job)
      process = member.get();
  if (process == nullptr) return;
  if (signal == SIGCONT) return process->runner().Continue();
  if (signal == SIGKILL) return End(process->node(), "was killed by its agent", 0, SIGKILL);
  process->runner().Later(0, [process] {
    ++process->job().told_to_go;
    process->Leave(kExitTerminated, "told to go");
  });
}

void World::End(NodeId node, const std::string& cause, int exit_code, int signal) {
  const auto it = members_.find(node);
  if (it == members_.end()) return;
  MemberProcess& process = *it->second;
  trace_.Note(absl::StrCat(NameOf(process), " ", cause));
  agent::Exited exited{{process.job().options.id, process.id().name}, {}};
  exited.exit.code = exit_code;
  exited.exit.signal = signal;
  exited.exit.last_lines = cause;
  exited.exit.lanes = process.lane_count();
  process.job().lanes_of_dead += exited.exit.lanes.total;
  if (exited.exit.lanes.total > 0) process.job().ends_to_be_told.insert(process.id().incarnation);
  if (exited.exit.lanes.incarnation == Incarnation{}) invariants_.NamelessEnd(exited.key);
  AgentProcess* agent = HostOf(process).agent.get();
  members_.erase(it);
  if (agent != nullptr)
    agent->runner().Later(schedule_.Random(1, 30), [agent, exited] { agent->Do(exited); });
}

// Nobody tells what its processes had run: a host that is lost has lost its folder, too.
void World::KillHost(size_t host, int64_t down_ms) {
  Host& lost = hosts_[host];
  if (!lost.agent) return;
  trace_.Note(absl::StrCat(lost.name, " dies; it is down for ", down_ms, " ms"));
  lost.agent.reset();
  for (const MemberProcess* p : AllMembers())
    if (p->agent().host == lost.name) End(p->node(), "died with its host", 0, SIGKILL);
  schedule_.At(down_ms, [this, host] {
    if (!hosts_[host].agent && !ended()) StartAgent(hosts_[host]);
  });
}

void World::EndHost(size_t host, int64_t waits_ms, int64_t down_ms) {
  AgentProcess* agent = hosts_[host].agent.get();
  if (agent == nullptr) return;
  trace_.Note(absl::StrCat(hosts_[host].name, " ends in ", waits_ms, " ms"));
  agent->SayThatItEnds();
  schedule_.At(waits_ms, [this, host, life = hosts_[host].lives, down_ms] {
    if (hosts_[host].lives == life && !ended()) KillHost(host, down_ms);
  });
}

void World::DrainHost(size_t host, int64_t ms) {
  const std::string& name = hosts_[host].name;
  trace_.Note(absl::StrCat(name, " is drained for ", ms, " ms"));
  // A later wish takes the place of this one: two that ask for both in turn would never end.
  const int64_t wish = ++drain_wishes_[name];
  AskUntilDrained(name, true, [this, name, ms, wish] {
    schedule_.At(ms, [this, name, wish] {
      if (drain_wishes_[name] == wish) AskUntilDrained(name, false, [] {});
    });
  });
}

// As a person does: again where a coordinator died over it, and nothing else before it holds.
void World::AskUntilDrained(const std::string& host, bool on, const std::function<void()>& then) {
  if (ended()) return;
  if ((drained_.count(host) > 0) == on) return then();
  Ask(coordinator::Drain{host, on});
  schedule_.At(100, [this, host, on, then, wish = drain_wishes_[host]] {
    if (drain_wishes_[host] == wish) AskUntilDrained(host, on, then);
  });
}

void World::Kill(const std::string& name) {
  if (const MemberProcess* p = FindByName(name)) End(p->node(), "was killed", 0, SIGKILL);
}

void World::KillAll() {
  for (const MemberProcess* p : AllMembers()) End(p->node(), "was killed", 0, SIGKILL);
}

void World::Stall(const std::string& name, int64_t ms) {
  if (name == "decisions") return HoldUpDecisions(ms);
  Runner* runner = RunnerOf(name);
  if (runner == nullptr) return;
  runner->Stall(ms);
  trace_.Note(absl::StrCat(name, " stands still for ", ms, " ms"));
  if (name == "coordinator") invariants_.CoordinatorStandsStill(schedule_.now() + ms);
}

void World::HoldUpDecisions(int64_t ms) {
  if (!coordinator_ || coordinator_->dead()) return;
  trace_.Note(absl::StrCat("the coordinator's decisions are held up for ", ms, " ms"));
  coordinator_->HoldUp(ms);
}

// Whichever host it is to run on.
void World::HoldBack(const std::string& name) {
  for (Host& host : hosts_)
    if (host.agent) host.agent->Do(agent::KeepDown{KeyOf(name)});
}

void World::Start(const std::string& name) {
  for (Host& host : hosts_)
    if (host.agent) host.agent->Do(agent::Release{KeyOf(name)});
}

void World::BreakSession(const std::string& a, const std::string& b) {
  const SimSessionId session = network_.Between(NodeOf(a), NodeOf(b));
  if (session == 0) return;
  trace_.Note(absl::StrCat("the session between ", a, " and ", b, " breaks"));
  network_.Break(session);
}

void World::Cut(const std::string& from, const std::string& to, int64_t ms) {
  trace_.Note(absl::StrCat("nothing comes through from ", from, " to ", to, " for ", ms, " ms"));
  network_.Cut(NodeOf(from), NodeOf(to), ms);
}

void World::CutHosts(size_t a, size_t b, int64_t ms) {
  const HostCut& hosts =
      cut_hosts_.emplace_back(HostCut{hosts_[a].name, hosts_[b].name, schedule_.now() + ms});
  trace_.Note(absl::StrCat("members on ", hosts.a, " and ", hosts.b,
                           " cannot reach each other for ", ms, " ms"));
  for (const auto& [node, member] : members_)
    if (member->agent().host == hosts.a) Cut(hosts, *member);
}

void World::Cut(const HostCut& hosts, const MemberProcess& member) {
  const int64_t ms = hosts.until - schedule_.now();
  const std::string& here = member.agent().host;
  if (ms <= 0 || (here != hosts.a && here != hosts.b)) return;
  for (const auto& [node, other] : members_) {
    const std::string& there = other->agent().host;
    if (there == here || (there != hosts.a && there != hosts.b)) continue;
    network_.Cut(member.node(), node, ms);
    network_.Cut(node, member.node(), ms);
  }
}

void World::StopJob(const std::string& id) { client_.Stop(*jobs_.at(id)); }

void World::DamageCheckpoint(const std::string& id) {
  SimJob& job = *jobs_.at(id);
  if (job.store.catalogue.empty()) return;
  const Manifest& newest = job.store.catalogue.back();
  const auto last = static_cast<int64_t>(newest.segments.size()) - 1;
  const std::string& file = newest.segments[static_cast<size_t>(schedule_.Random(0, last))].file;
  job.disk[file].damaged = true;
  trace_.Note(
      absl::StrCat(file, " of the checkpoint of step ", newest.step.value(), " is damaged"));
}

// ---- the coordinator

bool World::Ask(const coordinator::Input& input) {
  if (!coordinator_ || coordinator_->dead()) return false;
  if (schedule_.smooth()) {
    coordinator_->Feed(input);
  } else {
    coordinator_->runner().Later(0, [this, input] { coordinator_->Feed(input); });
  }
  return true;
}

CoordinatorProcess::Events World::CoordinatorEvents() {
  CoordinatorProcess::Events events;
  events.member = [this](NodeId node) {
    const auto it = members_.find(node);
    return it == members_.end() ? nullptr : it->second.get();
  };
  events.to_agent = [this](const AgentId& agent, const Wanted& wanted) {
    invariants_.CheckWanted(agent, wanted);
    for (Host& host : hosts_)
      if (host.agent && host.agent->id() == agent) host.agent->SendWanted(wanted);
  };
  events.persisted = [this](SimJob& job) { OnPersisted(job); };
  events.deleted = [this](const std::string& id) { OnDeleted(id); };
  events.says = [this](const MemberId& to, const FromCoordinator& message) {
    invariants_.CheckSaid(to, message);
    faults_.OnSaid(to, message);
  };
  events.dies_now = [this] { return faults_.CoordinatorDies(); };
  events.died = [this] {
    schedule_.At(0, [this] { CrashCoordinator(schedule_.Random(50, 1500)); });
  };
  return events;
}

void World::StartCoordinator() {
  invariants_.CoordinatorStarts();
  coordinator_ = std::make_unique<CoordinatorProcess>(around_, ++term_, jobs_, drained_,
                                                      invariants_, CoordinatorEvents());
  for (auto& [id, job] : jobs_) client_.AskAgain(*job);
}

void World::CrashCoordinator(int64_t down_ms) {
  coordinator_.reset();
  schedule_.At(down_ms, [this] {
    if (!coordinator_ && !ended()) StartCoordinator();
  });
}

void World::KillCoordinator(int64_t down_ms) {
  if (!coordinator_ || coordinator_->dead() || ended()) return;
  trace_.Note(absl::StrCat("coordinator was killed; down for ", down_ms, " ms"));
  CrashCoordinator(down_ms);
}

void World::OnPersisted(SimJob& job) {
  client_.Persisted(job);
  const coordinator::JobPhase phase = job.store.journal->phase;
  const bool for_good =
      phase == coordinator::JobPhase::kDone || phase == coordinator::JobPhase::kCancelled;
  if (!for_good || !ended_.insert(&job).second) return;
  if (phase == coordinator::JobPhase::kCancelled) {
    coverage_.Add(Corner::kCancels);
    if (!job.options.may_be_cancelled) trace_.Violate("a job that nobody cancelled is cancelled");
  }
  invariants_.CheckEnd(job, TermNumber(term_));
  if (job.options.is_deleted && !schedule_.smooth()) return client_.DeleteLater(job);
  over_.insert(job.options.id);
}

// The next job under that id computes something else, so that it can use nothing of this one.
void World::OnDeleted(const std::string& id) {
  std::unique_ptr<SimJob>& job = jobs_.at(id);
  coverage_.Add(Corner::kDeletedJobs);
  trace_.Note(absl::StrCat(id, " is deleted"));
  JobOptions next = job->options;
  next.is_deleted = false;
  next.submit_at = schedule_.now();
  next.steps = schedule_.Random(10, 30);
  next.lanes = static_cast<int32_t>(schedule_.Random(1, 7));
  next.chunks = static_cast<int32_t>(schedule_.Random(3, 6));
  job->gone = true;
  deleted_.push_back(std::exchange(job, std::make_unique<SimJob>(next)));
  if (first_job_ == deleted_.back().get()) first_job_ = job.get();
  client_.SubmitAnew(*job);
}

// ---- running

bool World::Run() {
  faults_.Begin();
  while (!ended() && violation().empty() && schedule_.RunNext()) CheckItGoesOn();
  if (!ended() && violation().empty()) trace_.Violate("nothing is left to happen");
  return violation().empty();
}

void World::CheckItGoesOn() {
  if (faults_.over() && calm_since_ < 0) calm_since_ = schedule_.now();
  if (schedule_.events() > kMostEvents) trace_.Violate("two million events and no end");
  if (calm_since_ < 0 || schedule_.now() - calm_since_ <= kPatience) return;
  NoteWhereItStands();
  std::string phases;
  for (const auto& [id, job] : jobs_)
    absl::StrAppend(&phases, " ", id, " is ",
                    job->store.journal
                        ? std::string(coordinator::PhaseName(job->store.journal->phase))
                        : "unknown");
  trace_.Violate(absl::StrCat("no end two minutes after the last fault:", phases));
}

void World::NoteWhereItStands() {
  if (coordinator_)
    for (const coordinator::JobStatus& status : coordinator_->state().jobs().Status())
      trace_.Note(
          absl::StrCat("coordinator: ", status.job.id, " has recorded ", status.step.value(),
                       " of ", status.steps, " steps, has ", status.job.lineages.size(),
                       " lineages, the checkpoint of step ",
                       status.checkpoints.empty() ? -1 : status.checkpoints.back().second.value(),
                       ", waits for ", status.waits_for));
  for (const auto& [node, process] : members_) {
    const Machine* machine = process->machine();
    const std::string state =
        machine == nullptr
            ? "does not know its job yet"
            : absl::StrCat("step ", machine->member().step().value(), ", sealed ",
                           machine->member().sealed().value(), ", ", machine->member().Phase(),
                           ", ", machine->held(), " frames held back");
    trace_.Note(absl::StrCat(NameOf(*process), "-", process->id().incarnation.hi, ": ", state,
                             process->reaches_coordinator() ? "" : ", no coordinator"));
  }
}

bool World::RunUntil(const std::function<bool()>& condition) {
  const int64_t limit = schedule_.now() + 60000;
  while (!condition())
    if (schedule_.now() > limit || !violation().empty() || !schedule_.RunNext()) return false;
  return true;
}

}  // namespace muster::sim
