#include "tests/sim/faults.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/lease.h"
#include "tests/sim/world.h"

namespace muster::sim {
namespace {

constexpr int64_t kLease = kDefaultLease / std::chrono::milliseconds(1);
// A session over a way that is cut breaks after 3 s at most; then both name each other for 2 s at
// most, and their words come four times a second, some late.
constexpr int64_t kVerdictAfter = 7000;

}  // namespace

void Faults::Begin() {
  if (!over()) around_.schedule.At(around_.schedule.Random(50, 600), [this] { Inject(); });
}

bool Faults::CoordinatorDies() {
  if (over() || !around_.schedule.OneIn(200)) return false;
  --left_;
  if (AnyForming()) around_.coverage.Add(Corner::kRestartsInForming);
  return true;
}

void Faults::Inject() {
  if (over() || world_.ended()) return;
  --left_;
  if (around_.schedule.OneIn(2)) ambush_ = true;
  if (world_.options_.launches && around_.schedule.OneIn(5)) {
    HarmLaunch();
    return InjectLater();
  }
  if (HasStreams() && around_.schedule.OneIn(4)) {
    HarmReader();
    return InjectLater();
  }
  using Fault = void (Faults::*)();
  // Each is as likely as the number of times that it stands here.
  static constexpr Fault kFaults[] = {
      &Faults::KillMember,         &Faults::KillMember,        &Faults::KillMember,
      &Faults::KillServer,         &Faults::KillMany,          &Faults::KillMemberAndCoordinator,
      &Faults::StallMember,        &Faults::StallMember,       &Faults::StallCoordinator,
      &Faults::StallAgent,         &Faults::KillCoordinator,   &Faults::BreakSessions,
      &Faults::BreakSessions,      &Faults::CutMembers,        &Faults::CutMembers,
      &Faults::CutFromCoordinator, &Faults::StopJob,           &Faults::CancelJob,
      &Faults::DamageCheckpoint,   &Faults::BreakAgentSession, &Faults::StallCoordinator,
      &Faults::CutFromCoordinator, &Faults::StopJob,           &Faults::StallMember,
      &Faults::HangTrainThread,    &Faults::StallEverything,   &Faults::HoldUpDecisions,
      &Faults::KillOneByOne,       &Faults::KillHost,          &Faults::CutAgent,
      &Faults::CutHosts,           &Faults::CutHosts,          &Faults::EndHost,
      &Faults::DrainHost,          &Faults::ScaleJob,          &Faults::ScaleJob,
  };
  const auto last = static_cast<int64_t>(std::size(kFaults)) - 1;
  (this->*kFaults[around_.schedule.Random(0, last)])();
  InjectLater();
}

void Faults::InjectLater() {
  if (over()) return;
  const int64_t quiet = std::max<int64_t>(0, quiet_until_ - around_.schedule.now());
  around_.schedule.At(quiet + around_.schedule.Random(20, 900), [this] { Inject(); });
}

MemberProcess* Faults::AnyMember() {
  const std::vector<MemberProcess*> all = world_.AllMembers();
  if (all.empty()) return nullptr;
  return all[static_cast<size_t>(around_.schedule.Random(0, static_cast<int64_t>(all.size()) - 1))];
}

// Another member of its job; null: it has none.
MemberProcess* Faults::AnyOther(const MemberProcess& member) {
  std::vector<MemberProcess*> others;
  for (MemberProcess* process : world_.AllMembers())
    if (process != &member && &process->job() == &member.job()) others.push_back(process);
  if (others.empty()) return nullptr;
  return others[static_cast<size_t>(
      around_.schedule.Random(0, static_cast<int64_t>(others.size()) - 1))];
}

// A job that has not ended for good; null: all have.
SimJob* Faults::AnyJob() {
  std::vector<SimJob*> open;
  for (const auto& [id, job] : world_.jobs_)
    if (world_.over_.count(id) == 0) open.push_back(job.get());
  if (open.empty()) return nullptr;
  return open[static_cast<size_t>(
      around_.schedule.Random(0, static_cast<int64_t>(open.size()) - 1))];
}

// ---- deaths

void Faults::KillMember() {
  if (const MemberProcess* p = AnyMember()) world_.Crash(p->node(), "was killed");
}

void Faults::KillServer() {
  for (const MemberProcess* p : world_.AllMembers())
    if (p->role() == Role::kServer) return world_.Crash(p->node(), "was killed");
}

// Kills all members, so that only the journal and the disk are left, or all workers.
void Faults::KillMany() {
  const bool all = around_.schedule.OneIn(2);
  for (const MemberProcess* p : world_.AllMembers())
    if (all || p->role() == Role::kWorker) world_.Crash(p->node(), "was killed with the others");
}

// One worker after the other, each when all members are there again, and the coordinator in
// between. Where there are several workers, one that has the state lives at every moment.
void Faults::KillOneByOne() {
  for (int64_t times = 0; times < 5; ++times)
    around_.schedule.At(times * around_.schedule.Random(300, 900), [this] { KillOneOfAll(); });
}

void Faults::KillOneOfAll() {
  if (over() || world_.ended()) return;
  --left_;
  if (around_.schedule.OneIn(3)) return KillCoordinator();
  const MemberProcess* p = AnyMember();
  if (p == nullptr || p->role() != Role::kWorker || !HasAllItsMembers(p->job())) return;
  around_.coverage.Add(Corner::kKillsOneByOne);
  world_.Crash(p->node(), "was killed alone");
}

void Faults::KillMemberAndCoordinator() {
  KillMember();
  KillCoordinator();
}

void Faults::KillCoordinator() {
  if (AnyForming()) around_.coverage.Add(Corner::kRestartsInForming);
  world_.KillCoordinator(around_.schedule.Random(50, 4000));
}

// ---- standing still

void Faults::StallMember() {
  const MemberProcess* p = AnyMember();
  if (p == nullptr) return;
  const bool is_long = around_.schedule.OneIn(2);
  const int64_t ms =
      is_long ? around_.schedule.Random(1200, 5000) : around_.schedule.Random(100, 1200);
  Stall(absl::StrCat(p->job().options.id, "/", p->id().name), ms, Corner::kMemberStalls,
        Corner::kLongMemberStalls);
}

// Its other threads live, and say so.
void Faults::HangTrainThread() {
  MemberProcess* p = AnyMember();
  if (p == nullptr || !p->HangTrainThread()) return;
  around_.trace.Note(absl::StrCat("the train thread of ", world_.NameOf(*p), " hangs"));
}

void Faults::StallCoordinator() {
  Stall("coordinator", around_.schedule.Random(100, 5000), Corner::kCoordinatorStalls,
        Corner::kLongCoordinatorStalls);
}

// Its disk is slow, once or with each of some writes: it decides a little in between.
void Faults::HoldUpDecisions() {
  const int64_t ms = around_.schedule.Random(100, 3000);
  around_.coverage.Add(Corner::kHeldUpDecisions);
  world_.Stall("decisions", ms);
  if (around_.schedule.OneIn(2)) return;
  around_.coverage.Add(Corner::kDecisionsHeldUpAgain);
  for (int64_t times = 1; times <= 4; ++times)
    around_.schedule.At(times * (ms + 20), [this, ms] { world_.Stall("decisions", ms); });
}

void Faults::StallAgent() {
  const size_t host = AnyHost();
  Stall(host == 0 ? "agent" : absl::StrCat("agent-", host), around_.schedule.Random(100, 5000),
        Corner::kAgentStalls, Corner::kLongAgentStalls);
}

// The machine sleeps for longer than the patience with a thread. When it wakes nobody is given up,
// and where everybody was there, no job goes back to a checkpoint.
void Faults::StallEverything() {
  const int64_t ms = around_.schedule.Random(kThreadPatience / std::chrono::milliseconds(1), 20000);
  for (const MemberProcess* p : world_.AllMembers())
    world_.Stall(absl::StrCat(p->job().options.id, "/", p->id().name), ms);
  world_.Stall("coordinator", ms);
  for (size_t i = 0; i < world_.hosts_.size(); ++i)
    world_.Stall(i == 0 ? "agent" : absl::StrCat("agent-", i), ms);
  quiet_until_ = around_.schedule.now() + ms + 2 * kLease;
  ambush_ = false;
  for (const auto& [id, job] : world_.jobs_) {
    if (!HasAllItsMembers(*job)) continue;
    around_.coverage.Add(Corner::kAllStalls);
    const int64_t rewinds = job->store.journal->rewinds;
    around_.schedule.At(ms + 2 * kLease, [this, id = id, before = job.get(), rewinds, left = left_,
                                          told_to_go = job->told_to_go, crashes = job->crashes] {
      const auto now = world_.jobs_.find(id);
      if (left_ != left || now == world_.jobs_.end() || now->second.get() != before) return;
      // Members that know more than a copy of the journal have states that nobody can use.
      if (!world_.sent_away_.empty()) return;
      // One of an earlier start, for which its job was submitted again before everything stood
      // still.
      if (before->told_to_go != told_to_go) return;
      // A fault that began before may kill now, as where a host ends whose time is up.
      if (before->crashes != crashes) return;
      if (before->store.journal->rewinds != rewinds)
        around_.trace.Violate(absl::StrCat(id, " went back because everything stood still"));
    });
  }
}

bool Faults::HasAllItsMembers(const SimJob& job) const {
  const auto& journal = job.store.journal;
  if (!world_.coordinator_ || !journal || journal->phase != coordinator::JobPhase::kRunning)
    return false;
  return std::all_of(journal->view->members.begin(), journal->view->members.end(),
                     [&](const ViewMember& m) {
                       const MemberProcess* process = world_.Find(m.id);
                       return process != nullptr && !process->hangs() && process->machine() &&
                              process->machine()->member().active();
                     });
}

// A process that dies or is continued before a lease is over has not stood still for that long.
void Faults::Stall(const std::string& name, int64_t ms, Corner any, Corner longer_than_lease) {
  Runner* runner = world_.RunnerOf(name);
  if (runner == nullptr) return;
  around_.coverage.Add(any);
  world_.Stall(name, ms);
  runner->IfStalledIn(kLease,
                      [this, longer_than_lease] { around_.coverage.Add(longer_than_lease); });
}

// ---- the network

void Faults::BreakSessions() {
  for (int64_t n = around_.schedule.Random(1, 4); n > 0; --n) {
    const auto open = around_.network.OpenSessions();
    if (open.empty()) return;
    auto it = open.begin();
    std::advance(it, around_.schedule.Random(0, static_cast<int64_t>(open.size()) - 1));
    around_.trace.Note(
        absl::StrCat("the session of nodes ", it->second.from, " and ", it->second.to, " breaks"));
    around_.network.Break(it->first);
  }
}

// When it is made again the agent tells what ended processes had run.
void Faults::BreakAgentSession() {
  const SimSessionId session = around_.network.Between(
      kFirstAgentNode + static_cast<NodeId>(AnyHost()), world_.coordinator_node());
  if (session == 0) return;
  if (!world_.AllMembers().empty()) around_.coverage.Add(Corner::kAgentBreaks);
  around_.trace.Note("the session of the agent breaks");
  around_.network.Break(session);
}

// What happens to the hosts of a job without the coordinator.
void Faults::HarmLaunch() {
  switch (around_.schedule.Random(0, 3)) {
    case 0: return world_.pods_.DeleteAny();
    case 1: return world_.pods_.GiveUpAny();
    default: return world_.pods_.SuspendAny(around_.schedule.Random(500, 15000));
  }
}

bool Faults::HasStreams() const {
  return std::any_of(world_.jobs_.begin(), world_.jobs_.end(),
                     [](const auto& entry) { return entry.second->source.has_value(); });
}

// It dies, stands still, or is cut off for so long that another one begins while it lives.
void Faults::HarmReader() {
  std::vector<MemberProcess*> readers;
  for (MemberProcess* process : world_.AllMembers())
    if (process->role() == Role::kReader) readers.push_back(process);
  if (readers.empty()) return KillMember();
  MemberProcess& reader = *readers[static_cast<size_t>(
      around_.schedule.Random(0, static_cast<int64_t>(readers.size()) - 1))];
  around_.coverage.Add(Corner::kHarmedReaders);
  const NodeId coordinator = world_.coordinator_node();
  switch (around_.schedule.Random(0, 5)) {
    case 0: return world_.Crash(reader.node(), "was killed");
    case 1: world_.Crash(reader.node(), "was killed"); return KillCoordinator();
    case 2:
      return world_.Stall(absl::StrCat(reader.job().options.id, "/", reader.id().name),
                          around_.schedule.Random(100, 5000));
    case 3:
      if (const SimSessionId session = around_.network.Between(reader.node(), coordinator))
        around_.network.Break(session);
      return;
    default: return CutPair(world_.NameOf(reader), "coordinator", reader.node(), coordinator);
  }
}

// Where hosts are made for jobs: one of those that live, if there is any.
size_t Faults::AnyHost() {
  if (world_.options_.launches) {
    std::vector<size_t> live;
    for (const World::Host& host : world_.hosts_)
      if (host.agent && host.is_pod) live.push_back(host.index);
    if (!live.empty())
      return live[static_cast<size_t>(
          around_.schedule.Random(0, static_cast<int64_t>(live.size()) - 1))];
  }
  return static_cast<size_t>(
      around_.schedule.Random(0, static_cast<int64_t>(world_.hosts_.size()) - 1));
}

// In half of the cases for so long that its members are placed on other hosts.
void Faults::KillHost() {
  const size_t host = AnyHost();
  const bool is_long = around_.schedule.OneIn(2);
  if (!world_.hosts_[host].agent) return;
  around_.coverage.Add(Corner::kHostDeaths);
  world_.KillHost(
      host, is_long ? around_.schedule.Random(21000, 40000) : around_.schedule.Random(50, 5000));
}

// Its members leave at a step boundary, as far as there is time.
void Faults::EndHost() {
  const size_t host = AnyHost();
  if (!world_.hosts_[host].agent) return;
  around_.coverage.Add(Corner::kHostEnds);
  world_.EndHost(host, around_.schedule.Random(500, 13000), around_.schedule.Random(50, 5000));
}

void Faults::DrainHost() {
  if (world_.options_.launches) return;  // it is refused: hosts come again under their names
  around_.coverage.Add(Corner::kDrains);
  world_.DrainHost(AnyHost(), around_.schedule.Random(100, 10000));
}

void Faults::ScaleJob() {
  if (SimJob* job = AnyJob()) world_.client_.Scale(*job);
}

// Its members still reach the coordinator. Now and then they die in that time, one after the other,
// and their agent starts them again, until the host counts as lost.
void Faults::CutAgent() {
  const NodeId agent = kFirstAgentNode + static_cast<NodeId>(AnyHost());
  const int64_t ms = around_.schedule.OneIn(2) ? around_.schedule.Random(22000, 30000)
                                               : around_.schedule.Random(500, 6000);
  around_.coverage.Add(Corner::kCutAgents);
  around_.trace.Note(absl::StrCat("the agent at node ", agent, " is cut off for ", ms, " ms"));
  around_.network.Cut(agent, world_.coordinator_node(), ms);
  around_.network.Cut(world_.coordinator_node(), agent, ms);
  if (const SimSessionId session = around_.network.Between(agent, world_.coordinator_node()))
    around_.network.Break(session);
}

void Faults::CutMembers() {
  const MemberProcess* a = AnyMember();
  const MemberProcess* b = a == nullptr ? nullptr : AnyOther(*a);
  if (b == nullptr) return;
  CutPair(world_.NameOf(*a), world_.NameOf(*b), a->node(), b->node());
}

// Everybody reaches the coordinator all the time. Where each worker has the whole state, one of the
// two hosts is enough for ever, if the least number of workers that people ask for has room there;
// else it is for longer than anybody waits for anything. Servers may have no room on one.
void Faults::CutHosts() {
  if (world_.hosts_.size() < 2) return CutMembers();
  const auto last = static_cast<int64_t>(world_.hosts_.size()) - 1;
  const auto a = static_cast<size_t>(around_.schedule.Random(0, last - 1));
  const auto b = static_cast<size_t>(around_.schedule.Random(static_cast<int64_t>(a) + 1, last));
  bool of_workers = true;
  for (const auto& [id, job] : world_.jobs_) of_workers &= job->options.sync == Sync::kAllreduce;
  constexpr int64_t kForEver = 3600000, kVeryLong = 60000;
  constexpr int32_t kMostNeeded = 4;
  int32_t devices_each = 0;
  for (const auto& [id, job] : world_.jobs_)
    devices_each = std::max(devices_each, job->options.devices);
  const auto is_enough = [devices_each](const World::Host& host) {
    return host.slots >= kMostNeeded && host.devices >= kMostNeeded * devices_each;
  };
  const bool one_is_enough = is_enough(world_.hosts_[a]) && is_enough(world_.hosts_[b]);
  const int64_t ms = of_workers && around_.schedule.OneIn(2)
                         ? (one_is_enough ? kForEver : kVeryLong)
                         : around_.schedule.Random(3000, 15000);
  world_.CutHosts(a, b, ms);
  for (const MemberProcess* here : world_.AllMembers())
    for (const MemberProcess* there : world_.AllMembers()) {
      const bool are_cut = here->agent().host == world_.hosts_[a].name &&
                           there->agent().host == world_.hosts_[b].name &&
                           &here->job() == &there->job();
      if (!are_cut) continue;
      around_.coverage.Add(Corner::kCutHosts);
      if (ms > kVerdictAfter) ExpectVerdict(*here, *there);
    }
}

// As long as one view stays active with both, and they, their ways to the coordinator and that
// itself are sound. Beside one that was replaced, members may be in views of that one.
void Faults::ExpectVerdict(const MemberProcess& a, const MemberProcess& b) {
  const auto view_with_both = [this, job = &a.job(), a = a.id(), b = b.id()] {
    const auto& journal = job->store.journal;
    const bool runs = journal && journal->phase == coordinator::JobPhase::kRunning &&
                      journal->view && journal->view->number == journal->number;
    if (!runs || job->gone) return ViewNumber();
    const View& view = *journal->view;
    const int32_t at_a = view.IndexOf(a), at_b = view.IndexOf(b);
    const bool exchange = at_a >= 0 && at_b >= 0 &&
                          coordinator::Exchange(view, job->options.sync, static_cast<size_t>(at_a),
                                                static_cast<size_t>(at_b));
    return exchange ? view.number : ViewNumber();
  };
  const ViewNumber before = view_with_both();
  if (before == ViewNumber() || world_.replaced_) return;
  around_.schedule.At(
      kVerdictAfter, [this, view_with_both, before, a = a.id(), b = b.id(), term = world_.term_] {
        if (view_with_both() != before || world_.term_ != term || !world_.coordinator_) return;
        const int64_t since = around_.schedule.now() - kVerdictAfter;
        if (world_.coordinator_->runner().stalled_until() > since) return;
        if (world_.coordinator_->held_until() > since) return;
        for (const MemberId& id : {a, b}) {
          const MemberProcess* process = world_.Find(id);
          if (process == nullptr || process->leaving()) return;
          if (process->runner().stalled_until() > since) return;
          const Network& network = around_.network;
          if (network.CutUntil(process->node(), world_.coordinator_node()) > since) return;
          if (network.CutUntil(world_.coordinator_node(), process->node()) > since) return;
        }
        around_.trace.Violate(absl::StrCat(a.name, " and ", b.name,
                                           " cannot reach each other, and nobody is left out"));
      });
}

void Faults::CutFromCoordinator() {
  const MemberProcess* a = AnyMember();
  if (a == nullptr) return;
  CutPair(world_.NameOf(*a), "coordinator", a->node(), world_.coordinator_node());
}

// Cuts one way or both. Now and then an end gives its session up meanwhile.
void Faults::CutPair(const std::string& a, const std::string& b, int64_t from, int64_t to) {
  Schedule& schedule = around_.schedule;
  const bool is_long = schedule.OneIn(2), both = schedule.OneIn(2), turned = schedule.OneIn(2);
  const int64_t ms = is_long ? schedule.Random(kLease, 6000) : schedule.Random(100, kLease);
  std::vector<Corner> corners = {is_long ? Corner::kLongCuts : Corner::kShortCuts,
                                 both ? Corner::kTwoWayCuts : Corner::kOneWayCuts};
  if (is_long && !both) corners.push_back(Corner::kLongOneWayCuts);
  if (to == world_.coordinator_node()) corners.push_back(Corner::kCutsFromCoordinator);
  const std::function<void()> stops_a_frame = AddOnce(corners);
  if (both || !turned) around_.network.Cut(from, to, ms, stops_a_frame);
  if (both || turned) around_.network.Cut(to, from, ms, stops_a_frame);
  around_.trace.Note(absl::StrCat("nothing comes through ", both ? "between " : "from ",
                                  turned ? b : a, both ? " and " : " to ", turned ? a : b, " for ",
                                  ms, " ms"));
  if (schedule.OneIn(2))
    schedule.At(schedule.Random(0, ms), [this, from, to] {
      if (const SimSessionId session = around_.network.Between(from, to))
        around_.network.Break(session);
    });
}

// A cut that stops no frame has tried nothing, and one that stops many is one cut.
std::function<void()> Faults::AddOnce(const std::vector<Corner>& corners) {
  return [this, corners, added = std::make_shared<bool>(false)] {
    if (std::exchange(*added, true)) return;
    for (const Corner corner : corners) around_.coverage.Add(corner);
  };
}

// ---- people and disks

void Faults::StopJob() {
  if (SimJob* job = AnyJob()) world_.client_.Stop(*job);
}

void Faults::CancelJob() {
  SimJob* job = AnyJob();
  if (job != nullptr && job->options.may_be_cancelled) return world_.client_.Cancel(*job);
  BreakSessions();
}

void Faults::DamageCheckpoint() {
  if (const SimJob* job = AnyJob()) world_.DamageCheckpoint(job->options.id);
  if (around_.schedule.OneIn(2)) KillMany();
}

// ---- at chosen moments

bool Faults::AnyForming() const {
  for (const auto& [id, job] : world_.jobs_) {
    const auto& journal = job->store.journal;
    if (journal && !coordinator::Ended(journal->phase) && journal->number > ViewNumber(0) &&
        (!journal->view || journal->number > journal->view->number))
      return true;
  }
  return false;
}

void Faults::OnSaid(const MemberId& to, const FromCoordinator& message) {
  if (around_.schedule.smooth()) return;
  if (std::holds_alternative<Seal>(message) && std::exchange(ambush_, false))
    around_.schedule.At(around_.schedule.Random(1, 30), [this] { FailWhileForming(); });
  if (const auto* heal = std::get_if<Heal>(&message)) AmbushRewind(to, *heal);
  const auto* give = std::get_if<GiveCommand>(&message);
  if (give != nullptr && give->command.kind == JobCommandKind::kStop) AmbushStop(to);
}

// The host is busy while the processes of a job start. Before they can join, the job is submitted
// with other runtime fields, and so begins anew: they were told of another start.
void Faults::OnHeard(const MemberProcess& member, const FromCoordinator& message) {
  if (over() || !std::holds_alternative<JobIs>(message)) return;
  SimJob& job = member.job();
  const auto& journal = job.store.journal;
  const bool starts = journal && (journal->phase == coordinator::JobPhase::kChecking ||
                                  journal->phase == coordinator::JobPhase::kStarting);
  if (!starts || !job.options.changes_runtime || !around_.schedule.OneIn(6)) return;
  --left_;
  const int64_t ms = around_.schedule.Random(200, 1000);
  around_.trace.Note(absl::StrCat("members of ", job.options.id, " stand still for ", ms, " ms"));
  for (MemberProcess* process : world_.AllMembers())
    if (&process->job() == &job) process->runner().Stall(ms);
  world_.client_.SubmitChanged(job);
}

// Its owner, or another that is about to have the total, may be the one that dies.
void Faults::OnPhase(const MemberProcess& member) {
  if (over() || !around_.schedule.OneIn(60)) return;
  --left_;
  around_.coverage.Add(Corner::kKillsAtPhases);
  const MemberProcess* other = around_.schedule.OneIn(2) ? AnyOther(member) : nullptr;
  const NodeId node = other != nullptr ? other->node() : member.node();
  around_.schedule.At(around_.schedule.Random(0, 4),
                      [this, node] { world_.Crash(node, "was killed at a phase"); });
}

void Faults::FailWhileForming() {
  if (!AnyForming() || world_.ended()) return;
  around_.coverage.Add(Corner::kSecondFailures);
  if (around_.schedule.OneIn(4)) return KillCoordinator();
  if (const MemberProcess* p = AnyMember())
    world_.Crash(p->node(), "was killed while a view was forming");
}

// While the owner of chunk 0 gets a stop another member of the view dies. Then the view is sealed
// before the result of chunk 0 can carry the stop, and the same owner gets it again in the next
// one; at times from another coordinator, which knows of it by the journal.
void Faults::AmbushStop(const MemberId& owner) {
  const MemberProcess* process = world_.Find(owner);
  if (process == nullptr || over() || !around_.schedule.OneIn(2)) return;
  const MemberProcess* other = AnyOther(*process);
  if (other == nullptr) return;
  --left_;
  const bool with_coordinator = around_.schedule.OneIn(3);
  around_.schedule.At(around_.schedule.Random(0, 12),
                      [this, node = other->node(), with_coordinator] {
                        world_.Crash(node, "was killed while a stop was given");
                        if (with_coordinator) KillCoordinator();
                      });
}

// One member does not hear of the new lineage before the view that begins it fails.
void Faults::AmbushRewind(const MemberId& member, const Heal& heal) {
  const MemberProcess* process = world_.Find(member);
  if (process == nullptr || over()) return;
  const auto& journal = process->job().store.journal;
  const bool rewinds = journal->view && heal.plan.lineage != journal->view->lineage;
  if (!rewinds || !around_.schedule.OneIn(6)) return;
  --left_;
  if (const SimSessionId session =
          around_.network.Between(process->node(), world_.coordinator_node()))
    around_.network.Break(session);
  around_.schedule.At(around_.schedule.Random(0, 10), [this] { FailWhileForming(); });
}

}  // namespace muster::sim
