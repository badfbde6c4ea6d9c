#include "tests/sim/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace muster::sim {

using coordinator::JobPhase;

namespace {

const MemberId kCoordinator{};  // sessions name it so
constexpr char kJob[] = "sim";

Time TimeOf(int64_t ms) { return Time(std::chrono::milliseconds(ms)); }

}  // namespace

World::World(WorldOptions options)
    : options_(options),
      random_(options.seed),
      reference_(options.lanes, options.chunks, options.clip_norm > 0),
      faults_left_(options.faults) {
  spec_.training.task = "counting";
  spec_.training.lanes = options.lanes;
  spec_.training.batch = options.lanes;
  spec_.training.steps = options.steps;
  spec_.training.sync = options.sync;
  spec_.training.clip_norm = options.clip_norm;
  spec_.training.chunk_bytes = 64;
  spec_.training.optimizer.kind = OptimizerKind::kMomentum;
  spec_.runtime.workers_max = options.workers;
  spec_.runtime.servers = options.sync == Sync::kServer ? options.servers : 0;
  spec_.runtime.checkpoint.every_steps = options.checkpoint_every;
  spec_.runtime.checkpoint.every_seconds = options.seed % 3 == 0 ? 2 : 0;
  spec_.runtime.bucket_bytes = 64;
  environment_.samples = static_cast<uint64_t>(options.lanes * 7 + 3);
  for (int32_t c = 0; c < options.chunks; ++c)
    environment_.tensors.push_back({absl::StrCat("t", c), {16}, TensorKind::kParameter});
  StartCoordinator();
  for (int32_t i = 0; i < options.workers; ++i) Start(absl::StrCat("worker-", i));
  for (int32_t i = 0; i < spec_.runtime.servers; ++i) Start(absl::StrCat("server-", i));
}

// ---- time and chance

int64_t World::Random(int64_t low, int64_t high) {
  if (options_.smooth) return low;
  return low + static_cast<int64_t>(random_() % static_cast<uint64_t>(high - low + 1));
}

void World::At(int64_t delay, std::function<void()> run) {
  events_.push({now_ + delay, ++command_, std::move(run)});
}

// An event of a process waits while it is paused and is forgotten when it has died.
void World::OnProcess(MemberId id, int64_t delay, std::function<void(Process&)> run) {
  At(delay, [this, id, run = std::move(run)] {
    Process* p = Find(id);
    if (p == nullptr) return;
    if (now_ < p->paused_until) return OnProcess(id, p->paused_until - now_, run);
    run(*p);
  });
}

void World::Violate(const std::string& what) {
  if (violation_.empty()) {
    violation_ = what;
    Note(absl::StrCat("VIOLATION: ", what));
  }
}

void World::Note(const std::string& what) { trace_.push_back(absl::StrCat(now_, " ms  ", what)); }

World::Process* World::Find(const MemberId& id) {
  const auto it = processes_.find(id);
  return it == processes_.end() ? nullptr : &it->second;
}

World::Process* World::FindByName(const std::string& name) {
  for (auto& [id, p] : processes_)
    if (id.name == name) return &p;
  return nullptr;
}

Step World::recorded() const {
  Step s(0);
  while (std::any_of(ledger_.begin(), ledger_.end(),
                     [&](const auto& e) { return e.first.second == s; }))
    s = s + 1;
  return s;
}
Step World::furthest() const {
  Step s(0);
  for (const auto& [id, p] : processes_) s = std::max(s, p.machine->member().step());
  return s;
}
int64_t World::active_view() const {
  return journal_ && journal_->view ? journal_->view->number.value() : 0;
}
std::string World::phase() const {
  return journal_ ? std::string(coordinator::PhaseName(journal_->phase)) : "";
}

// ---- processes

MemberConfig World::ConfigFor(const std::string& name, Role role) {
  MemberConfig config;
  config.job = kJob;
  config.id = {name, {static_cast<uint64_t>(++incarnations_[name]), HashBytes(name)}};
  config.role = role;
  config.node = "host";
  config.address = name;
  config.chunks.assign(static_cast<size_t>(options_.chunks), TensorKind::kParameter);
  config.slots = 1;
  config.fingerprint_every = 3;
  config.checkpoint_every = options_.checkpoint_every;
  config.training = spec_.training;
  config.environment = environment_;
  return config;
}

