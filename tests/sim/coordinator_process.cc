#include "tests/sim/coordinator_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

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

coordinator::Settings TheSettings() {
  coordinator::Settings settings;
  settings.start_patience = std::chrono::seconds(3);
  settings.thread_patience = kThreadPatience;
  settings.checkpoint_patience = std::chrono::seconds(5);
  settings.grow_interval = std::chrono::seconds(2);
  return settings;
}

}  // namespace

CoordinatorProcess::CoordinatorProcess(Around around, int64_t term, const SimJobs& jobs,
                                       std::set<std::string>& drained, Invariants& invariants,
                                       Events events)
    : around_(around),
      term_(term),
      jobs_(jobs),
      drained_(drained),
      invariants_(invariants),
      events_(std::move(events)),
      runner_(around_.schedule),
      real_clock_(around_.schedule),
      clock_(real_clock_, TheSettings().lease / 4),
      state_(std::make_unique<coordinator::Coordinator>("cluster", TermNumber(term), TheSettings(),
                                                        Recovered(), clock_.Now())) {
  around_.network.Add(kCoordinatorNode, &runner_);
  around_.trace.Note(absl::StrCat("coordinator starts, term ", term_));
  runner_.Later(kTick, [this] { Tick(); });
}

CoordinatorProcess::~CoordinatorProcess() {
  if (!dead_) Die();
}

void CoordinatorProcess::Die() {
  dead_ = true;
  runner_.Die();
  around_.network.Remove(kCoordinatorNode);
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
  }
  found.drained = drained_;
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
  const bool crashes = actions.size() > 1 && events_.dies_now();
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
  if (const MemberId* member = std::get_if<MemberId>(&peer->second.who))
    invariants_.WordCame(*member);
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
    invariants_.WordCame(join->id);  // its lease begins when it is let in
  }
  if (const MemberId* member = std::get_if<MemberId>(&peers_[session].who)) {
    invariants_.CheckTold(*member, message);
    Handle(coordinator::MemberSays{*member, message, came});
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
  Handle(coordinator::AgentSays{*exited});
  if (!dead_) JobOf(exited->job).ends_to_be_told.erase(exited->lanes.incarnation);
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
  around_.network.Send(session, kCoordinatorNode, [this_events = events_, node, message] {
    if (MemberProcess* process = this_events.member(node)) process->Said(message);
  });
}

// ---- actions

void CoordinatorProcess::Do(const coordinator::PersistJob& a) {
  SimJob& job = JobOf(a.job.id);
  invariants_.BeforePersist(job, a.job);
  job.store.journal = a.job;
  events_.persisted(job);
  TellEnvironment(a.job);
}

void CoordinatorProcess::Do(const coordinator::PersistRecords& a) {
  SimJob& job = JobOf(a.job);
  if (!last_recorded_.empty() && last_recorded_ != a.job)
    around_.coverage.Add(Corner::kAlternations);
  last_recorded_ = a.job;
  for (const StepRecord& record : a.records) {
    invariants_.CheckRecord(job, record);
    job.store.ledger.emplace(std::pair(record.lineage, record.step), record);
  }
}

void CoordinatorProcess::Do(const coordinator::PersistFingerprint& a) {
  JobOf(a.job).store.fingerprints[{a.lineage, a.step}] = a.value;
}

void CoordinatorProcess::Do(const coordinator::ToMember& a) {
  const auto session = by_member_.find(a.member);
  events_.says(a.member, a.message);
  if (session != by_member_.end()) Send(session->second, a.message);
}

void CoordinatorProcess::Do(const coordinator::EndSession& a) {
  invariants_.CheckSentAway(a.member, a.why);
}

void CoordinatorProcess::Do(const coordinator::ToHost& a) {
  if (by_agent_.contains(a.agent)) events_.to_agent(a.agent, a.wanted);
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
  invariants_.CheckManifest(job, a.manifest);
  const bool late = around_.schedule.OneIn(25);
  if (late) around_.coverage.Add(Corner::kLateCommits);
  OnCommitThread(late ? 4000 : 40, [this, &job, m = a.manifest, replaces = a.replaces] {
    if (around_.schedule.OneIn(30)) {
      around_.coverage.Add(Corner::kFailedCommits);
      return Feed(coordinator::ManifestFailed{m.job, m.lineage, m.step, "no space"});
    }
    std::vector<Manifest>& catalogue = job.store.catalogue;
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
  if (!JobOf(a.id).delete_asked)
    around_.trace.Violate(absl::StrCat(a.id, " is deleted, which nobody asked for"));
  OnCommitThread(60, [this, id = a.id] {
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
  OnCommitThread(200, [&job = JobOf(a.newest.job), a] { job.store.Prune(a); });
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
  around_.trace.Note(absl::StrCat("> ", named ? absl::StrCat(a.job, ": ") : "", a.text));
  invariants_.CheckWords(a.text);
}

}  // namespace muster::sim
