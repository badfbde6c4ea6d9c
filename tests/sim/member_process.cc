#include "tests/sim/member_process.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"
#include "lib/base/lease.h"
#include "lib/domain/given_number.h"
#include "tests/sim/coordinator_process.h"

namespace muster::sim {
namespace {

void Renumber(PeerMessage& message, ViewNumber view) {
  std::visit(
      [view](auto& said) {
        if constexpr (requires { said.view; }) said.view = view;
      },
      message);
}

constexpr int64_t kAliveEvery = 500;
static_assert(kDefaultLease == std::chrono::milliseconds(3 * kAliveEvery));
constexpr std::chrono::milliseconds kLongestGap(2 * kAliveEvery);  // as in life_signs.cc
static_assert(kLongestGap > (kThreadPatience + kDefaultLease) / 10);

}  // namespace

MemberProcess::MemberProcess(Around around, Place place, Events events)
    : around_(around),
      place_(std::move(place)),
      events_(std::move(events)),
      runner_(around_.schedule),
      links_(around_, runner_, place_.node, place_.id,
             {[this](const MemberId& peer) { ChangeSession(peer, &Machine::SessionUp); },
              [this](const MemberId& peer) { ChangeSession(peer, &Machine::SessionDown); },
              [this](const MemberId& peer) {
                MemberProcess* process = events_.find(peer);
                return process == nullptr || !process->machine_ ? nullptr : &process->links_;
              }}),
      gaps_(kLongestGap, TimeOf(around_.schedule.now())),
      pace_(std::chrono::milliseconds(kAliveEvery), TimeOf(around_.schedule.now())) {
  around_.network.Add(place_.node, &runner_);
  ConnectCoordinator();
  Live();
}

MemberProcess::~MemberProcess() {
  runner_.Die();
  around_.network.Remove(place_.node);
}

LaneCount MemberProcess::lane_count() const {
  return machine_ ? machine_->lane_count() : LaneCount{};
}

void MemberProcess::Leave(int exit_code, const std::string& reason) {
  if (std::exchange(leaving_, true)) return;
  events_.left(exit_code, reason);
}

// ---- the coordinator

void MemberProcess::ConnectCoordinator() {
  if (session_ != 0 || dialed_ != 0) return;
  const NodeId address = place_.addresses.current();
  CoordinatorProcess* coordinator = events_.coordinator(address);
  if (coordinator != nullptr)
    dialed_ = around_.network.Open(place_.node, address,
                                   {[this](SimSessionId s) { OnCoordinatorUp(s); },
                                    [this](SimSessionId s) { OnCoordinatorDown(s); }},
                                   coordinator->Accept(place_.node));
  if (dialed_ != 0) return;
  place_.addresses.GoOn();
  runner_.Later(around_.schedule.Random(20, 80), [this] { ConnectCoordinator(); });
}

void MemberProcess::OnCoordinatorUp(SimSessionId session) {
  dialed_ = 0;
  session_ = session;
  Introduce();
}

void MemberProcess::OnCoordinatorDown(SimSessionId session) {
  if (session != session_ && session != dialed_) return;
  session_ = dialed_ = 0;
  if (!std::exchange(heard_, false)) place_.addresses.GoOn();
  late_records_.clear();  // they are told again at the next session
  runner_.Later(around_.schedule.Random(1, 40), [this] { ConnectCoordinator(); });
}

// A member tells the records of a state before the segments with it. The coordinator does not count
// on that: it commits when it has both. So at times a segment overtakes the records.
void MemberProcess::Tell(const ToCoordinator& message) {
  if (session_ == 0) return;
  if (const auto* records = std::get_if<Records>(&message)) {
    const bool is_first = late_records_.empty();
    if (!is_first || around_.schedule.OneIn(10)) late_records_.push_back(*records);
    if (is_first && !late_records_.empty())
      runner_.Later(around_.schedule.Random(20, 200), [this] { SendLateRecords(); });
    if (!late_records_.empty()) return;
  } else if (std::holds_alternative<SegmentWritten>(message)) {
    if (!late_records_.empty()) around_.coverage.Add(Corner::kOvertakenRecords);
  } else {
    SendLateRecords();
  }
  SendToCoordinator(message);
}

void MemberProcess::SendLateRecords() {
  for (const Records& records : std::exchange(late_records_, {})) SendToCoordinator(records);
}

void MemberProcess::SendToCoordinator(const ToCoordinator& message) {
  const bool alive = std::holds_alternative<Alive>(message);
  around_.network.Send(
      session_, place_.node,
      [session = session_, find = events_.coordinator, to = place_.addresses.current(), message] {
        if (CoordinatorProcess* coordinator = find(to)) coordinator->Said(session, message);
      },
      [this, alive] {
        if (alive) around_.coverage.Add(Corner::kAlivesLost);
      });
}

void MemberProcess::Introduce() {
  if (machine_) return machine_->Feed(CoordinatorUp{});
  if (follower_) return follower_->Feed(CoordinatorUp{});
  if (reader_) return reader_->Feed(CoordinatorUp{});
  Tell(AskJob{place_.job->options.id, place_.id.name});
}

// The thread of the life signs.
void MemberProcess::Live() {
  const Time now = TimeOf(around_.schedule.now());
  if (pace_.Wake(now, has_news_)) SayAlive(now);
  const int64_t wait = (pace_.Next(has_news_) - now) / std::chrono::milliseconds(1);
  runner_.Later(std::max<int64_t>(1, wait), [this] { Live(); });
}

void MemberProcess::SayAlive(Time now) {
  has_news_ = false;
  gaps_.Wake(now);
  Alive alive;
  if (machine_) {
    const Member& member = machine_->member();
    alive = {member.step(), member.Phase(), machine_->threads(gaps_), member.WhoIsUnreachable()};
  }
  if (follower_) {
    alive = {follower_->follower().step(), follower_->follower().Phase()};
    if (const std::optional<int64_t> still = follower_->StoodStill())
      alive.threads = {{"train", Seconds(gaps_.Since(std::chrono::milliseconds(*still)))}};
  }
  pace_.Spoke(now, !alive.unreachable.members.empty());
  if (!pace_.MayName(now, now)) alive.unreachable = {};
  if (reader_) alive.phase = reader_->session().Phase();
  if (!machine_ && !follower_ && !reader_) return;
  Tell(alive);
  EndIfHung(alive.threads);
}

// As in exchange.cc: whom it does not reach any more, or again, is news.
void MemberProcess::ChangeSession(const MemberId& peer,
                                  void (Machine::*change)(const MemberId& peer)) {
  const Unreachable before = machine_->member().WhoIsUnreachable();
  (machine_.get()->*change)(peer);
  if (!machine_ || machine_->member().WhoIsUnreachable() == before) return;
  has_news_ = true;
  const Time now = TimeOf(around_.schedule.now());
  const int64_t wait = (pace_.Next(has_news_) - now) / std::chrono::milliseconds(1);
  runner_.Later(std::max<int64_t>(0, wait), [this] {
    const Time woke = TimeOf(around_.schedule.now());
    if (pace_.Wake(woke, has_news_)) SayAlive(woke);
  });
}

void MemberProcess::EndIfHung(const std::vector<ThreadAge>& threads) {
  for (const ThreadAge& thread : threads) {
    if (thread.seconds <= Seconds(kThreadPatience + kDefaultLease)) continue;
    if (!hangs_) ViolateBusy("ends itself");
    Leave(kExitFailed, "a thread hangs");
  }
}

// It was started by a later coordinator than this (lib/member/runtime/coordinator_link.h).
bool MemberProcess::IsReplaced(const FromCoordinator& message) {
  if (TermOf(message) >= TermThatGave(place_.placement)) return false;
  around_.coverage.Add(Corner::kNotObeyed);
  around_.network.Break(session_);
  return true;
}

void MemberProcess::Said(SimSessionId session, const FromCoordinator& message) {
  if (session != session_ || IsReplaced(message)) return;
  heard_ = true;
  events_.hears(*this, message);
  if (lied_ && std::holds_alternative<Seal>(message))
    return Leave(kExitLater, "it gave its frames false numbers");
  if (const auto* leave = std::get_if<muster::Leave>(&message)) CheckLeave(*leave);
  if (machine_) return machine_->Feed(CoordinatorSays{message});
  if (follower_) return follower_->Feed(CoordinatorSays{message});
  if (reader_) return reader_->Feed(CoordinatorSays{message});
  if (const auto* leave = std::get_if<muster::Leave>(&message))
    Leave(leave->exit_code, leave->reason);
  if (const auto* job = std::get_if<JobIs>(&message)) OnJob(*job);
}

// The train thread has not stood still as long as its work has an end; when the process did so, all
// its threads did.
void MemberProcess::CheckLeave(const muster::Leave& leave) {
  if (!absl::StrContains(leave.reason, "thread has stood still")) return;
  if (hangs_) return around_.coverage.Add(Corner::kHungThreads);
  ViolateBusy("was given up");
}

void MemberProcess::ViolateBusy(const std::string& what) {
  around_.trace.Violate(absl::StrCat(place_.job->options.id, " ", place_.id.name, " ", what,
                                     " for a thread that was only busy"));
}

bool MemberProcess::HangTrainThread() {
  const bool has_thread = (machine_ && place_.role == Role::kWorker) || follower_;
  if (!has_thread || std::exchange(hangs_, true)) return false;
  if (follower_)
    follower_->Hang();
  else
    machine_->HangTrainThread();
  return true;
}

// A worker makes its task and finds out the numeric environment, which takes time; a server waits
// for them, and a reader needs none.
void MemberProcess::OnJob(const JobIs& job) {
  const bool can_begin =
      place_.role == Role::kWorker || place_.role == Role::kReader || job.environment.has_value();
  if (!can_begin || std::exchange(preparing_, true)) return;
  place_.job = events_.job();  // it may have been started for one that is deleted
  runner_.Later(around_.schedule.Random(1, 40), [this, job] { BecomeMember(job); });
}

void MemberProcess::BecomeMember(const JobIs& job) {
  if (place_.role == Role::kFollower) {
    follower_ = std::make_unique<FollowerMachine>(
        ConfigFor(job),
        FollowerMachine::Outside{
            &around_.schedule, &runner_, &around_.coverage, place_.job,
            [this](const ToCoordinator& message) { Tell(message); },
            [this](int code, const std::string& reason) { Leave(code, reason); }, Violation()});
    follower_->Feed(CoordinatorSays{job});
    return Introduce();
  }
  if (place_.role == Role::kReader) {
    MemberConfig config = ConfigFor(job);
    config.environment = {};
    reader_ = std::make_unique<ReaderMachine>(
        std::move(config),
        ReaderMachine::Outside{&around_.schedule, &runner_, &around_.coverage, place_.job,
                               [this](const ToCoordinator& message) { Tell(message); },
                               [this](int code, const std::string& reason) { Leave(code, reason); },
                               Violation()});
    reader_->Feed(CoordinatorSays{job});
    return Introduce();
  }
  machine_ = std::make_unique<Machine>(ConfigFor(job), OutsideOf());
  machine_->Feed(CoordinatorSays{job});
  Introduce();
}

std::function<void(const std::string&)> MemberProcess::Violation() {
  return [this](const std::string& what) {
    around_.trace.Violate(absl::StrCat(place_.job->options.id, " ", place_.id.name, ": ", what));
  };
}

MemberConfig MemberProcess::ConfigFor(const JobIs& job) const {
  MemberConfig config;
  config.job = job.job;
  config.start = job.start;
  config.placement = place_.placement;
  config.id = place_.id;
  config.role = place_.role;
  config.node = place_.agent.host;
  config.address = absl::StrCat("node:", place_.node);
  // The layout puts the buffers behind the parameters, as the job's numeric environment list them.
  config.chunks = place_.job->Kinds();
  for (size_t c = 0; c < config.chunks.size(); ++c)
    if (config.chunks[c] == TensorKind::kPhase)
      config.layers[ChunkId(static_cast<int32_t>(c))] = absl::StrCat("layer", c);
  config.slots = place_.job->terms.slots();
  config.fingerprint_every = job.spec.runtime.fingerprint_every;
  config.checkpoint_every = job.spec.runtime.checkpoint.every_steps;
  config.checkpoint_epochs = StepsOfEpochs(job.spec.training, place_.job->environment.samples,
                                           job.spec.runtime.checkpoint.every_epochs);
  config.saves_measured = !job.spec.runtime.checkpoint.keep_best.empty();
  if (!job.spec.runtime.checkpoint.at_end) config.unsaved_end = Step(place_.job->options.steps);
  config.training = job.spec.training;
  config.environment = place_.job->environment;
  return config;
}

// Half of those that the coordinator does not reach, and forms a view without, number their frames
// as if they were in it. Should it reach them in time after all, they end: they may not be in it.
bool MemberProcess::GivesFalseNumbers() const {
  const Incarnation& incarnation = place_.id.incarnation;
  const bool is_liar = !around_.schedule.smooth() && (incarnation.hi + incarnation.lo) % 2 == 0;
  const Network& network = around_.network;
  const int64_t cut_until = std::max(network.CutUntil(place_.node, kCoordinatorNode),
                                     network.CutUntil(kCoordinatorNode, place_.node));
  const auto& journal = place_.job->store.journal;
  return is_liar && cut_until > around_.schedule.now() && journal &&
         journal->number > machine_->member().sealed();
}

Machine::Outside MemberProcess::OutsideOf() {
  Machine::Outside out;
  out.schedule = &around_.schedule;
  out.runner = &runner_;
  out.coverage = &around_.coverage;
  out.job = place_.job;
  out.send = [this](const MemberId& to, SimFrame frame) {
    const SimSessionId session = links_.SessionTo(to);
    if (session == 0) return;
    if (GivesFalseNumbers()) {
      lied_ = true;
      around_.coverage.Add(Corner::kFalseNumbers);
      Renumber(frame.message, place_.job->store.journal->number);
    }
    around_.network.SendWeighed(
        session, place_.node,
        [find = events_.find, from = place_.id, to, session,
         frame = std::move(frame)](Receipt receipt) {
          MemberProcess* process = find(to);
          if (process == nullptr || process->links_.SessionTo(from) != session) return;
          SimFrame came = frame;
          came.receipt = std::move(receipt);
          process->machine_->Deliver(from, std::move(came));
        });
  };
  out.up = [this](const MemberId& peer) { return links_.Up(peer); };
  out.tell = [this](const ToCoordinator& message) { Tell(message); };
  out.connect = [this](const std::vector<ViewMember>& peers) { return links_.Hold(peers); };
  out.step_done = events_.step_done;
  out.at_phase = [this] { events_.at_phase(*this); };
  out.quit = [this](int code, const std::string& reason) { Leave(code, reason); };
  out.violate = Violation();
  return out;
}

}  // namespace muster::sim