void World::Start(const std::string& name) {
  if (ended_ || FindByName(name) != nullptr) return;
  const Role role = name[0] == 's' ? Role::kServer : Role::kWorker;
  const MemberConfig config = ConfigFor(name, role);
  const MemberId id = config.id;
  Surroundings around;
  around.send = [this, id](const MemberId& to, SimFrame frame) {
    const int64_t s = FindSession(id, to);
    if (s == 0) return;
    SendFrame(s, id, [this, id, to, frame] {
      if (Process* p = Find(to)) p->machine->Deliver(id, frame);
    });
  };
  around.tell = [this, id](ToCoordinator message) {
    Process* p = Find(id);
    if (p == nullptr || !p->coordinator_session) return;
    SendFrame(*p->coordinator_session, id, [this, id, message] { FromMember(id, message); });
  };
  around.connect = [this, id](std::vector<ViewMember> peers) {
    Process* p = Find(id);
    if (p != nullptr) p->peers = std::move(peers);
    ConnectPeers(id);
  };
  around.later = [this, id](int64_t delay, std::function<void()> run) {
    OnProcess(id, delay, [run = std::move(run)](Process&) { run(); });
  };
  around.random = [this](int64_t low, int64_t high) { return Random(low, high); };
  around.fails = [this] {
    const bool fails = !options_.smooth && Random(0, 60) == 0;
    counts_.failed_checkpoints += fails;
    return fails;
  };
  around.violate = [this, id](const std::string& what) {
    Violate(absl::StrCat(id.name, ": ", what));
  };
  around.quit = [this, id](int code, const std::string& reason) {
    Process* p = Find(id);
    if (p == nullptr || p->leaving) return;
    p->leaving = true;
    At(0, [this, id, code, reason] { Kill(id, absl::StrCat("left: ", reason), code); });
  };
  around.disk = &disk_;
  around.reference = &reference_;
  Process& p = processes_[id];
  p.id = id;
  p.role = role;
  p.machine = std::make_unique<Machine>(config, around);
  Note(absl::StrCat(name, " starts (incarnation ", id.incarnation.hi, ")"));
  JoinCoordinator(id);
}

void World::Kill(MemberId id, const std::string& cause, int exit_code) {
  Process* p = Find(id);
  if (p == nullptr) return;
  Note(absl::StrCat(id.name, " ", cause));
  const ProcessExited exited{
      kJob, id.name, exit_code, exit_code == 0 ? 9 : 0, cause, false, p->machine->lane_count(), ""};
  for (auto& [s, session] : sessions_)
    if (session.a == id || session.b == id) Break(s);
  lanes_of_dead_ += exited.lanes.total;
  processes_.erase(id);
  if (ended_) return;
  ++exits_to_tell_;
  At(Random(1, 30), [this, exited] {
    --exits_to_tell_;
    exits_.push_back(exited);
    if (coordinator_) Feed(coordinator::AgentSays{exited});
  });
  const std::string name = id.name;
  if (held_back_.count(name) == 0) At(Random(50, 1500), [this, name] { Start(name); });
}

void World::KillWorker(const std::string& name) {
  if (Process* p = FindByName(name)) Kill(p->id, "was killed", 0);
}

void World::KillAll() {
  std::vector<MemberId> ids;
  for (const auto& [id, p] : processes_) ids.push_back(id);
  for (const MemberId& id : ids) Kill(id, "was killed", 0);
}

void World::Pause(const std::string& name, int64_t ms) {
  Process* p = FindByName(name);
  if (p == nullptr) return;
  p->paused_until = now_ + ms;
  Note(absl::StrCat(name, " is paused for ", ms, " ms"));
}

// ---- sessions

int64_t World::FindSession(const MemberId& a, const MemberId& b) const {
  for (const auto& [s, session] : sessions_)
    if (!session.broken && ((session.a == a && session.b == b && session.up_a) ||
                            (session.a == b && session.b == a && session.up_b)))
      return s;
  return 0;
}

