#include "tests/sim/coordinator_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "coordinator/state/claims.h"

namespace muster::sim {
namespace {

constexpr int64_t kTick = 100;

// What is sent to many may reach only some before the coordinator is killed.
std::vector<coordinator::Action> OneByOne(const std::vector<coordinator::Action>& actions) {
  std::vector<coordinator::Action> single;
  for (const coordinator::Action& action : actions) {
    const auto* all = std::get_if<coordinator::ToMembers>(&action);
    if (all == nullptr) single.push_back(action);
    if (all != nullptr)
      for (const MemberId& id : all->members)
        single.emplace_back(coordinator::ToMember{id, all->message});
  }
  return single;
}

// Every second one does not try the checkpoint of a stop again, as few fail often in a row.
coordinator::Settings TheSettings(bool launches, int64_t term) {
  coordinator::Settings settings;
  settings.launches = launches;
  settings.start_patience = std::chrono::seconds(3);
  settings.thread_patience = kThreadPatience;
  settings.checkpoint_patience = std::chrono::seconds(5);
  settings.grow_interval = std::chrono::seconds(2);
  settings.stop_patience = std::chrono::seconds(5);
  settings.room_patience = std::chrono::seconds(5);
  if (term % 2 == 0) settings.retries_of_stop = 0;
  return settings;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(Around around, NodeId node, int64_t term,
                                       const SimJobs& jobs, std::set<std::string>& drained,
                                       coordinator::Quotas& quotas, Invariants& invariants,
                                       Ways ways, Events events)
    : around_(around),
      node_(node),
      term_(term),
      jobs_(jobs),
      drained_(drained),
      quotas_(quotas),
      invariants_(invariants),
      ways_(ways),
      events_(std::move(events)),
      runner_(around_.schedule),
      real_clock_(around_.schedule),
      clock_(real_clock_, TheSettings(ways.launches, term).lease / 4),
      state_(std::make_unique<coordinator::Coordinator>("cluster", TermNumber(term),
                                                        TheSettings(ways.launches, term),
                                                        Recovered(), clock_.Now())) {
  around_.network.Add(node_, &runner_);
  around_.trace.Note(absl::StrCat("coordinator starts, term ", term_));
  runner_.Later(kTick, [this] { Tick(); });
}

CoordinatorProcess::~CoordinatorProcess() {
  if (!dead_) Die();
}

void CoordinatorProcess::Die() {
  dead_ = true;
  runner_.Die();
  around_.network.Remove(node_);
}

void CoordinatorProcess::IsReplaced(int64_t looks_in_ms) {
  own_.emplace();
  for (const auto& [id, job] : jobs_) own_->stores[id] = job->store;
  own_->drained = drained_;
  own_->quotas = quotas_;
  runner_.Later(looks_in_ms, [this] { MayChangeFolder(); });
}

bool CoordinatorProcess::MayChangeFolder() {
  if (!coordinator::IsReplaced(events_.claimed(), TermNumber(term_))) return true;
  Die();
  events_.ends();
  return false;
}

// A new life of the coordinator begins with what the journal holds.
coordinator::RecoveredState CoordinatorProcess::Recovered() const {
  coordinator::RecoveredState found;
  for (const auto& [id, job] : jobs_) {
    const JobStore& store = job->store;
    if (!store.journal) continue;
    found.jobs.push_back(*store.journal);
    found.recorded[id] = store.Recorded();
    found.recent[id] = store.Recent();
    found.manifests[id] = store.catalogue;
    if (job->options.stream) found.streams[id] = store.stream;
  }
  found.drained = drained_;
  found.quotas = quotas_;
  return found;
}

void CoordinatorProcess::Tick() {
  runner_.Later(kTick, [this] { Tick(); });
  clock_.Now();  // as the events thread asks for it
  if (!HeldUp()) Handle(WhatTickSays());
}

coordinator::Tick CoordinatorProcess::WhatTickSays() const {
  const Time now = clock_.Now();
  std::map<MemberId, Time> heard;
  for (const auto& [member, session] : by_member_) {
    const Peer& peer = peers_.at(session);
    heard[member] = peer.broke ? now : peer.came;
  }
  for (const auto& [session, peer] : peers_) {
    if (!peer.joins) continue;
    Time& newest = heard[*peer.joins];
    newest = std::max(newest, peer.broke ? now : peer.came);
  }
  return {std::make_shared<const std::map<MemberId, Time>>(std::move(heard))};
}

void CoordinatorProcess::HoldUp(int64_t ms) {
  held_until_ = std::max(held_until_, around_.schedule.now() + ms);
  runner_.Later(ms, [this] { GoOn(); });
}

void CoordinatorProcess::InTurn(std::function<void()> run) {
  if (!HeldUp() && waiting_.empty()) return run();
  waiting_.push_back(std::move(run));
}

// A tick judges before all that waited is handled, or after it.
void CoordinatorProcess::GoOn() {
  if (HeldUp()) return;
  const bool tick_first = around_.schedule.OneIn(2);
  if (tick_first) Handle(WhatTickSays());
  while (!dead_ && !waiting_.empty()) {
    const std::function<void()> run = std::move(waiting_.front());
    run();  // what it causes waits behind the others
    waiting_.pop_front();
  }
  if (!dead_ && !tick_first) Handle(WhatTickSays());
}

void CoordinatorProcess::Feed(const coordinator::Input& input) {
  InTurn([this, input] { Handle(input); });
}

void CoordinatorProcess::Handle(const coordinator::Input& input) {
  const std::vector<coordinator::Action> actions = OneByOne(state_->Handle(input, clock_.Now()));
  const bool crashes = actions.size() > 1 && !own_ && events_.dies_now();
  const size_t upto =
      crashes
          ? static_cast<size_t>(around_.schedule.Random(0, static_cast<int64_t>(actions.size())))
          : actions.size();
  for (size_t i = 0; i < upto && !dead_; ++i)
    std::visit([this](const auto& a) { Do(a); }, actions[i]);
  if (!crashes) return;
  around_.trace.Note("coordinator was killed between two actions");
  Die();
  events_.died();
}

// ---- sessions

SimSessionEvents CoordinatorProcess::Accept(NodeId from) {
  return {[this, from](SimSessionId session) {
            peers_[session] = {from, {}};
          },
          [this](SimSessionId session) {
            if (const auto it = peers_.find(session); it != peers_.end()) it->second.broke = true;
            InTurn([this, session] { Broken(session); });
          }};
}

void CoordinatorProcess::Broken(SimSessionId session) {
  const auto it = peers_.find(session);
  if (it == peers_.end()) return;
  const MemberId* member = std::get_if<MemberId>(&it->second.who);
  const std::optional<MemberId> lost = member == nullptr ? std::nullopt : std::optional(*member);
  const AgentId* speaker = std::get_if<AgentId>(&it->second.who);
  const std::optional<AgentId> agent = speaker == nullptr ? std::nullopt : std::optional(*speaker);
  peers_.erase(it);
  if (agent) {
    by_agent_.erase(*agent);
    Handle(coordinator::AgentDown{*agent});
  }
  if (!lost) return;
  by_member_.erase(*lost);
  Handle(coordinator::MemberDown{*lost});
}

void CoordinatorProcess::Said(SimSessionId session, const ToCoordinator& message) {
  const auto peer = peers_.find(session);
  if (peer == peers_.end()) return;
  const Time came = peer->second.came = clock_.Now();
  if (const auto* join = std::get_if<Join>(&message)) peer->second.joins = join->id;
  const MemberId* member = std::get_if<MemberId>(&peer->second.who);
  if (member != nullptr && !own_) invariants_.WordCame(*member);
  InTurn([this, session, message, came] { Hear(session, message, came); });
}

void CoordinatorProcess::Hear(SimSessionId session, const ToCoordinator& message, Time came) {
  if (peers_.count(session) == 0) return;
  if (const auto* ask = std::get_if<AskJob>(&message)) {
    peers_[session].who = Asker{};
    return Answer(session, *ask);
  }
  if (const auto* join = std::get_if<Join>(&message)) {
    peers_[session].joins.reset();
    Bind(session, join->id);
    if (!own_) invariants_.WordCame(join->id);  // its lease begins when it is let in
  }
  if (const MemberId* member = std::get_if<MemberId>(&peers_[session].who)) {
    if (!own_) invariants_.CheckTold(*member, message);
    Handle(coordinator::MemberSays{*member, message, came, ways_.signs});
  }
}

// A newer session of a member replaces the older one.
void CoordinatorProcess::Bind(SimSessionId session, const MemberId& member) {
  const auto [it, fresh] = by_member_.try_emplace(member, session);
  if (!fresh && it->second != session) {
    const SimSessionId older = std::exchange(it->second, session);
    peers_.erase(older);
    around_.network.Break(older);
  }
  peers_[session].who = member;
}

void CoordinatorProcess::Said(SimSessionId session, const FromAgent& message) {
  InTurn([this, session, message] { Hear(session, message); });
}

void CoordinatorProcess::Hear(SimSessionId session, const FromAgent& message) {
  if (peers_.count(session) == 0) return;
  if (std::holds_alternative<AgentEnds>(message))
    return Handle(coordinator::HostEnds{std::get<AgentId>(peers_[session].who)});
  if (const auto* held = std::get_if<DevicesHeld>(&message)) {
    const AgentId agent = std::get<AgentId>(peers_[session].who);
    invariants_.CheckHeld(agent, held->devices);
    return Handle(coordinator::DevicesTold{agent, held->devices});
  }
  if (const auto* ask = std::get_if<SignMember>(&message))
    return Handle(
        coordinator::SignatureAsked{std::get<AgentId>(peers_[session].who), *ask, ask->public_key});
  const auto* exited = std::get_if<ProcessExited>(&message);
  if (exited == nullptr) {
    const auto& hello = std::get<AgentHello>(message);
    peers_[session].who = hello.agent;
    const auto [it, fresh] = by_agent_.try_emplace(hello.agent, session);
    if (!fresh && it->second != session) {
      const SimSessionId older = std::exchange(it->second, session);
      peers_.erase(older);
      around_.network.Break(older);
    }
    Handle(coordinator::AgentUp{hello});
    return;
  }
  // Also of one that was not started, for want of a certificate.
  if (!own_ && exited->lanes.incarnation == Incarnation{})
    invariants_.NamelessEnd({exited->job, exited->name});
  Handle(coordinator::AgentSays{*exited,
                                ways_.signs ? std::get<AgentId>(peers_[session].who).host : ""});
  if (dead_ || own_) return;
  SimJob& job = JobOf(exited->job);
  job.ends_to_be_told.erase(exited->lanes.incarnation);
  if (job.store.journal && job.store.journal->phase == coordinator::JobPhase::kStopped)
    invariants_.CheckEnd(job, TermNumber(term_));
}

void CoordinatorProcess::Answer(SimSessionId session, const AskJob& ask) {
  const std::optional<JobIs> job = state_->jobs().JobOf(ask.job);
  if (!job) return Send(session, state_->jobs().LeaveOf(ask.job));
  std::get<Asker>(peers_[session].who).waits_for_environment = job->environment ? "" : ask.job;
  Send(session, *job);
}

void CoordinatorProcess::TellEnvironment(const coordinator::JobJournal& job) {
  if (!job.environment) return;
  for (auto& [session, peer] : peers_) {
    Asker* asker = std::get_if<Asker>(&peer.who);
    if (asker == nullptr || asker->waits_for_environment != job.id) continue;
    asker->waits_for_environment.clear();
    if (const auto is = state_->jobs().JobOf(job.id)) Send(session, *is);
  }
}

void CoordinatorProcess::Send(SimSessionId session, const FromCoordinator& message) {
  const NodeId node = peers_[session].node;
  around_.network.Send(session, node_, [this_events = events_, node, session, message] {
    if (MemberProcess* process = this_events.member(node)) process->Said(session, message);
  });
}

// ---- actions

void CoordinatorProcess::Do(const coordinator::PersistJob& a) {
  SimJob& job = JobOf(a.job.id);
  if (!own_) invariants_.BeforePersist(job, a.job);
  StoreOf(job).journal = a.job;
  if (!own_) events_.persisted(job);
  TellEnvironment(a.job);
}

void CoordinatorProcess::Do(const coordinator::PersistRecords& a) {
  SimJob& job = JobOf(a.job);
  if (!last_recorded_.empty() && last_recorded_ != a.job)
    around_.coverage.Add(Corner::kAlternations);
  last_recorded_ = a.job;
  for (const StepRecord& record : a.records) {
    if (!own_) invariants_.CheckRecord(job, record);
    StoreOf(job).ledger.emplace(std::pair(record.lineage, record.step), record);
  }
}

void CoordinatorProcess::Do(const coordinator::PersistFingerprint& a) {
  StoreOf(JobOf(a.job)).fingerprints[{a.lineage, a.step}] = a.value;
}

void CoordinatorProcess::Do(const coordinator::PersistMeasure& a) {
  SimJob& job = JobOf(a.job);
  if (!own_) invariants_.CheckFact(job, a.fact);
  StoreOf(job).facts.emplace(std::pair(a.fact.lineage, a.fact.step), a.fact.sums);
  job.facts_told.insert(a.fact.step);
}

void CoordinatorProcess::Do(const coordinator::PersistStream& a) {
  SimJob& job = JobOf(a.job);
  if (!own_) invariants_.streams().BeforePersist(job, a);
  StoreOf(job).Take(a);
  if (!own_) invariants_.streams().CheckRows(job);
}

void CoordinatorProcess::Do(const coordinator::ToMember& a) {
  const auto session = by_member_.find(a.member);
  if (!own_) events_.says(a.member, a.message);
  if (session != by_member_.end()) Send(session->second, a.message);
}

// One that was replaced sends away whoever has heard of its successor.
void CoordinatorProcess::Do(const coordinator::EndSession& a) {
  if (!own_) events_.sent_away(a.member, a.why);
  if (const auto it = by_member_.find(a.member); it != by_member_.end())
    around_.network.Break(it->second);
}

void CoordinatorProcess::Tell(const AgentId& agent, const ToAgent& message) {
  const auto it = by_agent_.find(agent);
  if (it != by_agent_.end())
    around_.network.Send(it->second, node_,
                         [tell = events_.to_agent, session = it->second, agent, message] {
                           tell(agent, session, message);
                         });
}

void CoordinatorProcess::Do(const coordinator::ToHost& a) {
  invariants_.CheckWanted(a.agent, a.wanted, /*is_replaced=*/own_.has_value());
  Tell(a.agent, a.wanted);
}

// The answer is lost at times.
void CoordinatorProcess::Do(const coordinator::Sign& a) {
  if (!own_) invariants_.CheckSigned(JobOf(a.ask.process.job), a.ask);
  const auto session = by_agent_.find(a.agent);
  if (session == by_agent_.end()) return;
  if (around_.schedule.OneIn(12)) {
    around_.coverage.Add(Corner::kAnswersLost);
    return around_.network.Break(session->second);
  }
  Tell(a.agent, MemberSigned{a.ask.process, a.ask.public_key, "authority"});
}

void CoordinatorProcess::Do(const coordinator::RefuseToSign& a) {
  around_.coverage.Add(Corner::kSignaturesRefused);
  Tell(a.agent, a.refused);
}

void CoordinatorProcess::Do(const coordinator::EndAgentSession& a) {
  around_.coverage.Add(Corner::kAgentsTurnedAway);
  if (const auto it = by_agent_.find(a.agent); it != by_agent_.end())
    around_.network.Break(it->second);
}

// ---- the thread that keeps checkpoints

void CoordinatorProcess::OnCommitThread(int64_t most, std::function<void()> run) {
  commit_thread_.Push(around_.schedule, runner_, around_.schedule.Random(1, most), std::move(run));
}

void CoordinatorProcess::Do(const coordinator::CommitManifest& a) {
  SimJob& job = JobOf(a.manifest.job);
  if (!own_) invariants_.CheckManifest(job, a.manifest);
  const bool late = around_.schedule.OneIn(25);
  if (late) around_.coverage.Add(Corner::kLateCommits);
  OnCommitThread(late ? 4000 : 40, [this, &job, m = a.manifest, replaces = a.replaces] {
    if (!MayChangeFolder()) return;
    if (around_.schedule.OneIn(30)) {
      around_.coverage.Add(Corner::kFailedCommits);
      return Feed(coordinator::ManifestFailed{m.job, m.lineage, m.step, "no space"});
    }
    if (own_) around_.trace.Violate("a coordinator that was replaced commits a checkpoint");
    std::vector<Manifest>& catalogue = StoreOf(job).catalogue;
    const auto is_same = [&](const Manifest& known) {
      return known.lineage == m.lineage && known.step == m.step;
    };
    if (std::erase_if(catalogue, is_same) > 0 && !replaces)
      around_.trace.Violate("a checkpoint takes the place of another");
    catalogue.push_back(m);  // durable; a crash may come before it is known
    runner_.Later(around_.schedule.Random(0, 3),
                  [this, m] { Feed(coordinator::ManifestCommitted{m}); });
  });
}

void CoordinatorProcess::Do(const coordinator::DeleteJob& a) {
  if (!own_ && !JobOf(a.id).delete_asked)
    around_.trace.Violate(absl::StrCat(a.id, " is deleted, which nobody asked for"));
  OnCommitThread(60, [this, id = a.id] {
    if (!MayChangeFolder()) return;
    const bool fails = around_.schedule.OneIn(6);
    if (fails)
      around_.coverage.Add(Corner::kFailedDeletions);
    else
      events_.deleted(id);  // durable; a crash may come before it is known
    runner_.Later(around_.schedule.Random(0, 3), [this, id, fails] {
      Feed(coordinator::JobDeleted{id, fails ? "the disk did not answer" : ""});
    });
  });
}

void CoordinatorProcess::Do(const coordinator::PruneManifests& a) {
  if (!own_) invariants_.BeforePrune(JobOf(a.newest.job), a);
  OnCommitThread(200, [this, &job = JobOf(a.newest.job), a] {
    if (!MayChangeFolder()) return;
    const std::vector<Manifest> before = StoreOf(job).catalogue;
    StoreOf(job).Prune(a);
    if (!own_) invariants_.CheckPruned(job, before, a);
  });
}

void CoordinatorProcess::Do(const coordinator::RemoveManifest& a) {
  around_.trace.Violate(absl::StrCat("a checkpoint of ", a.job, " is deleted, and nobody asked"));
}

void CoordinatorProcess::Do(const coordinator::SaveMeasure& a) {
  OnCommitThread(20, [this, &job = JobOf(a.job), a] {
    if (MayChangeFolder()) StoreOf(job).measures.insert_or_assign({a.lineage, a.step}, a.measure);
  });
}

// What could not be deleted nobody reads.
void CoordinatorProcess::Do(const coordinator::TrimSpool& a) {
  OnCommitThread(200, [this, &job = JobOf(a.job), segments = a.segments] {
    if (!MayChangeFolder()) return;
    for (const SpoolSegment& segment : segments) {
      if (!own_) invariants_.streams().CheckDeleted(job, KeyOf(segment));
      if (!around_.schedule.OneIn(30)) job.spool.erase(KeyOf(segment));
    }
  });
}

void CoordinatorProcess::Do(const coordinator::TidySpool& a) {
  OnCommitThread(60, [this, &job = JobOf(a.job), a] {
    if (!MayChangeFolder()) return;
    std::vector<SpoolKey> left;
    for (const auto& entry : job.spool) {
      const SpoolKey& key = entry.first;
      const bool is_fact = std::any_of(a.facts.begin(), a.facts.end(),
                                       [&](const auto& fact) { return KeyOf(fact) == key; });
      if (!is_fact && key.second != a.reader) left.push_back(key);
    }
    for (const SpoolKey& key : left) {
      around_.coverage.Add(Corner::kSweptSegments);
      if (!own_) invariants_.streams().CheckDeleted(job, key);
      job.spool.erase(key);
    }
    runner_.Later(around_.schedule.Random(0, 3), [this, a] {
      Feed(coordinator::SpoolTidied{a.job, a.reader});
    });
  });
}

void CoordinatorProcess::Do(const coordinator::ComputeDigest& a) {
  OnCommitThread(20, [this, &job = JobOf(a.job), a] {
    std::string digest = DigestOfFiles(job, a.manifest);
    if (around_.schedule.OneIn(25)) digest.clear();
    if (digest.empty()) around_.coverage.Add(Corner::kFailedDigests);
    const std::string reason = digest.empty() ? "the disk did not answer" : "";
    Feed(coordinator::DigestDone{a.job, a.start, digest, reason});
  });
}

// Empty: a file is damaged.
std::string CoordinatorProcess::DigestOfFiles(const SimJob& job, const Manifest& manifest) const {
  Make all{manifest.lineage, manifest.step, manifest, {}, /*slots=*/true};
  for (int32_t c = 0; c < job.terms.chunks(); ++c) all.chunks.emplace_back(c);
  const absl::StatusOr<SimState> state = MakeState(job.terms, job.disk, all);
  return state.ok() ? DigestOf(job.terms, *state->values, *state->slots) : "";
}

void CoordinatorProcess::Do(const coordinator::Announce& a) {
  if (a.text.empty()) return;
  const bool named = jobs_.size() > 1;
  around_.trace.Note(absl::StrCat(own_ ? absl::StrCat("> (term ", term_, ") ") : "> ",
                                  named ? absl::StrCat(a.job, ": ") : "", a.text));
  if (!own_) invariants_.CheckWords(a.text);
}

}  // namespace muster::sim
