#include "tests/sim/world.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "coordinator/state/claims.h"
#include "lib/base/lease.h"
#include "lib/domain/manifest.h"

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
      pods_(around_, {.start =
                          [this](const std::string& name, int32_t devices) {
                            Host& host = PodNamed(name);
                            host.devices = devices;
                            StartAgent(host);
                          },
                      .end =
                          [this](const std::string& name, int64_t ms) {
                            EndHost(PodNamed(name).index, ms, schedule_.Random(50, 2000));
                          }}),
      faults_(*this, around_, options_.faults) {
  for (const JobOptions& job : options_.jobs) {
    const auto made = jobs_.emplace(job.id, std::make_unique<SimJob>(job)).first;
    if (first_job_ == nullptr) first_job_ = made->second.get();
  }
  if (jobs_.size() > 1) coverage_.Add(Corner::kSecondJobs);
  for (size_t i = 0; i < options_.hosts.size(); ++i)
    hosts_.push_back({.name = i == 0 ? "host" : absl::StrCat("host-", i),
                      .index = i,
                      .slots = options_.hosts[i],
                      .devices = i < options_.devices.size() ? options_.devices[i] : 0});
  if (hosts_.size() > 1) coverage_.Add(Corner::kSeveralHosts);
  for (Host& host : hosts_) StartAgent(host);
  StartCoordinator();
  for (auto& [id, job] : jobs_)
    if (job->options.submit_at > 0)
      schedule_.At(job->options.submit_at, [this, j = job.get()] { client_.Submit(*j); });
  for (auto& [id, job] : jobs_)
    if (job->source && !schedule_.smooth()) StopWhileItsSourceStandsStill(*job);
  if (options_.quota > 0) schedule_.At(options_.quota_at, [this] { SetQuota(); });
  if (options_.mistake_at > 0) {
    schedule_.At(options_.mistake_at - options_.copy_age, [this] { CopyJournal(); });
    schedule_.At(options_.mistake_at, [this] { StartOnCopy(); });
  }
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
            for (const coordinator::HostRoom& room : coordinator_->state().Rooms())
              if (!room.drains) slots += room.slots;
            return slots;
          },
          [this]() -> const coordinator::Quotas& { return quotas_; },
          [this](int32_t devices_each) {
            int32_t workers = 0;
            for (const coordinator::HostRoom& room : coordinator_->state().Rooms())
              if (!room.drains) workers += coordinator::MostWorkersOn(room, devices_each);
            return workers;
          },
          [this] { return coordinator_node_; },
          options_.signs,
          options_.launches};
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
  if (name == "coordinator") return coordinator_node_;
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
  const NodeId node = kFirstAgentNode + static_cast<NodeId>(host.index);
  const uint64_t name = HashBytes(host.name);
  AgentHello hello{.agent = {host.name, {++host.lives, name}}, .node = host.name};
  // It finds the folder of the one before it, unless another machine has taken its name.
  // A pod that takes the place of another has a folder of its own, unless only its process ended.
  if (host.lives > 1 && (schedule_.smooth() || !schedule_.OneIn(host.is_pod ? 2 : 6))) {
    hello.follows = {host.lives - 1, name};
  } else {
    host.known.clear();
    host.obeyed = TermNumber();
  }
  hello.slots = host.slots;
  for (int32_t i = 0; i < host.devices; ++i) hello.devices.push_back({absl::StrCat(i)});
  host.agent = std::make_unique<AgentProcess>(
      around_, node, std::move(hello), host.known, Addresses(), options_.signs,
      AgentProcess::Events{
          [this, &host](const agent::Spawn& spawn, std::optional<Incarnation> drawn) {
            Spawn(host, spawn, drawn);
          },
          [this, &host](const agent::ProcessKey& key, int signal) { Signal(host, key, signal); },
          [this](NodeId at) { return CoordinatorAt(at); },
          [this](const agent::ProcessKey& key) { return Draw(key); },
          [&host](const agent::KnownTerms& known) { host.known = known; },
          [this, &host](TermNumber term) { NoteObeyed(host, term); }});
}

World::Host& World::PodNamed(const std::string& name) {
  for (Host& host : hosts_)
    if (host.name == name) return host;
  return hosts_.emplace_back(
      Host{.name = name, .index = hosts_.size(), .slots = 1, .is_pod = true});
}