void World::ConnectPeers(const MemberId& id) {
  Process* p = Find(id);
  if (p == nullptr) return;
  std::vector<int64_t> close;
  for (const auto& [s, session] : sessions_) {
    if (session.broken || session.b == kCoordinator || (session.a != id && session.b != id))
      continue;
    const MemberId& other = session.a == id ? session.b : session.a;
    if (std::none_of(p->peers.begin(), p->peers.end(),
                     [&](const ViewMember& m) { return m.id == other; }))
      close.push_back(s);
  }
  for (int64_t s : close) Break(s);
  for (const ViewMember& peer : p->peers)
    if (id < peer.id) {
      bool there = false;
      for (const auto& [s, session] : sessions_)
        there = there || (!session.broken && session.a == id && session.b == peer.id);
      if (!there)
        OnProcess(id, Random(1, 20), [this, id, to = peer.id](Process&) { OpenSession(id, to); });
    }
}

void World::OpenSession(const MemberId& a, const MemberId& b) {
  Process* from = Find(a);
  if (from == nullptr || std::none_of(from->peers.begin(), from->peers.end(),
                                      [&](const ViewMember& m) { return m.id == b; }))
    return;
  for (const auto& [s, session] : sessions_)
    if (!session.broken && session.a == a && session.b == b) return;
  if (Find(b) == nullptr) {  // refused; tried again while it is listed
    OnProcess(a, 50, [this, a, b](Process&) { OpenSession(a, b); });
    return;
  }
  const int64_t s = next_session_++;
  sessions_[s] = Session{a, b, {}, {}, false, false, false};
  OnProcess(b, Random(0, 5), [this, s, a, b](Process& p) {
    if (sessions_[s].broken) return;
    sessions_[s].up_b = true;
    p.machine->SessionUp(a);
  });
  OnProcess(a, Random(0, 5), [this, s, b](Process& p) {
    if (sessions_[s].broken) return;
    sessions_[s].up_a = true;
    p.machine->SessionUp(b);
  });
}

void World::SendFrame(int64_t s, const MemberId& from, std::function<void()> deliver) {
  const auto it = sessions_.find(s);
  if (it == sessions_.end() || it->second.broken) return;
  Session& session = it->second;
  const bool to_b = session.a == from;
  Direction& d = to_b ? session.to_b : session.to_a;
  const MemberId to = to_b ? session.b : session.a;
  const int64_t index = ++d.sent;
  const int64_t stall =
      Random(0, 200) == 200 ? Random(30, 400) : 0;  // holds up all that comes behind it
  d.last = std::max(d.last, now_ + Random(0, 12) + stall);
  auto arrive = [this, s, to_b, index, deliver = std::move(deliver)] {
    Direction& dir = to_b ? sessions_[s].to_b : sessions_[s].to_a;
    if (index > dir.cut) return;
    dir.delivered = index;
    deliver();
  };
  if (to == kCoordinator) {
    At(d.last - now_, [life = coordinator_life_, this, arrive] {
      if (coordinator_ && life == coordinator_life_) arrive();
    });
  } else {
    // A session is up at an end before its first frame arrives there.
    OnProcess(to, d.last - now_, [this, s, to_b, arrive, to](Process&) {
      const bool up = to_b ? sessions_[s].up_b : sessions_[s].up_a;
      if (up || sessions_[s].b == kCoordinator) return arrive();
      OnProcess(to, 6, [arrive](Process&) { arrive(); });
    });
  }
}

// Some of the frames in flight still arrive, the rest are lost; then both ends hear of it.
void World::Break(int64_t s) {
  Session& session = sessions_[s];
  if (session.broken) return;
  session.broken = true;
  for (Direction* d : {&session.to_a, &session.to_b}) {
    d->cut = Random(d->delivered, d->sent);
    if (d->cut < d->sent) ++counts_.torn;
  }
  const MemberId a = session.a, b = session.b;
  if (b == kCoordinator) {
    if (Process* p = Find(a); p != nullptr && p->coordinator_session == s)
      p->coordinator_session.reset();
    OnProcess(a, Random(1, 40), [this, a](Process&) { JoinCoordinator(a); });
    At(std::max<int64_t>(session.to_b.last - now_, 0) + 1, [this, a, life = coordinator_life_] {
      const Process* p = Find(a);
      const bool back = p != nullptr && p->coordinator_session;
      if (coordinator_ && life == coordinator_life_ && !back) Feed(coordinator::MemberDown{a});
    });
    return;
  }
  auto down = [this](const MemberId& end, const MemberId& other, int64_t last) {
    OnProcess(end, std::max<int64_t>(last - now_, 0) + 1, [this, other, end](Process& p) {
      if (FindSession(end, other) == 0) p.machine->SessionDown(other);
    });
  };
  down(a, b, session.to_a.last);
  down(b, a, session.to_b.last);
  OnProcess(a, Random(5, 60), [this, a](Process&) { ConnectPeers(a); });
}

