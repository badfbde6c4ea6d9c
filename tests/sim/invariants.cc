#include "tests/sim/invariants.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/lease.h"
#include "lib/domain/audit.h"
#include "tests/sim/member_process.h"
#include "tests/support/ancestry.h"

namespace muster::sim {

using coordinator::JobPhase;

namespace {

// Nothing that happened to a process longer ago is a reason to give it up: beyond the patience with
// the only copy of the state.
constexpr int64_t kLongAgo = 20000;
// From the end of a cut to when nobody can be left out for it any more.
constexpr int64_t kVerdictTime = 5000;

const MemberId& OwnerOfFirstChunk(const View& view) {
  return view.members[static_cast<size_t>(view.owner_of[0])].id;
}

// It goes on under this view: no later one is forming.
bool IsActive(const coordinator::JobJournal& journal) {
  return journal.view && !journal.resumes && journal.view->number == journal.number &&
         !coordinator::Ended(journal.phase);
}

bool AsksForStop(const coordinator::JobJournal& journal) {
  return journal.ending.stop_asked && !journal.ending.stop_at && !journal.ending.enough_at;
}

// Else it goes on from an older checkpoint, if at all, and only then what was run beyond that is
// counted.
bool HasSavedItsStop(const SimJob& job) {
  const std::optional<Step>& stop_at = job.store.journal->ending.stop_at;
  const std::vector<Manifest>& saved = job.store.catalogue;
  return stop_at && !saved.empty() && saved.back().step == *stop_at;
}

}  // namespace

void Invariants::Violate(const SimJob& job, const std::string& what) {
  around_.trace.Violate(absl::StrCat(job.options.id, ": ", what));
}

// ---- what is persisted

namespace {

int32_t HostSlotsOf(const coordinator::JobJournal& journal) {
  return static_cast<int32_t>(journal.placements.size());
}

// Those that wait for room hold nothing: what is free may be of no use to them.
int32_t PlacedOf(const coordinator::JobJournal& journal) {
  return static_cast<int32_t>(
      std::count_if(journal.placements.begin(), journal.placements.end(),
                    [](const auto& entry) { return entry.second.host.has_value(); }));
}

// What a job that has no process must have room for. A stream that has ended needs no reader.
int32_t LeastPlacesOf(const SimJob& job) {
  const JobSpec& spec = job.store.journal->spec;
  const TrainingSpec& training = spec.training;
  const bool has_all = IsStreamed(training) && NeedsNoMore(StepsOf(training), job.store.known());
  return LeastMembersOf(spec) - (has_all ? 1 : 0);
}

int32_t StayingOf(const coordinator::JobJournal& journal) {
  return static_cast<int32_t>(
      std::count_if(journal.placements.begin(), journal.placements.end(),
                    [](const auto& entry) { return !entry.second.leaving; }));
}

bool HasDevices(Role role) { return role == Role::kWorker || role == Role::kFollower; }

bool IsInView(const coordinator::JobJournal& journal, const std::string& name) {
  return journal.view && std::any_of(journal.view->members.begin(), journal.view->members.end(),
                                     [&](const ViewMember& m) { return m.id.name == name; });
}

}  // namespace

void Invariants::BeforePersist(const SimJob& job, const coordinator::JobJournal& next) {
  const auto& now = job.store.journal;
  if (sight_.launches) CheckLaunch(job, next);
  if (!now) return;
  if (next.number < now->number) Violate(job, "a view number went back");
  if (now->ending.gives_way && next.phase == JobPhase::kQueued) {
    around_.coverage.Add(Corner::kGaveWay);
    if (now->ending.is_urgent) around_.coverage.Add(Corner::kPreempted);
  }
  CheckPreemption(job, next);
  if (!sight_.launches) CheckQuota(job, next);
  if (next.lineages.size() < now->lineages.size()) Violate(job, "a lineage was forgotten");
  if (next.spec.training != now->spec.training)
    Violate(job, "the training specification of a job changed");
  around_.coverage.Add(Corner::kRewinds, next.rewinds - now->rewinds);
  if (next.rewinds > now->rewinds) CheckRewind(job);
  NoteStop(job, next);
  CheckPlaces(job, next);
  const bool starts = next.phase == JobPhase::kChecking || next.phase == JobPhase::kStarting;
  if (now->phase == JobPhase::kQueued && starts && !sight_.launches) CheckStart(job, next);
}

// Only a job that waits and has a higher priority makes another stop.
void Invariants::CheckPreemption(const SimJob& job, const coordinator::JobJournal& next) {
  const bool begins =
      next.ending.gives_way && next.ending.is_urgent && !job.store.journal->ending.is_urgent;
  if (!begins) return;
  for (const SimJob* other : sight_.jobs()) {
    const auto& journal = other->store.journal;
    if (!sight_.launches && other != &job && journal && journal->phase == JobPhase::kQueued &&
        journal->spec.queue.priority > next.spec.queue.priority)
      return;
  }
  Violate(job, "it is preempted, and nobody waits who has a higher priority");
}

// All jobs are of one namespace. Whoever is to leave makes room for who is placed in its stead,
// also where it leaves first, because it has no part in anything.
void Invariants::CheckQuota(const SimJob& job, const coordinator::JobJournal& next) {
  const coordinator::Quotas& quotas = sight_.quotas();
  const auto quota = quotas.find(next.spec.queue.name_space);
  const coordinator::JobJournal& now = *job.store.journal;
  const auto holds = [](const coordinator::JobJournal& journal) {
    return !coordinator::Ended(journal.phase) && journal.phase != JobPhase::kQueued;
  };
  const int32_t had = holds(now) ? static_cast<int32_t>(now.placements.size()) : 0;
  const auto left = left_at_.find(job.options.id);
  const bool is_replaced = (left != left_at_.end() && left->second == around_.schedule.now()) ||
                           std::any_of(next.placements.begin(), next.placements.end(),
                                       [](const auto& entry) { return entry.second.leaving; });
  const bool grows =
      holds(next) && !is_replaced && static_cast<int32_t>(next.placements.size()) > had;
  if (quota == quotas.end() || !quota->second.slots || !grows) return;
  around_.coverage.Add(Corner::kPlacedUnderQuota);
  int32_t others = 0;
  for (const SimJob* other : sight_.jobs())
    if (other != &job && other->store.journal && holds(*other->store.journal))
      others += StayingOf(*other->store.journal);
  const int32_t before = others + (holds(now) ? StayingOf(now) : 0);
  if (others + StayingOf(next) > std::max(*quota->second.slots, before))
    Violate(job, absl::StrCat("it is placed beyond the quota of ", *quota->second.slots));
}

// Members are placed anew where nothing is heard of them any more, and never beyond what the job
// may have.
void Invariants::CheckPlaces(const SimJob& job, const coordinator::JobJournal& next) {
  const coordinator::JobJournal& now = *job.store.journal;
  const bool runs =
      next.start == now.start && !coordinator::Ended(next.phase) && next.phase != JobPhase::kQueued;
  if (!runs) return;
  CheckDevices(job, next);
  // One that was scaled has more of them until they have left.
  const int32_t most = MostMembersOf(next.spec);
  if (StayingOf(next) > std::max(most, StayingOf(now)))
    Violate(job, "it has more members than it may have");
  if (next.placements.size() > now.placements.size() && !now.placements.empty())
    around_.coverage.Add(Corner::kGrowths);
  for (const auto& [name, placement] : now.placements) {
    const coordinator::Placement* after = coordinator::PlacementOf(next, name);
    if (after == nullptr) {
      const bool needs_none = placement.role == Role::kReader &&
                              NeedsNoMore(StepsOf(job.terms.training()), job.store.known());
      if (needs_none) continue;
      if (!placement.leaving) Violate(job, absl::StrCat("the place of ", name, " is gone"));
      left_at_[job.options.id] = around_.schedule.now();
      if (IsInView(now, name)) around_.coverage.Add(Corner::kLeaves);
      continue;
    }
    if (after->number == placement.number) continue;
    if (placement.host && !IsInViews(placement.role)) continue;  // it moves as it is
    if (!placement.host) {
      around_.coverage.Add(Corner::kPlacedAnew);
      continue;
    }
    around_.coverage.Add(Corner::kHostsLost);
    for (const MemberProcess* process : sight_.members(job))
      if (process->placement() == placement.number && process->machine() != nullptr &&
          IsWithinReach(*process) && !WasCut(*process, kVerdictTime))
        Violate(job, absl::StrCat("the place of ", name, ", which lives, is taken back"));
  }
}

// The hosts of one job are those of no other, and it keeps them as long as it runs. All jobs are of
// one namespace.
void Invariants::CheckLaunch(const SimJob& job, const coordinator::JobJournal& next) {
  const coordinator::JobLaunch before =
      job.store.journal ? job.store.journal->launch : coordinator::JobLaunch();
  const bool runs = !coordinator::Ended(next.phase) && next.phase != JobPhase::kQueued;
  if (next.launch.number > 0) {
    const std::string name = coordinator::LaunchNameOf("cluster", next);
    const auto [it, is_new] = job_of_launch_.try_emplace(name, &job);
    if (it->second != &job) Violate(job, absl::StrCat(name, " was granted to two jobs"));
    if (next.launch.number != before.number && !is_new)
      Violate(job, absl::StrCat(name, " is granted again"));
    if (is_new) CheckGrant(job, next);
  }
  if (runs && next.launch.number == 0) Violate(job, "it runs without hosts of its own");
  const bool ran = job.store.journal && !coordinator::Ended(job.store.journal->phase) &&
                   job.store.journal->phase != JobPhase::kQueued;
  if (runs && ran && next.launch != before) Violate(job, "its hosts change while it runs");
  if (coordinator::Ended(next.phase) && next.launch.number > 0)
    Violate(job, "it is over, and keeps its hosts");
  for (const auto& [member, placement] : next.placements)
    if (runs && placement.host) CheckHostOf(job, *placement.host);
}

// All that were granted hosts fit into the quota, as it is now.
void Invariants::CheckGrant(const SimJob& job, const coordinator::JobJournal& next) {
  const auto quota = sight_.quotas().find(next.spec.queue.name_space);
  if (quota == sight_.quotas().end() || !quota->second.slots) return;
  around_.coverage.Add(Corner::kGrantedUnderQuota);
  int32_t held = next.launch.hosts;
  for (const SimJob* other : sight_.jobs())
    if (const auto& journal = other->store.journal;
        other != &job && journal && !coordinator::Ended(journal->phase))
      held += std::min(journal->launch.hosts, MostMembersOf(journal->spec));
  if (held > *quota->second.slots)
    Violate(job, absl::StrCat("it is granted hosts beyond the quota of ", *quota->second.slots));
}

void Invariants::CheckHostOf(const SimJob& job, const std::string& host) {
  const auto at = coordinator::HostOfLaunchNamed(host);
  const auto it = at ? job_of_launch_.find(at->launch) : job_of_launch_.end();
  // Perhaps one that was replaced has granted it, in a journal of its own.
  if (at && it == job_of_launch_.end() && two_until_ > 0) return;
  if (it == job_of_launch_.end() || it->second != &job)
    Violate(job, absl::StrCat("it has a place on ", host, ", which was not made for it"));
}

// Whoever is placed has its own, and keeps them.
void Invariants::CheckDevices(const SimJob& job, const coordinator::JobJournal& next) {
  std::map<std::pair<std::string, std::string>, std::string> placed;  // by host and id
  const auto add = [&](const coordinator::JobJournal& journal) {
    for (const auto& [name, placement] : journal.placements)
      for (const std::string& id : placement.devices)
        if (const auto [it, is_new] = placed.try_emplace({*placement.host, id}, name); !is_new)
          Violate(job, absl::StrCat(name, " and ", it->second, " are placed on device ", id, " of ",
                                    *placement.host));
  };
  for (const SimJob* other : sight_.jobs())
    if (const auto& journal = other->store.journal; other != &job && journal &&
                                                    !coordinator::Ended(journal->phase) &&
                                                    journal->phase != JobPhase::kQueued)
      add(*journal);
  add(next);
  for (const auto& [name, placement] : next.placements) {
    const auto wanted = static_cast<size_t>(
        HasDevices(placement.role) && placement.host ? next.spec.runtime.devices : 0);
    if (placement.devices.size() != wanted)
      Violate(job, absl::StrCat(name, " has ", placement.devices.size(), " devices, not ", wanted));
    const coordinator::Placement* before = coordinator::PlacementOf(*job.store.journal, name);
    if (before != nullptr && before->number == placement.number &&
        before->devices != placement.devices)
      Violate(job, absl::StrCat(name, " has other devices in the same place"));
  }
}

void Invariants::CheckHeld(const AgentId& agent, const std::vector<HostDevice>& devices) {
  for (const HostDevice& device : devices) {
    if (device.holder == PlacementNumber()) continue;
    const auto told = agent_of_.find(device.holder);
    bool is_placed = false;
    for (const SimJob* job : sight_.jobs()) {
      if (told == agent_of_.end() || told->second != agent)
        Violate(*job, absl::StrCat(agent.host, " says that a place that it was not told of has ",
                                   "device ", device.id));
      if (!job->store.journal) continue;
      for (const auto& [name, placement] : job->store.journal->placements)
        is_placed |=
            placement.number == device.holder && !coordinator::Ended(job->store.journal->phase);
    }
    if (!is_placed) around_.coverage.Add(Corner::kHeldDevices);
  }
}

// What one that was replaced wants is in its own journal alone. But no place that it gives is given
// by another one.
void Invariants::CheckWanted(const AgentId& agent, const Wanted& wanted, bool is_replaced) {
  for (const JobProcesses& of_job : wanted.jobs)
    for (const SimJob* job : sight_.jobs()) {
      if (job->options.id != of_job.job) continue;
      for (const ProcessWanted& process : of_job.processes) {
        const auto [it, is_new] = agent_of_.try_emplace(process.placement, agent);
        if (it->second != agent)
          Violate(*job, absl::StrCat("the place of ", process.name, " is told to two agents"));
        if (is_replaced) continue;
        const coordinator::Placement* placement =
            coordinator::PlacementOf(*job->store.journal, process.name);
        if (placement == nullptr || placement->number != process.placement ||
            placement->host != agent.host)
          Violate(*job, absl::StrCat(agent.host, " is told of a place of ", process.name,
                                     " that is not in the journal"));
      }
    }
}

void Invariants::CheckSpawn(const SimJob& job, const AgentId& agent, const agent::Spawn& spawn) {
  const auto it = agent_of_.find(spawn.placement);
  if (it == agent_of_.end() || it->second != agent)
    Violate(job, absl::StrCat(agent.host, " starts ", spawn.key.name,
                              " in a place that it was not told of"));
}

// What is signed is in the journal: the next coordinator must know it.
void Invariants::CheckSigned(const SimJob& job, const SignMember& ask) {
  const Incarnation process = ask.process.incarnation;
  const auto [known, is_new] = keys_.emplace(process, ask.public_key);
  if (known->second != ask.public_key) Violate(job, "two keys are signed for one incarnation");
  const coordinator::Signatures& persisted = job.store.journal->signatures;
  const auto signature = persisted.find(process);
  if (signature == persisted.end() || signature->second.key_hash != ask.public_key)
    Violate(job, "a process is signed of which the journal does not know");
}

void Invariants::CheckHasCertificate(const SimJob& job, const MemberId& member) {
  if (sight_.signs && !keys_.contains(member.incarnation))
    Violate(job, absl::StrCat(member.name, " starts without a certificate"));
}

// The rules of the queue: what runs fits into the host, and what passes the head of the queue
// leaves room for it.
void Invariants::CheckStart(const SimJob& job, const coordinator::JobJournal& next) {
  const auto comes_before = [](const coordinator::JobJournal& a, const coordinator::JobJournal& b) {
    return std::pair(-a.spec.queue.priority, a.submission) <
           std::pair(-b.spec.queue.priority, b.submission);
  };
  const bool has_quota = !sight_.quotas().empty();  // who waits for it is no head
  const SimJob* head = nullptr;
  int32_t held = PlacedOf(next);
  for (const SimJob* other : sight_.jobs()) {
    const auto& journal = other->store.journal;
    if (other == &job || !journal || coordinator::Ended(journal->phase)) continue;
    const muster::RuntimeSpec& runtime = journal->spec.runtime;
    const bool waits = journal->phase == JobPhase::kQueued;
    if (!waits) held += PlacedOf(*journal);
    const bool fits = LeastPlacesOf(*other) <= sight_.slots_known() &&
                      runtime.workers_min + FollowersOf(journal->spec.training) <=
                          sight_.workers_known(runtime.devices);
    if (waits && fits && !has_quota && comes_before(*journal, next) &&
        (head == nullptr || comes_before(*journal, *head->store.journal)))
      head = other;
  }
  if (held > sight_.slots)
    Violate(job, absl::StrCat("it was started when ", held, " of ", sight_.slots,
                              " slots would be held"));
  if (held > PlacedOf(next)) around_.coverage.Add(Corner::kStartsBesideOthers);
  if (head == nullptr) return;
  around_.coverage.Add(Corner::kPassers);
  int32_t passed = HostSlotsOf(next);
  for (const SimJob* other : sight_.jobs()) {
    const auto& journal = other->store.journal;
    const bool runs = other != &job && journal && !coordinator::Ended(journal->phase) &&
                      journal->phase != JobPhase::kQueued;
    if (runs && comes_before(*head->store.journal, *journal)) passed += HostSlotsOf(*journal);
  }
  const int32_t least = LeastPlacesOf(*head);
  if (passed > sight_.slots_known() - least)
    Violate(job, absl::StrCat("those that passed ", head->store.journal->id, " in the queue hold ",
                              passed, " slots and leave it less than ", least));
}

// Has the coordinator no reason to give the process up? It is narrow: whoever stood still or was
// cut off from the coordinator of late, however shortly, may have been given up while others had
// the state.
bool Invariants::IsWithinReach(const MemberProcess& process) const {
  if (process.hangs() || process.leaving()) return false;
  const auto is_long_ago = [&](int64_t at) {
    return at == 0 || around_.schedule.now() - at > kLongAgo;
  };
  if (!is_long_ago(two_until_)) return false;
  // When the session of the one that took its place breaks, that one is taken for the ended one.
  const auto nameless = nameless_ends_.find({process.job().options.id, process.id().name});
  const Network& network = around_.network;
  return is_long_ago(process.runner().stalled_until()) &&
         is_long_ago(network.CutUntil(process.node(), sight_.coordinator_node())) &&
         is_long_ago(network.CutUntil(sight_.coordinator_node(), process.node())) &&
         (nameless == nameless_ends_.end() || is_long_ago(nameless->second));
}

// From another member, in the last so many milliseconds.
bool Invariants::WasCut(const MemberProcess& process, int64_t ms) const {
  return around_.network.WasCutFromMembers(process.node(), around_.schedule.now() - ms);
}

bool Invariants::HoldsStateOf(const MemberId& member, LineageNumber lineage) const {
  const MemberProcess* process = sight_.find(member);
  if (process == nullptr || process->machine() == nullptr || !IsWithinReach(*process)) return false;
  const Member& machine = process->machine()->member();
  return machine.has_state() && machine.lineage() == lineage;
}

// The coordinator has decided to go back to a checkpoint. With servers the state is what all that
// own chunks hold; else every worker with lanes has the whole. While a rewind is under way, nobody
// has the new lineage's state yet, so that the next one is not judged.
void Invariants::CheckRewind(const SimJob& job) {
  const coordinator::JobJournal& journal = *job.store.journal;
  if (!journal.view || journal.view->lineage != journal.lineages.back().number) return;
  around_.coverage.Add(Corner::kJudgedRewinds);
  const View& view = *journal.view;
  const bool of_servers = job.options.sync == Sync::kServer;
  const ViewMember* holder = nullptr;
  for (size_t i = 0; i < view.members.size(); ++i) {
    const ViewMember& m = view.members[i];
    const bool counts =
        (m.role == Role::kServer) == of_servers && view.HasPart(static_cast<int32_t>(i));
    if (!counts) continue;
    // Of two servers one is left out, and nobody else has what it holds.
    const MemberProcess* process = sight_.find(m.id);
    if (of_servers && process != nullptr && WasCut(*process, kLongAgo)) return;
    if (HoldsStateOf(m.id, view.lineage))
      holder = &m;
    else if (of_servers)
      return;
  }
  if (holder == nullptr) return;
  if (IsMeasureLost(job)) return around_.coverage.Add(Corner::kLostMeasures);
  Violate(job, absl::StrCat("it goes back to a checkpoint although ",
                            of_servers ? "all servers live" : holder->id.name + " lives",
                            " and has the state"));
}

// ---- what a follower measures

void Invariants::CheckFact(SimJob& job, const MeasureFact& fact) {
  job.reference.At(fact.step);
  if (fact.sums != job.reference.FactOf(fact.step))
    Violate(job, absl::StrCat("what was measured of the state of step ", fact.step.value(),
                              " is not what an undisturbed run has"));
  around_.coverage.Add(Corner::kFacts);
}

bool Invariants::HasFact(const SimJob& job, const std::vector<Lineage>& lineages,
                         Step measured) const {
  return std::any_of(job.store.facts.begin(), job.store.facts.end(), [&](const auto& fact) {
    return fact.first.second == measured &&
           coordinator::OnAncestry(lineages, fact.first.first, measured);
  });
}

bool Invariants::IsToBeMeasured(const SimJob& job, const std::vector<Lineage>& lineages,
                                const Manifest& m) const {
  const TrainingSpec& training = job.terms.training();
  return coordinator::OnAncestry(lineages, m.lineage, m.step) &&
         IsMeasuredIn(training, job.environment.samples, m.step) &&
         BringerOf(training.validation, m.step) >= job.store.Recorded() &&
         m.step < Step(job.options.steps) && !HasFact(job, lineages, m.step);
}

// Those before it stay, too: it may be damaged, which the follower finds. The state that a job has
// enough of may go unmeasured.
void Invariants::BeforePrune(const SimJob& job, const coordinator::PruneManifests& prune) {
  if (job.options.delay == 0 || two_until_ > 0 || !job.store.journal) return;
  const coordinator::JobJournal& journal = *job.store.journal;
  const Manifest& newest = prune.newest;
  if (journal.lineages != prune.lineages || journal.ending.enough_at == newest.step) return;
  if (IsToBeMeasured(job, prune.lineages, newest))
    Violate(job, absl::StrCat("checkpoints go before that of step ", newest.step.value(),
                              " is measured"));
}

// The checkpoint of a state that is to be measured stays until it is.
void Invariants::CheckPruned(const SimJob& job, const std::vector<Manifest>& before,
                             const coordinator::PruneManifests& prune) {
  if (job.options.delay == 0 || two_until_ > 0) return;
  for (const Manifest& m : before) {
    const bool is_there = std::any_of(job.store.catalogue.begin(), job.store.catalogue.end(),
                                      [&](const Manifest& other) { return other.step == m.step; });
    if (!is_there && IsToBeMeasured(job, prune.lineages, m))
      Violate(job, absl::StrCat("the checkpoint of step ", m.step.value(),
                                " is deleted before it was measured"));
  }
}

// Some part of a state that is to be measured died with its member, or what is there is damaged.
bool Invariants::IsMeasureLost(const SimJob& job) const {
  const TrainingSpec& training = job.terms.training();
  if (job.options.delay == 0) return false;
  if (two_until_ > 0) return true;  // what one of them knew of the parts, the other does not
  const LineageNumber current = job.store.journal->lineages.back().number;
  for (Step s(job.options.validation_every); s < Step(job.options.steps);
       s = s + job.options.validation_every) {
    if (HasFact(job, job.store.journal->lineages, s)) continue;
    ChunkSet there(static_cast<size_t>(job.terms.chunks()), false);
    bool is_left = false;
    for (const MemberProcess* process : sight_.members(job)) {
      if (process->machine() == nullptr || !IsWithinReach(*process)) continue;
      const Member& member = process->machine()->member();
      is_left |= member.has_state() && member.lineage() == current && member.step() >= s &&
                 member.step() <= BringerOf(training.validation, s);
      const ChunkSet parts = process->machine()->PartsOf(current, s);
      for (size_t c = 0; c < there.size(); ++c) there[c] = there[c] || parts[c];
    }
    if (!is_left) continue;
    const bool is_whole = std::all_of(there.begin(), there.end(), [](bool has) { return has; });
    const std::string folder = absl::StrCat("s", s.value(), "-l", current.value(), "/");
    const bool is_damaged = std::any_of(job.disk.begin(), job.disk.end(), [&](const auto& file) {
      return absl::StartsWith(file.first, folder) && file.second.damaged;
    });
    if (!is_whole || is_damaged) return true;
  }
  return false;
}

// A stop that was accepted is in the journal until the job has ended.
void Invariants::NoteStop(const SimJob& job, const coordinator::JobJournal& next) {
  const coordinator::JobJournal& now = *job.store.journal;
  const bool goes_on = next.start == now.start && !coordinator::Ended(now.phase) &&
                       !coordinator::Ended(next.phase) && next.phase != JobPhase::kQueued;
  if (goes_on && now.ending.stop_asked && !next.ending.stop_asked)
    Violate(job, "the stop that was accepted is not in its journal any more");
  if (goes_on && !now.ending.stop_asked && AsksForStop(next) && IsActive(next))
    stops_due_[OwnerOfFirstChunk(*next.view)] = &job;
}

// Whoever owns chunk 0 of a view that begins, or stands after a restart, is given the stop, too.
void Invariants::CheckStopsGiven(const SimJob& job, const MemberId& to,
                                 const FromCoordinator& message) {
  const coordinator::JobJournal& journal = *job.store.journal;
  const bool is_active =
      std::holds_alternative<Activate>(message) || std::holds_alternative<ViewStands>(message);
  if (is_active && IsActive(journal) && AsksForStop(journal) &&
      OwnerOfFirstChunk(*journal.view) == to)
    stops_due_[to] = &job;
  const auto* give = std::get_if<GiveCommand>(&message);
  if (give != nullptr && give->command.kind == JobCommandKind::kStop) stops_due_.erase(to);
}

void Invariants::CheckNoStopIsDue() {
  for (const auto& [owner, job] : stops_due_)
    if (!coordinator::Ended(job->store.journal->phase))
      Violate(*job, absl::StrCat(owner.name, " owns chunk 0 and is not given the stop"));
  stops_due_.clear();
}

// Weights, samples and losses are those of an undisturbed run; in free order losses are rounded in
// another order.
void Invariants::CheckRecord(SimJob& job, const StepRecord& record) {
  const Reference::State& right = job.reference.At(record.step);
  const bool free = job.spec.training.order == SumOrder::kFree;
  const bool same =
      free ? std::abs(record.loss - right.loss) <= 1e-9 * (1 + std::abs(right.loss))
           : std::bit_cast<uint64_t>(record.loss) == std::bit_cast<uint64_t>(right.loss);
  if (record.weight != right.weight || !same)
    Violate(job, absl::StrCat("the record of step ", record.step.value(), " has weight ",
                              record.weight, " and loss ", record.loss, " instead of ",
                              right.weight, " and ", right.loss));
  streams_.CheckRecord(job, record);
  const std::vector<uint64_t> left_out =
      record.skipped ? std::vector<uint64_t>() : job.terms.LeftOut(record.step);
  if (record.left_out != left_out)
    Violate(job, absl::StrCat("the record of step ", record.step.value(), " leaves out ",
                              record.left_out.size(), " samples instead of ", left_out.size()));
  if (record.skipped != job.terms.Skips(record.step))
    Violate(job, absl::StrCat("the record of step ", record.step.value(), " says that it was ",
                              record.skipped ? "skipped" : "applied"));
  const std::optional<View>& view = job.store.journal->view;
  if (view && view->number == record.view &&
      record.lane_holders != view->LaneHoldersAt(record.step))
    Violate(job, absl::StrCat("the record of step ", record.step.value(),
                              " does not name those who held its lanes"));
  const auto known = job.store.ledger.find({record.lineage, record.step});
  if (known != job.store.ledger.end() && known->second.weight != record.weight)
    Violate(job, "records of a step disagree");
}

void Invariants::CheckManifest(SimJob& job, const Manifest& manifest) {
  std::set<std::pair<int32_t, int32_t>> seen;
  const Reference::State& state = job.reference.At(manifest.step);
  for (const Segment& segment : manifest.segments)
    for (const SegmentEntry& e : segment.entries) {
      seen.insert({e.slot, e.chunk.value()});
      const auto file = job.disk.find(segment.file);
      if (file == job.disk.end()) return Violate(job, "a manifest names a file that nobody wrote");
      const auto c = static_cast<size_t>(e.chunk.value());
      const auto slot = static_cast<size_t>(e.slot) - 1;
      if (file->second.content.at({e.slot, e.chunk.value()}) !=
          (e.slot == 0 ? state.values[c] : state.slots[slot][c]))
        Violate(job, absl::StrCat("the checkpoint of step ", manifest.step.value(),
                                  " holds a wrong value"));
    }
  const auto parts =
      static_cast<size_t>(job.terms.chunks() + job.terms.slots() * job.options.chunks);
  if (seen.size() != parts) Violate(job, "a manifest does not name every chunk");
  const std::optional<Step> pending =
      OutstandingIn(job.terms.training(), job.environment.samples, manifest.step);
  if (pending) around_.coverage.Add(Corner::kPendingManifests);
  if (pending.has_value() != manifest.pending.has_value() ||
      (pending && *manifest.pending != PendingMeasure{*pending, job.reference.FactOf(*pending)}))
    Violate(job, absl::StrCat("the checkpoint of step ", manifest.step.value(),
                              " does not have the measure that it waits for"));
  if (!Ancestry(job.store.journal->lineages, job.store.Records(), manifest.lineage, manifest.step)
           .ok())
    Violate(job, "a manifest precedes its records");
}

// ---- what members say

void Invariants::CheckSentAway(const MemberId& member, const std::string& why) {
  if (two_until_ > 0) return TwoCoordinators();  // it keeps what it holds, and nobody can use that
  if (const SimJob* job = sight_.job_of(member))
    Violate(*job, why + ", but nobody puts an older copy of the journal back");
}

// A step may be done again in a later view, by those who did not hear of its end. But nobody tells
// of an older view than the first who told, and those of one view name the same holders of lanes.
// A member that a view has left out may tell late what it did before, and nobody listens to it. Of
// a server that knows no weight only the fingerprint counts.
void Invariants::CheckTold(const MemberId& from, const ToCoordinator& message) {
  CheckNoStopIsDue();
  if (const auto* sealed = std::get_if<Sealed>(&message)) sealed_[from] = *sealed;
  const auto* told = std::get_if<Records>(&message);
  const SimJob* job = sight_.job_of(from);
  if (told == nullptr || job == nullptr || !job->store.journal || two_until_ > 0) return;
  const std::optional<View>& view = job->store.journal->view;
  if (!view || view->IndexOf(from) < 0) return;
  for (const StepRecord& record : told->records) {
    const auto known = job->store.ledger.find({record.lineage, record.step});
    if (known == job->store.ledger.end()) continue;
    const StepRecord& first = known->second;
    if (record.view < first.view && !record.without_weight)
      Violate(*job, absl::StrCat("the record of step ", record.step.value(), " of ", from.name,
                                 " is of view ", record.view.value(), ", the first one of view ",
                                 first.view.value()));
    const bool names_holders = !record.lane_holders.empty();
    if (record.view == first.view && names_holders && record.lane_holders != first.lane_holders)
      Violate(*job, absl::StrCat("records of step ", record.step.value(),
                                 " name other holders of its lanes"));
  }
}

// ---- what the coordinator says

void Invariants::CheckSaid(const MemberId& to, const FromCoordinator& message) {
  const SimJob* job = sight_.job_of(to);
  if (job == nullptr || !job->store.journal) return;
  const coordinator::JobJournal& journal = *job->store.journal;
  if (const auto* activate = std::get_if<Activate>(&message)) CheckView(*job, activate->view);
  streams_.CheckSaid(*job, message);
  if (const auto* seal = std::get_if<Seal>(&message);
      seal != nullptr && journal.number < seal->view)
    Violate(*job,
            absl::StrCat("view ", seal->view.value(), " was published before it was persisted"));
  if (const auto* ack = std::get_if<AckRecords>(&message))
    for (Step s = journal.lineages.back().fork; s < ack->below; s = s + 1)
      if (job->store.ledger.count({ack->lineage, s}) == 0)
        Violate(*job, "a record was acknowledged that is not in the ledger");
  if (const auto* heal = std::get_if<Heal>(&message)) CheckHolders(*job, *heal);
  if (const auto* give = std::get_if<GiveMeasure>(&message);
      give != nullptr && !HasFact(*job, journal.lineages, give->step))
    Violate(*job, absl::StrCat("the measure of step ", give->step.value(),
                               " is given before it is in the ledger"));
  CheckStopsGiven(*job, to, message);
  const auto* leave = std::get_if<Leave>(&message);
  if (leave != nullptr && absl::StrContains(leave->reason, "another start of the job"))
    around_.coverage.Add(Corner::kJoinsOfOtherStarts);
  if (leave != nullptr && absl::StrContains(leave->reason, "another placement"))
    around_.coverage.Add(Corner::kJoinsOfOtherPlaces);
  if (leave != nullptr && absl::StrContains(leave->reason, "silent for longer than its lease"))
    CheckSilence(*job, to);
  if (leave != nullptr && absl::StrContains(leave->reason, "cannot reach each other") &&
      absl::StartsWith(leave->reason, "evicted"))
    CheckVerdict(*job, to, leave->reason);
}

// It is cut from the other one that is named, or was a moment ago, and both spoke all the time.
void Invariants::CheckVerdict(const SimJob& job, const MemberId& out, const std::string& why) {
  around_.coverage.Add(Corner::kVerdicts);
  if (!IsActive(*job.store.journal)) around_.coverage.Add(Corner::kVerdictsWhileForming);
  const MemberProcess* process = sight_.find(out);
  if (process == nullptr) return;
  const int64_t since = BeforeAwake(kVerdictTime);
  for (const MemberProcess* other : sight_.members(job)) {
    const Network& network = around_.network;
    const bool is_named = absl::StrContains(why, absl::StrCat(" ", other->id().name, " "));
    const int64_t until = std::max(network.CutUntil(process->node(), other->node()),
                                   network.CutUntil(other->node(), process->node()));
    if (is_named && until > since && SpokeOfLate(out) && SpokeOfLate(other->id())) return;
  }
  Violate(job, absl::StrCat(out.name, " is left out without need: ", why));
}

// Its last word to the coordinator is no older than two life signs; for one that stood still longer
// it is.
bool Invariants::SpokeOfLate(const MemberId& member) const {
  const auto word = words_.find(member);
  if (word == words_.end()) return false;
  const int64_t lease = kDefaultLease / std::chrono::milliseconds(1);
  const int64_t silent =
      around_.schedule.now() - word->second.at - (stood_still_ - word->second.stood_still);
  return silent <= lease;
}

void Invariants::CoordinatorStandsStill(int64_t until) {
  const int64_t from = std::max(around_.schedule.now(), wakes_at_);
  wakes_at_ = std::max(wakes_at_, until);
  stood_still_ += wakes_at_ - from;
  if (wakes_at_ > from) standstill_times_.push_back({from, wakes_at_});
  ++standstills_;
}

// When it began that the coordinator has not stood still for so long, all in all.
int64_t Invariants::BeforeAwake(int64_t ms) const {
  int64_t at = around_.schedule.now();
  for (auto still = standstill_times_.rbegin(); still != standstill_times_.rend(); ++still) {
    const int64_t awake = std::max<int64_t>(at - still->until, 0);
    if (ms <= awake) break;
    ms -= awake;
    at = std::min(at, still->from);
  }
  return at - ms;
}

// Of each time in which the coordinator stood still no more than a quarter of a lease counts, and
// none of that in which its decisions waited while words came.
void Invariants::CheckSilence(const SimJob& job, const MemberId& member) {
  const auto word = words_.find(member);
  if (word == words_.end()) return;
  const auto& [at, stood_still, standstills] = word->second;
  const int64_t lease = kDefaultLease / std::chrono::milliseconds(1);
  const int64_t awake = around_.schedule.now() - at - (stood_still_ - stood_still);
  if (awake + (standstills_ - standstills) * lease / 4 <= lease)
    Violate(job, absl::StrCat(member.name, " was given up for a silence of the coordinator's own"));
}

// The member that is to give the result of a chunk must have said that it holds it.
void Invariants::CheckHolders(const SimJob& job, const Heal& heal) {
  const HealPlan& plan = heal.plan;
  const auto check = [&](int32_t from, Step step, size_t chunk) {
    if (from < 0) return;
    const MemberId& id = plan.members[static_cast<size_t>(from)].id;
    const auto told = sealed_.find(id);
    if (told == sealed_.end() || told->second.view != heal.view) return;
    const LocalState& has = told->second.local_state;
    const bool holds = has.has_state && has.lineage == plan.lineage &&
                       (has.step == step ? static_cast<bool>(has.results[chunk])
                                         : has.step == step + 1 && has.previous_results);
    if (!holds)
      Violate(job, absl::StrCat("the result of chunk ", chunk, " of step ", step.value(),
                                " is to come from ", id.name, ", which does not hold it"));
  };
  for (size_t c = 0; c < plan.done_from.size(); ++c) {
    check(plan.done_from[c], plan.base, c);
    check(plan.catch_up_from[c], plan.base - 1, c);
  }
}

void Invariants::CheckView(const SimJob& job, const View& view) {
  const auto& journal = *job.store.journal;
  if (!journal.view || journal.view->number != view.number)
    Violate(job,
            absl::StrCat("view ", view.number.value(), " was published before it was persisted"));
  if (view.job != job.options.id) Violate(job, "a member was given a view of another job");
  CheckMembers(job, view);
  CheckLanesOf(job, view);
  for (size_t i = 0; i < view.members.size(); ++i) CheckFoldedLanes(job, view, i);
}

void Invariants::CheckMembers(const SimJob& job, const View& view) {
  std::set<std::string> names;
  std::map<Role, std::set<int32_t>> ranks;
  std::map<Role, size_t> count;
  for (const ViewMember& m : view.members) {
    if (!names.insert(m.id.name).second) Violate(job, "two incarnations of a name are in one view");
    if (sight_.job_of(m.id) != &job) Violate(job, "a member of another job is in a view");
    const MemberProcess* process = sight_.find(m.id);
    if (process != nullptr && process->machine() != nullptr &&
        process->machine()->member().config().start != job.store.journal->start)
      Violate(job, "a member that was told of another start is in a view");
    const coordinator::Placement* placement =
        coordinator::PlacementOf(*job.store.journal, m.id.name);
    if (process != nullptr && placement != nullptr && placement->number != process->placement())
      Violate(job, "a member whose place was taken back is in a view");
    if (sight_.signs && !keys_.contains(m.id.incarnation))
      Violate(job, "a member without a certificate is in a view");
    ranks[m.role].insert(m.rank.value());
    ++count[m.role];
  }
  for (const auto& [role, of_role] : ranks)
    if (of_role.size() != count[role] || static_cast<size_t>(*of_role.rbegin()) + 1 != count[role])
      Violate(job, "ranks are not dense and unique");
}

void Invariants::CheckLanesOf(const SimJob& job, const View& view) {
  const auto members = static_cast<int32_t>(view.members.size());
  for (const LaneMap* map : {&view.lanes, &view.first_lanes}) {
    if (map->holder_of.size() != static_cast<size_t>(job.options.lanes))
      Violate(job, "a lane without a holder");
    for (int32_t holder : map->holder_of)
      if (holder < 0 || holder >= members ||
          view.members[static_cast<size_t>(holder)].role != Role::kWorker)
        Violate(job, "a lane's holder is no worker of the view");
  }
  if (view.owner_of.size() != static_cast<size_t>(job.terms.chunks()))
    Violate(job, "a chunk without an owner");
  for (int32_t owner : view.owner_of)
    if (owner < 0 || owner >= members) Violate(job, "an owner is not in the view");
}

void Invariants::CheckFoldedLanes(const SimJob& job, const View& view, size_t index) {
  const MemberProcess* process = sight_.find(view.members[index].id);
  if (process == nullptr || process->machine() == nullptr) return;
  const Member& member = process->machine()->member();
  if (member.active() || member.sealed() != view.number || !member.has_state() ||
      member.step() != view.first_step)
    return;
  const auto me = static_cast<int32_t>(index);
  const bool spare =
      LanesOf(view.lanes.holder_of, me).empty() && LanesOf(view.first_lanes.holder_of, me).empty();
  if (spare) return;  // it forgets its lanes once the view is active
  for (LaneId lane : member.lanes_issued())
    if (view.first_lanes.holder_of[static_cast<size_t>(lane.value())] != me)
      Violate(job, absl::StrCat("lane ", lane.value(), ", folded by ", view.members[index].id.name,
                                ", was given to another member"));
}

void Invariants::CheckHeard(const MemberProcess& process, const FromCoordinator& message) {
  const auto* heal = std::get_if<Heal>(&message);
  if (heal == nullptr || process.machine() == nullptr) return;
  const Member& member = process.machine()->member();
  for (size_t i = 0; i < heal->plan.members.size(); ++i) {
    if (heal->plan.members[i].id != process.id()) continue;
    const HealBy how = heal->plan.how[i];
    if (how == HealBy::kCopy) around_.coverage.Add(Corner::kHeals);
    if (how == HealBy::kCatchUp) around_.coverage.Add(Corner::kCatchUps);
    const bool keeps = how == HealBy::kHold || how == HealBy::kCatchUp;
    if (keeps && heal->view == member.sealed() && member.has_state() &&
        member.lineage() != heal->plan.lineage)
      Violate(process.job(), "a state of a voided lineage is the base of a view");
  }
}

void Invariants::CheckWords(const std::string& text) {
  // No fault lasts as long as the patience with a forming view.
  if (absl::StrContains(text, "did not get ready for the new view in time"))
    around_.trace.Violate(absl::StrCat("a forming view hung: ", text));
  const bool is_not_taken = absl::StrContains(text, "is not taken") && two_until_ == 0;
  if (absl::StrContains(text, "disagree") || absl::StrContains(text, "differ") || is_not_taken)
    around_.trace.Violate(text);
}

// ---- the end

void Invariants::CheckEnd(SimJob& job, TermNumber term) {
  const coordinator::JobJournal& journal = *job.store.journal;
  CheckAudit(job);
  if (journal.phase == JobPhase::kStopped && HasSavedItsStop(job)) CheckAccount(job);
  if (journal.phase != JobPhase::kDone) return;
  const Step end = job.reference.End();
  CheckStop(job, end, term);
  around_.coverage.Add(Corner::kSteps, end.value());
  if (job.options.order == SumOrder::kFree)
    around_.coverage.Add(Corner::kFreeOrderSteps, end.value());
  if (job.options.buffers > 0) around_.coverage.Add(Corner::kBufferSteps, end.value());
  if (job.options.validation_every > 0)
    around_.coverage.Add(Corner::kMeasures, end.value() / job.options.validation_every);
  around_.coverage.Add(Corner::kLeftOut, journal.tally.left_out);
  if (end < Step(job.options.steps)) around_.coverage.Add(Corner::kEnough);
  CheckDigest(job, end);
  CheckLastMeasure(job, end);
  CheckAccount(job);
}

// That it is the right one was looked at when it was persisted. It is done without where somebody
// stopped it, or where nobody had room, or hosts any more.
void Invariants::CheckLastMeasure(const SimJob& job, Step end) {
  const coordinator::JobJournal& journal = *job.store.journal;
  const bool is_saved = journal.spec.runtime.checkpoint.at_end || end < Step(job.options.steps);
  if (job.options.validation_every == 0 || !is_saved) return;
  if (HasFact(job, journal.lineages, end)) return around_.coverage.Add(Corner::kLastMeasures);
  const std::string& why = journal.ending.unmeasured;
  const bool had_nobody = absl::StartsWith(why, "there was no room") ||
                          absl::StartsWith(why, "Kubernetes has given up");
  if (why.empty() || (!journal.ending.stop_asked && !had_nobody))
    Violate(job, absl::StrCat("it is done without the measure of its last state: ", why));
}

// Without a checkpoint of the end there is nothing to compute it from.
void Invariants::CheckDigest(SimJob& job, Step end) {
  const std::string& digest = job.store.journal->ending.digest;
  if (job.store.journal->spec.runtime.checkpoint.at_end || end < Step(job.options.steps)) {
    if (digest != job.reference.DigestAt(end))
      Violate(job, "the final state has another digest than that of an undisturbed run");
    return around_.coverage.Add(Corner::kTwinDigests);
  }
  const std::vector<Manifest>& saved = job.store.catalogue;
  if (!digest.empty() ||
      std::any_of(saved.begin(), saved.end(), [&](const Manifest& m) { return m.step == end; }))
    Violate(job, "its end was saved, although the job does not want that");
  around_.coverage.Add(Corner::kUnsavedEnds);
}

// The job is done. A stop that reached the owner of chunk 0 takes effect after that step or the
// next one. If their view was sealed before, the stop may be lost for the moment between two
// sessions, which costs a few steps more. A coordinator that died meanwhile costs any number, until
// the next one has given it again.
void Invariants::CheckStop(const SimJob& job, Step end, TermNumber term) {
  constexpr int64_t kWellBefore = 10;
  const coordinator::JobJournal& journal = *job.store.journal;
  if (journal.ending.stop_at && *journal.ending.stop_at < end)
    Violate(job, absl::StrCat("it was stopped at step ", journal.ending.stop_at->value(),
                              " and is done nevertheless"));
  const std::optional<StopGiven>& given = job.stop_given;
  if (!given || given->start != journal.start || given->term != term) return;
  if (given->step + kWellBefore <= end)
    Violate(job, absl::StrCat("it was told to stop in step ", given->step.value(), " of ",
                              end.value(), " and is done nevertheless"));
}

// Runs the real audit over what was persisted.
void Invariants::CheckAudit(SimJob& job) {
  const coordinator::JobJournal& journal = *job.store.journal;
  if (journal.lineages.empty()) return;
  const Step recorded = job.store.Recorded();
  if (journal.phase == JobPhase::kDone && recorded < job.reference.End())
    return Violate(job, absl::StrCat("it is done, but step ", recorded.value(), " has no record"));
  const auto ancestry =
      Ancestry(journal.lineages, job.store.Records(), journal.lineages.back().number, recorded);
  if (!ancestry.ok()) return Violate(job, std::string(ancestry.status().message()));
  // Of no sample there is nothing to audit.
  const uint64_t samples =
      job.source ? std::max<uint64_t>(1, SamplesOf(job.store.known())) : job.environment.samples;
  const AuditReport report = Audit(journal.spec.training, samples, *ancestry);
  if (!report.ok) return Violate(job, absl::StrCat("audit: ", report.conclusion));
  streams_.CheckEnd(job, report);
  if (journal.phase == JobPhase::kDone &&
      report.left_out_samples != static_cast<uint64_t>(journal.tally.left_out))
    Violate(job, absl::StrCat(report.left_out_samples, " samples were left out, the job says ",
                              journal.tally.left_out));
  if (journal.phase == JobPhase::kDone && report.skipped_steps != journal.tally.skipped)
    Violate(job, absl::StrCat(report.skipped_steps, " steps were skipped, the job says ",
                              journal.tally.skipped));
  around_.coverage.Add(Corner::kAudits);
}

// The lanes that were run more than once must be as many as the job says it ran again. The
// coordinator cannot count the lanes of a process of whose end it has not heard yet, nor those that
// members ran as one that was replaced had decided.
void Invariants::CheckAccount(const SimJob& job) {
  if (!job.ends_to_be_told.empty() || two_until_ > 0) return;
  const coordinator::JobJournal& journal = *job.store.journal;
  // What was run beyond the checkpoint of its last end is counted when it has gone on from there.
  if (!journal.view || journal.resumes) return;
  int64_t run = job.lanes_of_dead;
  for (const MemberProcess* process : sight_.members(job)) {
    // It was evicted and does not know it yet.
    if (process->lane_count().total > 0 && journal.view->IndexOf(process->id()) < 0) return;
    run += process->lane_count().total;
  }
  around_.coverage.Add(Corner::kAccountsChecked);
  around_.coverage.Add(Corner::kLanesRunAgain, journal.lanes.recomputed());
  const int64_t again = run - journal.recorded.value() * job.options.lanes;
  if (again != journal.lanes.recomputed())
    Violate(job, absl::StrCat(again, " lanes were run again, the job says ",
                              journal.lanes.recomputed()));
}

}  // namespace muster::sim