void World::NoteObeyed(Host& host, TermNumber term) {
  if (term < host.obeyed)
    trace_.Violate(absl::StrCat(host.name, " obeys term ", term.value(), ", though it has obeyed ",
                                host.obeyed.value()));
  host.obeyed = std::max(host.obeyed, term);
}

Incarnation World::Draw(const agent::ProcessKey& key) {
  return {static_cast<uint64_t>(++starts_[key]), HashBytes(absl::StrCat(key.job, "/", key.name))};
}

void World::Spawn(Host& host, const agent::Spawn& spawn, std::optional<Incarnation> drawn) {
  const agent::ProcessKey& key = spawn.key;
  SimJob& job = *jobs_.at(key.job);
  const MemberId id{key.name, drawn ? *drawn : Draw(key)};
  const NodeId node = next_node_++;
  job_of_[id] = &job;
  invariants_.CheckSpawn(job, host.agent->id(), spawn);
  if (options_.launches) invariants_.CheckHostOf(job, host.name);
  invariants_.CheckHasCertificate(job, id);
  MemberProcess::Events events;
  events.find = [this](const MemberId& member) { return Find(member); };
  events.coordinator = [this](NodeId at) { return CoordinatorAt(at); };
  events.job = [this, id, name = key.job] { return job_of_[id] = jobs_.at(name).get(); };
  events.hears = [this](const MemberProcess& member, const FromCoordinator& message) {
    invariants_.CheckHeard(member, message);
    faults_.OnHeard(member, message);
  };
  events.at_phase = [this](const MemberProcess& member) { faults_.OnPhase(member); };
  events.step_done = [agent = host.agent.get(), key](Step step) {
    agent->Do(agent::Progressed{key, step});
  };
  events.left = [this, node](int code, const std::string& reason) {
    schedule_.At(0, [this, node, code, reason] { End(node, "left: " + reason, code, 0); });
  };
  auto process = std::make_unique<MemberProcess>(
      around_,
      MemberProcess::Place{&job, id, spawn.role, node, host.agent->id(), spawn.placement,
                           spawn.devices, Addresses()},
      events);
  if (!spawn.devices.empty()) coverage_.Add(Corner::kDevices);
  for (const auto& [other, member] : members_)
    for (const std::string& device : member->devices())
      if (member->agent().host == host.name &&
          std::count(spawn.devices.begin(), spawn.devices.end(), device) > 0)
        trace_.Violate(absl::StrCat(NameOf(*process), " and ", NameOf(*member),
                                    " live and have device ", device, " of ", host.name));
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

void World::Crash(NodeId node, const std::string& cause) {
  const auto it = members_.find(node);
  if (it == members_.end()) return;
  ++it->second->job().crashes;
  End(node, cause, 0, SIGKILL);
}

// Nobody tells what its processes had run: a host that is lost has lost its folder, too.
void World::KillHost(size_t host, int64_t down_ms) {
  Host& lost = hosts_[host];
  if (!lost.agent) return;
  trace_.Note(absl::StrCat(lost.name, " dies; it is down for ", down_ms, " ms"));
  lost.agent.reset();
  for (const MemberProcess* p : AllMembers())
    if (p->agent().host == lost.name) Crash(p->node(), "died with its host");
  if (lost.is_pod) return pods_.Died(lost.name, down_ms);
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
    const bool is_over = ended() && !hosts_[host].is_pod;
    if (hosts_[host].lives == life && !is_over) KillHost(host, down_ms);
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

void World::SetQuota() {
  trace_.Note(
      absl::StrCat("all jobs may hold ", options_.quota, " slots for ", options_.quota_ms, " ms"));
  Ask(coordinator::SetQuota{kDefaultNamespace, {.slots = options_.quota}});
  schedule_.At(options_.quota_ms,
               [this, until = schedule_.now() + options_.quota_ms + 10000] { LiftQuota(until); });
}

// Again and again, because a coordinator may die before that is persisted, or hear only now of the
// quota: else jobs might wait for ever.
void World::LiftQuota(int64_t until) {
  if (ended() || (quotas_.empty() && schedule_.now() >= until)) return;
  Ask(coordinator::SetQuota{kDefaultNamespace, {}});
  schedule_.At(200, [this, until] { LiftQuota(until); });
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
  if (const MemberProcess* p = FindByName(name)) Crash(p->node(), "was killed");
}

void World::KillAll() {
  for (const MemberProcess* p : AllMembers()) Crash(p->node(), "was killed");
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
  if (job.store.catalogue.empty() || !MayDamage(job)) return;
  const Manifest& newest = job.store.catalogue.back();
  const auto last = static_cast<int64_t>(newest.segments.size()) - 1;
  const std::string& file = newest.segments[static_cast<size_t>(schedule_.Random(0, last))].file;
  job.disk[file].damaged = true;
  trace_.Note(
      absl::StrCat(file, " of the checkpoint of step ", newest.step.value(), " is damaged"));
}

// Of a stream that was trimmed nobody can begin anew. So one checkpoint is left, of those that
// stay: which ones go was decided when the newest one was committed, and they may still be there.
bool World::MayDamage(const SimJob& job) {
  if (!job.source) return true;
  const CheckpointPolicy& policy = job.store.journal->spec.runtime.checkpoint;
  const std::vector<Manifest> staying =
      job.store.Staying(job.store.journal->lineages, {policy.keep, policy.keep_every}, /*best=*/{});
  const auto is_damaged = [&](const Segment& segment) {
    const auto file = job.disk.find(segment.file);
    return file != job.disk.end() && file->second.damaged;
  };
  const auto sound = std::count_if(staying.begin(), staying.end(), [&](const Manifest& m) {
    return std::none_of(m.segments.begin(), m.segments.end(), is_damaged);
  });
  return sound > 1;
}

// ---- the coordinator

bool World::Ask(const coordinator::Input& input) {
  if (!coordinator_ || coordinator_->dead()) return false;
  // The one that was replaced might start the job that is gone, under the id of the one after it.
  if (replaced_ && std::holds_alternative<coordinator::Delete>(input)) return false;
  if (schedule_.smooth()) {
    coordinator_->Feed(input);
  } else {
    // It may be replaced meanwhile, and hears it all the same.
    coordinator_->runner().Later(0, [to = coordinator_.get(), input] { to->Feed(input); });
  }
  return true;
}

CoordinatorProcess::Events World::CoordinatorEvents() {
  CoordinatorProcess::Events events;
  events.member = [this](NodeId node) {
    const auto it = members_.find(node);
    return it == members_.end() ? nullptr : it->second.get();
  };
  events.to_agent = [this](const AgentId& agent, SimSessionId session, const ToAgent& message) {
    for (Host& host : hosts_)
      if (host.agent && host.agent->id() == agent) host.agent->Said(session, message);
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
  events.claimed = [this] { return coordinator::TermOfClaim(claim_); };
  events.ends = [this] {
    trace_.Note(absl::StrCat("the coordinator of term ", replaced_->term(),
                             " has been replaced, and ends"));
    coverage_.Add(Corner::kReplacedEnds);
    invariants_.TwoCoordinators();
    schedule_.At(0, [this] {
      launcher_of_replaced_.reset();
      replaced_.reset();
      for (auto& [id, job] : jobs_)
        if (job->delete_asked) client_.DeleteLater(*job);
    });
  };
  events.sent_away = [this](const MemberId& member, const std::string& why) {
    NoteSentAway(member, why);
  };
  return events;
}

CoordinatorProcess* World::CoordinatorAt(NodeId node) {
  if (coordinator_ && coordinator_->node() == node) return coordinator_.get();
  return replaced_ && replaced_->node() == node ? replaced_.get() : nullptr;
}

// ---- a second coordinator on a copy of the journal

void World::CopyJournal() {
  copy_.emplace();
  for (const auto& [id, job] : jobs_) copy_->jobs[id] = {job.get(), job->store};
  copy_->drained = drained_;
  copy_->quotas = quotas_;
  copy_->claim = journal_claim_;
}

// Nothing has begun or ended meanwhile: people would have to be told that it did not.
bool World::CopyIsOfTheseJobs() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [this](const auto& entry) {
    const auto& [of, store] = copy_->jobs.at(entry.first);
    const auto &then = store.journal, &now = entry.second->store.journal;
    if (of != entry.second.get() || then.has_value() != now.has_value()) return false;
    return !now || coordinator::Ended(then->phase) == coordinator::Ended(now->phase);
  });
}

// The first one lives on, and some reach only this one.
void World::StartOnCopy() {
  if (ended() || !coordinator_ || coordinator_->dead() || !CopyIsOfTheseJobs()) return;
  if (coordinator::IsOfAnother(claim_, copy_->claim)) {
    trace_.Note("a coordinator on an older copy of the journal is refused");
    return coverage_.Add(Corner::kRefusedCopies);
  }
  trace_.Note(absl::StrCat("a second coordinator is started, on a copy of the journal from ",
                           options_.copy_age, " ms ago"));
  coverage_.Add(Corner::kTwoCoordinators);
  replaced_ = std::move(coordinator_);
  launcher_of_replaced_ = std::move(launcher_);
  replaced_->IsReplaced(options_.looks_ms);
  for (const auto& [id, job] : jobs_) job->store = copy_->jobs.at(id).second;
  const std::set<std::string> drained = std::exchange(drained_, copy_->drained);
  quotas_ = copy_->quotas;
  coordinator_node_ =
      replaced_->node() == kCoordinatorNode ? kOtherCoordinatorNode : kCoordinatorNode;
  invariants_.TwoCoordinators();
  StartCoordinator();
  // A person sees that a host is drained again which was taken back after the copy was made.
  for (const std::string& host : copy_->drained)
    if (drained.count(host) == 0) AskUntilDrained(host, false, [] {});
  CutFromReplaced();
  const int64_t stands_still = std::max<int64_t>(0, replaced_->runner().stalled_until() - now());
  schedule_.At(options_.looks_ms + stands_still + 1000, [this] {
    if (replaced_) trace_.Violate("a coordinator that was replaced lives on");
  });
}

void World::CutFromReplaced() {
  const NodeId replaced = replaced_->node();
  for (size_t host = 0; host < hosts_.size(); ++host) {
    if (!hosts_[host].agent || !schedule_.OneIn(2)) continue;
    const NodeId node = hosts_[host].agent->node();
    const int64_t ms = schedule_.Random(1000, 8000);
    CutFromOneOfTwo(node, replaced, ms);
    if (schedule_.OneIn(2)) schedule_.At(ms, [this, host] { LeaveWithReplaced(host); });
  }
  for (const auto& [node, member] : members_)
    if (schedule_.OneIn(2)) CutFromOneOfTwo(node, replaced, schedule_.Random(1000, 8000));
}

// Now it reaches only the one that was replaced, and must not obey it any more; not as another
// agent with that disk either.
void World::LeaveWithReplaced(size_t host) {
  if (ended() || !replaced_ || !hosts_[host].agent) return;
  CutFromOneOfTwo(hosts_[host].agent->node(), coordinator_node_, schedule_.Random(1000, 3000));
  if (schedule_.OneIn(2)) KillHost(host, schedule_.Random(20, 200));
}

// A try to connect through a cut lasts as long as that. So it is ended: the other one comes next.
void World::CutFromOneOfTwo(NodeId node, NodeId coordinator, int64_t ms) {
  const auto end_session = [this, node, coordinator] {
    if (const SimSessionId session = network_.Between(node, coordinator)) network_.Break(session);
  };
  network_.Cut(node, coordinator, ms);
  network_.Cut(coordinator, node, ms);
  end_session();
  schedule_.At(schedule_.Random(500, 1000), end_session);
}

// What it knows was decided by the one that was replaced. It is sent away again and again, and
// keeps what it holds, until a person ends it.
void World::NoteSentAway(const MemberId& member, const std::string& why) {
  invariants_.CheckSentAway(member, why);
  const auto [it, is_new] = sent_away_.insert_or_assign(member, schedule_.now());
  if (!is_new) return;
  trace_.Note(absl::StrCat("> ", member.name, " is sent away: ", why));
  coverage_.Add(Corner::kSentAway);
  EndIfSentAway(member);
}

void World::EndIfSentAway(const MemberId& member) {
  constexpr int64_t kLately = 1000;
  schedule_.At(schedule_.Random(2000, 5000), [this, member] {
    const MemberProcess* process = Find(member);
    if (process == nullptr) return;
    if (schedule_.now() - sent_away_[member] <= kLately)
      return Crash(process->node(), "was killed by a person: it knows more than the journal");
    EndIfSentAway(member);
  });
}

// ---- the coordinator, again

void World::StartCoordinator() {
  invariants_.CoordinatorStarts();
  ++term_;
  claim_ = journal_claim_ = coordinator::ClaimOf(TermNumber(term_), "0");
  coordinator_ = std::make_unique<CoordinatorProcess>(
      around_, coordinator_node_, term_, jobs_, drained_, quotas_, invariants_,
      CoordinatorProcess::Ways{options_.signs, options_.launches}, CoordinatorEvents());
  if (options_.launches) launcher_ = std::make_unique<SimLauncher>(around_, pods_, *coordinator_);
  for (auto& [id, job] : jobs_) client_.AskAgain(*job);
}

void World::CrashCoordinator(int64_t down_ms) {
  launcher_.reset();
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
  if (phase == coordinator::JobPhase::kStopped) {
    invariants_.CheckEnd(job, TermNumber(term_));
    if (job.source && job.source->StandsStillAt(now())) coverage_.Add(Corner::kStopsOfStreams);
    if (job.source) job.source->GoOn(now());
  }
  const bool for_good = phase == coordinator::JobPhase::kDone ||
                        phase == coordinator::JobPhase::kCancelled || job.has_no_sample();
  if (!for_good || !ended_.insert(&job).second) return;
  if (job.has_no_sample()) coverage_.Add(Corner::kNoSamples);
  if (phase == coordinator::JobPhase::kCancelled) {
    coverage_.Add(Corner::kCancels);
    if (!job.options.may_be_cancelled) trace_.Violate("a job that nobody cancelled is cancelled");
  }
  invariants_.CheckEnd(job, TermNumber(term_));
  if (job.options.is_deleted && !schedule_.smooth()) return client_.DeleteLater(job);
  over_.insert(job.options.id);
}

// A person waits in vain, and stops the job; then the source goes on.
void World::StopWhileItsSourceStandsStill(SimJob& job) {
  schedule_.At(schedule_.Random(1000, 4000), [this, &job] {
    const bool is_over = job.gone || ended_.contains(&job);
    if (is_over || !job.options.stream->stands_still_at) return;
    const auto& journal = job.store.journal;
    const bool may_stop =
        journal && !coordinator::Ended(journal->phase) && !journal->ending.stop_asked;
    if (may_stop && job.source->StandsStillAt(now())) client_.Stop(job);
    StopWhileItsSourceStandsStill(job);
  });
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
  if (next.stream) {
    StreamOptions stream = *next.stream;
    const int64_t batch = next.batch > 0 ? next.batch : next.lanes;
    stream.samples = static_cast<uint64_t>(schedule_.Random(1, 20 * batch));
    stream.max_bytes = std::max(stream.max_bytes, LeastSpoolOf(batch));
    stream.stands_still_at.reset();
    stream.salt = Mix64(stream.salt, 1);
    TakeStream(next, stream);
  }
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
  if (violation().empty() && !options_.devices.empty()) CheckRest();
  if (violation().empty() && options_.launches) CheckNoPodsAreLeft();
  return violation().empty();
}

// Once no process lives any more, nobody has a device.
void World::CheckRest() {
  constexpr int64_t kRest = 60000;
  const int64_t until = schedule_.now() + kRest;
  while (violation().empty() && (!members_.empty() || !WhoHoldsDevices().empty()) &&
         schedule_.now() < until)
    if (!schedule_.RunNext()) break;
  if (!violation().empty() || !members_.empty()) return;
  if (const std::string held = WhoHoldsDevices(); !held.empty())
    trace_.Violate(absl::StrCat("nothing runs any more, and the coordinator holds ", held));
}

// What was made for jobs is ended, whatever happened meanwhile.
void World::CheckNoPodsAreLeft() {
  constexpr int64_t kRest = 120000;
  const int64_t until = schedule_.now() + kRest;
  while (violation().empty() && !pods_.empty() && schedule_.now() < until) {
    if (!coordinator_) StartCoordinator();
    if (!schedule_.RunNext()) break;
  }
  if (violation().empty() && !pods_.empty())
    trace_.Violate("all jobs are over, and what was made for them is still there");
}

// "device 1 of host-1", of hosts that speak with the coordinator; empty: none.
std::string World::WhoHoldsDevices() const {
  if (!coordinator_ || coordinator_->dead()) return "";
  for (const coordinator::HostRoom& room : coordinator_->state().Rooms())
    if (room.takes_new && !room.held.empty())
      return absl::StrCat("device ", *room.held.begin(), " of ", room.name);
  return "";
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