void World::BreakSession(const std::string& a, const std::string& b) {
  for (const auto& [s, session] : sessions_) {
    const std::string other = session.b == kCoordinator ? "coordinator" : session.b.name;
    if (!session.broken &&
        ((session.a.name == a && other == b) || (session.a.name == b && other == a))) {
      Note(absl::StrCat("the session between ", a, " and ", b, " breaks"));
      return Break(s);
    }
  }
}

void World::JoinCoordinator(const MemberId& id) {
  Process* p = Find(id);
  if (p == nullptr || p->coordinator_session || ended_) return;
  if (!coordinator_) {
    OnProcess(id, Random(20, 80), [this, id](Process&) { JoinCoordinator(id); });
    return;
  }
  const int64_t s = next_session_++;
  sessions_[s] = Session{id, kCoordinator, {}, {}, false, true, true};
  p->coordinator_session = s;
  p->machine->Input(
      CoordinatorSays{JobIs{kJob, "cluster", TermNumber(term_), spec_, "", std::nullopt}});
  p->machine->Input(CoordinatorUp{});
  OnProcess(id, 400, [this, id, s](Process& process) {
    if (process.coordinator_session == s)
      FromMember(id, Alive{process.machine->member().step(), ""});
  });
}

void World::FromMember(const MemberId& id, ToCoordinator message) {
  if (coordinator_) Feed(coordinator::MemberSays{id, std::move(message)});
}

// ---- the coordinator

// Members say that they live, time passes; again and again, until this coordinator's life is over.
void World::TickCoordinator(int64_t life) {
  if (!coordinator_ || life != coordinator_life_ || ended_) return;
  for (auto& [id, p] : processes_)
    if (p.coordinator_session && now_ >= p.paused_until && coordinator_)
      Feed(coordinator::MemberSays{id, Alive{p.machine->member().step(), ""}});
  if (coordinator_) Feed(coordinator::Tick{});
  At(100, [this, life] { TickCoordinator(life); });
}

void World::StartCoordinator() {
  ++coordinator_life_;
  ++term_;
  coordinator::RecoveredState found;
  if (journal_) {
    found.jobs.push_back(*journal_);
    Step next(0);
    if (!journal_->lineages.empty()) {
      const Lineage& last = journal_->lineages.back();
      next = last.fork;
      while (ledger_.count({last.number, next}) > 0) next = next + 1;
      for (const auto& [key, record] : ledger_) {
        const auto& [lineage, step] = key;
        if (lineage == last.number && step < next) found.recent[kJob].records[step] = record;
        if (lineage == last.parent && step >= next)
          found.recent[kJob].voided_records[step] = record;
      }
    }
    found.recorded[kJob] = next;
    found.manifests[kJob] = catalogue_;
  }
  coordinator::Settings settings;
  settings.start_patience = std::chrono::seconds(3);
  settings.checkpoint_patience = std::chrono::seconds(5);
  coordinator_ = std::make_unique<coordinator::Coordinator>("cluster", TermNumber(term_), settings,
                                                            found, TimeOf(now_));
  Note(absl::StrCat("coordinator starts, term ", term_));
  const int64_t life = coordinator_life_;
  At(100, [this, life] { TickCoordinator(life); });
  Feed(coordinator::AgentUp{"host", 64});
  if (!coordinator_) return;
  Feed(coordinator::Submit{kJob, spec_});   // its client submits again, with the same id
  for (const ProcessExited& exit : exits_)  // agents tell them again to every coordinator
    if (coordinator_) Feed(coordinator::AgentSays{exit});
}

namespace {

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

}  // namespace

void World::Feed(const coordinator::Input& input) {
  const std::vector<coordinator::Action> actions =
      OneByOne(coordinator_->Handle(input, TimeOf(now_)));
  const bool crash =
      faults_left_ > 0 && !options_.smooth && actions.size() > 1 && Random(0, 200) == 0;
  const size_t upto =
      crash ? static_cast<size_t>(Random(0, static_cast<int64_t>(actions.size()))) : actions.size();
  for (size_t i = 0; i < upto; ++i) Carry(actions[i]);
  if (crash && !ended_) {
    --faults_left_;
    Note("coordinator was killed between two actions");
    Crash();
    down_until_ = now_ + Random(50, 1500);
    At(down_until_ - now_, [this] {
      if (!coordinator_ && !ended_) StartCoordinator();
    });
  }
}

void World::Crash() {
  if (AnyForming()) ++counts_.restarts_in_forming;
  coordinator_.reset();
  ++coordinator_life_;
  for (auto& [s, session] : sessions_)
    if (session.b == kCoordinator) Break(s);
}

void World::KillCoordinator(int64_t down_ms) {
  if (!coordinator_ || ended_) return;
  Note(absl::StrCat("coordinator was killed; down for ", down_ms, " ms"));
  Crash();
  At(down_ms, [this] {
    if (!coordinator_ && !ended_) StartCoordinator();
  });
}

bool World::AnyForming() const {
  return journal_ && journal_->number > ViewNumber(0) &&
         (!journal_->view || journal_->number > journal_->view->number);
}

void World::Carry(const coordinator::Action& action) {
  if (const auto* a = std::get_if<coordinator::PersistJob>(&action)) {
    if (journal_) {
      if (a->job.number < journal_->number) Violate("a view number went back");
      if (a->job.lineages.size() < journal_->lineages.size()) Violate("a lineage was forgotten");
      counts_.rewinds += a->job.rewinds - journal_->rewinds;
    }
    const bool before = journal_ && coordinator::Ended(journal_->phase);
    journal_ = a->job;
    if (before) return;
    if (a->job.phase == coordinator::JobPhase::kStopped) {
      ++counts_.stops;
      At(Random(1, 500), [this] {
        if (coordinator_) Feed(coordinator::Submit{kJob, spec_});
      });
    } else if (coordinator::Ended(a->job.phase)) {
      CheckEnd();
    }
  } else if (const auto* r = std::get_if<coordinator::PersistRecords>(&action)) {
    for (const StepRecord& record : r->records) {
      const auto [it, fresh] = ledger_.emplace(std::pair(record.lineage, record.step), record);
      if (!fresh && it->second.weight != record.weight) Violate("records of a step disagree");
    }
  } else if (const auto* m = std::get_if<coordinator::ToMember>(&action)) {
    if (const auto* activate = std::get_if<Activate>(&m->message)) CheckView(activate->view);
    if (const auto* seal = std::get_if<Seal>(&m->message);
        seal != nullptr && (!journal_ || journal_->number < seal->view))
      Violate(absl::StrCat("view ", seal->view.value(), " was published before it was persisted"));
    if (const auto* ack = std::get_if<AckRecords>(&m->message))
      for (Step s = journal_->lineages.back().fork; s < ack->below; s = s + 1)
        if (ledger_.count({ack->lineage, s}) == 0)
          Violate("a record was acknowledged that is not in the ledger");
    if (std::get_if<Seal>(&m->message) != nullptr && std::exchange(ambush_, false))
      At(Random(1, 30), [this] { FailWhileForming(); });
    if (const auto* heal = std::get_if<Heal>(&m->message)) AmbushRewind(m->member, *heal);
    Process* p = Find(m->member);
    if (p == nullptr || !p->coordinator_session) return;
    const MemberId to = m->member;
    SendFrame(*p->coordinator_session, kCoordinator, [this, to, message = m->message] {
      Process* process = Find(to);
      if (process == nullptr) return;
      if (const auto* heal = std::get_if<Heal>(&message))
        for (size_t i = 0; i < heal->plan.members.size(); ++i)
          if (heal->plan.members[i].id == to) {
            counts_.heals += heal->plan.how[i] == HealBy::kCopy;
            counts_.catch_ups += heal->plan.how[i] == HealBy::kCatchUp;
            const bool keeps =
                heal->plan.how[i] == HealBy::kHold || heal->plan.how[i] == HealBy::kCatchUp;
            const Member& member = process->machine->member();
            if (keeps && heal->view == member.sealed() && member.has_state() &&
                member.lineage() != heal->plan.lineage)
              Violate("a state of a voided lineage is the base of a view");
          }
      process->machine->Input(CoordinatorSays{message});
    });
  } else if (const auto* c = std::get_if<coordinator::CommitManifest>(&action)) {
    CheckManifest(c->manifest);
    const bool fails = !options_.smooth && Random(0, 30) == 0;
    if (fails) ++counts_.failed_checkpoints;
    At(Random(1, 40), [this, fails, m = c->manifest] {
      if (!fails) catalogue_.push_back(m);
      if (!coordinator_) return;
      if (fails) return Feed(coordinator::ManifestFailed{m.job, m.lineage, m.step, "no space"});
      Feed(coordinator::ManifestCommitted{m});
    });
  } else if (const auto* prune = std::get_if<coordinator::PruneManifests>(&action)) {
    At(Random(1, 200), [this, prune = *prune] { Prune(prune); });
  } else if (const auto* d = std::get_if<coordinator::ComputeDigest>(&action)) {
    At(Random(1, 20), [this, job = d->job] {
      if (coordinator_) Feed(coordinator::DigestDone{job, "digest", ""});
    });
  } else if (const auto* t = std::get_if<coordinator::Announce>(&action)) {
    if (!t->text.empty()) Note(absl::StrCat("> ", t->text));
    if (t->text.find("disagree") != std::string::npos ||
        t->text.find("differ") != std::string::npos)
      Violate(t->text);
  }
}

// As lib/checkpoint/catalogue.h does it.
void World::Prune(const coordinator::PruneManifests& prune) {
  int32_t keep = prune.keep;
  for (size_t i = catalogue_.size(); i-- > 0;) {
    const Manifest& m = catalogue_[i];
    if (coordinator::OnAncestry(prune.lineages, m.lineage, m.step) && keep-- > 0) continue;
    catalogue_.erase(catalogue_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

// ---- invariants

void World::CheckView(const View& view) {
  if (!journal_->view || !(journal_->view->number == view.number))
    Violate(absl::StrCat("view ", view.number.value(), " was published before it was persisted"));
  std::set<std::string> names;
  std::map<Role, std::set<int32_t>> ranks;
  for (const ViewMember& m : view.members) {
    if (!names.insert(m.id.name).second) Violate("two incarnations of a name are in one view");
    ranks[m.role].insert(m.rank.value());
  }
  for (const auto& [role, of_role] : ranks) {
    const auto n = std::count_if(view.members.begin(), view.members.end(),
                                 [&](const ViewMember& m) { return m.role == role; });
    if (static_cast<int64_t>(of_role.size()) != n || *of_role.rbegin() != n - 1)
      Violate("ranks are not dense and unique");
  }
  for (const LaneMap* map : {&view.lanes, &view.first_lanes}) {
    if (map->holder_of.size() != static_cast<size_t>(options_.lanes))
      Violate("a lane without a holder");
    for (int32_t holder : map->holder_of)
      if (holder < 0 || static_cast<size_t>(holder) >= view.members.size() ||
          view.members[static_cast<size_t>(holder)].role != Role::kWorker)
        Violate("a lane's holder is no worker of the view");
  }
  if (view.owner_of.size() != static_cast<size_t>(options_.chunks))
    Violate("a chunk without an owner");
  for (int32_t owner : view.owner_of)
    if (owner < 0 || static_cast<size_t>(owner) >= view.members.size())
      Violate("an owner is not in the view");
  for (size_t i = 0; i < view.members.size(); ++i) {
    const Process* p = Find(view.members[i].id);
    if (p == nullptr || p->machine->member().active() ||
        p->machine->member().sealed() != view.number)
      continue;
    if (!p->machine->member().has_state() || p->machine->member().step() != view.first_step)
      continue;
    const bool spare = LanesOf(view.lanes.holder_of, static_cast<int32_t>(i)).empty() &&
                       LanesOf(view.first_lanes.holder_of, static_cast<int32_t>(i)).empty();
    if (spare) continue;  // it forgets its lanes once the view is active
    for (LaneId lane : p->machine->member().lanes_issued())
      if (view.first_lanes.holder_of[static_cast<size_t>(lane.value())] != static_cast<int32_t>(i))
        Violate(absl::StrCat("lane ", lane.value(), ", folded by ", view.members[i].id.name,
                             ", was given to another member"));
  }
}

void World::CheckManifest(const Manifest& manifest) {
  std::set<std::pair<int32_t, int32_t>> seen;
  const auto& state = reference_.At(manifest.step);
  for (const Segment& segment : manifest.segments)
    for (const SegmentEntry& e : segment.entries) {
      seen.insert({e.slot, e.chunk.value()});
      const Value v = disk_.at(segment.file).at({e.slot, e.chunk.value()});
      const auto c = static_cast<size_t>(e.chunk.value());
      if (v != (e.slot == 0 ? state.values[c] : state.slots[c]))
        Violate(
            absl::StrCat("the checkpoint of step ", manifest.step.value(), " holds a wrong value"));
    }
  if (seen.size() != static_cast<size_t>(options_.chunks) * 2)
    Violate("a manifest does not name every chunk");
  std::vector<StepRecord> records;
  for (const auto& [key, r] : ledger_) records.push_back(r);
  if (!Ancestry(journal_->lineages, records, manifest.lineage, manifest.step).ok())
    Violate("a manifest precedes its records");
}

void World::CheckEnd() {
  if (ended_) return;
  ended_ = true;
  counts_.steps += options_.steps;
  if (journal_->phase != JobPhase::kDone)
    return Violate(absl::StrCat("the job ended as ", phase(), ": ", journal_->reason));
  std::vector<StepRecord> records;
  for (const auto& [key, r] : ledger_) records.push_back(r);
  const auto ancestry =
      Ancestry(journal_->lineages, records, journal_->lineages.back().number, Step(options_.steps));
  if (!ancestry.ok()) return Violate(std::string(ancestry.status().message()));
  for (const StepRecord& r : *ancestry)
    if (r.weight != options_.lanes)
      return Violate(absl::StrCat("step ", r.step.value(), " has weight ", r.weight));
  CheckLanes();
}

// What was run beyond one time each is what the job says it ran again. An end that the coordinator
// has not heard of yet it cannot count.
void World::CheckLanes() {
  if (exits_to_tell_ > 0) return;
  for (const auto& [id, p] : processes_)
    if (journal_->view->IndexOf(id) < 0) return;  // given up, and does not know it yet
  ++counts_.lanes_checked;
  counts_.lanes_recomputed += journal_->lanes.recomputed();
  int64_t run = lanes_of_dead_;
  for (const auto& [id, p] : processes_) run += p.machine->lane_count().total;
  const int64_t again = run - options_.steps * options_.lanes;
  if (again != journal_->lanes.recomputed())
    Violate(
        absl::StrCat(again, " lanes were run again, the job says ", journal_->lanes.recomputed()));
}

// ---- faults

void World::FailWhileForming() {
  if (!AnyForming() || ended_ || processes_.empty()) return;
  ++counts_.second_failures;
  auto it = processes_.begin();
  std::advance(it, Random(0, static_cast<int64_t>(processes_.size()) - 1));
  if (Random(0, 3) == 0) return KillCoordinator(Random(50, 800));
  Kill(it->first, "was killed while a view was forming", 0);
}

// One member does not hear of the new lineage before the view that begins it fails.
void World::AmbushRewind(const MemberId& member, const Heal& heal) {
  const bool rewinds = journal_->view && heal.plan.lineage != journal_->view->lineage;
  if (!rewinds || options_.smooth || faults_left_ <= 0 || Random(0, 5) != 0) return;
  --faults_left_;
  if (const Process* p = Find(member); p != nullptr && p->coordinator_session)
    Break(*p->coordinator_session);
  At(Random(0, 10), [this] { FailWhileForming(); });
}

void World::Inject() {
  if (ended_ || faults_left_ <= 0) return;
  --faults_left_;
  if (processes_.empty()) return;
  auto pick = [this] {
    auto it = processes_.begin();
    std::advance(it, Random(0, static_cast<int64_t>(processes_.size()) - 1));
    return it->first;
  };
  if (Random(0, 1) == 0) ambush_ = true;
  switch (Random(0, 11)) {
    case 11:
      if (coordinator_) {
        Note("the job is told to stop");
        Feed(coordinator::Stop{kJob});
      }
      break;
    case 10:
      if (Process* server = FindByName("server-0")) Kill(server->id, "was killed", 0);
      break;
    case 0:
    case 1:
    case 2: Kill(pick(), "was killed", 0); break;
    case 3: Pause(pick().name, Random(100, 1200)); break;
    case 4: Pause(pick().name, Random(2000, 5000)); break;
    case 5: KillCoordinator(Random(50, 4000)); break;
    case 6:
    case 7: {
      for (int64_t n = Random(1, 4); n > 0; --n) BreakAny();
      break;
    }
    case 8: {  // the loss of everything but the journal and the disk
      const bool all = Random(0, 1) == 0;
      std::vector<MemberId> ids;
      for (const auto& [id, p] : processes_)
        if (all || p.role == Role::kWorker) ids.push_back(id);
      for (const MemberId& id : ids) Kill(id, "was killed with the others", 0);
      break;
    }
    default: {
      Kill(pick(), "was killed", 0);
      KillCoordinator(Random(50, 2500));
    }
  }
  if (faults_left_ > 0) At(Random(20, 900), [this] { Inject(); });
}

void World::BreakAny() {
  std::vector<int64_t> open;
  for (const auto& [s, session] : sessions_)
    if (!session.broken) open.push_back(s);
  if (open.empty()) return;
  const int64_t s = open[static_cast<size_t>(Random(0, static_cast<int64_t>(open.size()) - 1))];
  Note(absl::StrCat("a session of ", sessions_[s].a.name, " and ",
                    sessions_[s].b.name.empty() ? "coordinator" : sessions_[s].b.name, " breaks"));
  Break(s);
}

bool World::Run() {
  if (faults_left_ > 0) At(Random(50, 600), [this] { Inject(); });
  int64_t calm_since = -1;
  while (!ended_ && violation_.empty() && !events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    ++counts_.events;
    event.run();
    if (faults_left_ <= 0 && calm_since < 0) calm_since = now_;
    if (counts_.events > 200000) Violate("two hundred thousand events and no end");
    if (calm_since >= 0 && now_ - calm_since > 120000 && coordinator_)
      for (const auto& status : coordinator_->Status())
        Note(
            absl::StrCat("coordinator: recorded ", status.step.value(), " of ", status.steps,
                         ", lineages ", status.job.lineages.size(), ", checkpoints ",
                         status.checkpoints.empty() ? -1 : status.checkpoints.back().second.value(),
                         ", waits for ", status.waits_for));
    if (calm_since >= 0 && now_ - calm_since > 120000)
      for (auto& [id, p] : processes_) {
        const Member& m = p.machine->member();
        Note(absl::StrCat(id.name, "-", id.incarnation.hi, ": step ", m.step().value(), ", sealed ",
                          m.sealed().value(), m.active() ? ", active, " : ", ", m.Phase(),
                          p.coordinator_session ? "" : ", no coordinator session", ", held ",
                          p.machine->held()));
      }
    if (calm_since >= 0 && now_ - calm_since > 120000)
      Violate(
          absl::StrCat("no end two minutes after the last fault; the coordinator says: ", phase()));
  }
  if (!ended_ && violation_.empty()) Violate("nothing is left to happen");
  return violation_.empty();
}

bool World::RunUntil(const std::function<bool()>& condition) {
  const int64_t limit = now_ + 60000;
  while (!condition()) {
    if (events_.empty() || now_ > limit || !violation_.empty()) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    event.run();
  }
  return true;
}

}  // namespace muster::sim
