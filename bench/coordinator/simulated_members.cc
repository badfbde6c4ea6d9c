#include "bench/coordinator/simulated_members.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/domain/samples.h"
#include "lib/wire/message_codec.h"
#include "muster/v1/membership.pb.h"

namespace muster::bench {
namespace {

constexpr uint64_t kSamples = 1'000'000;
constexpr Duration kConnectTimeout = std::chrono::seconds(30);
constexpr Duration kPumpEvery = std::chrono::milliseconds(5);
constexpr size_t kSmallFrame = 4096;

// A message with one field set begins with that field's number.
bool IsKind(const std::string& header, int field) {
  const int first = header.empty() ? 0 : static_cast<unsigned char>(header[0]);
  return first >> 3 == field && field < 16;
}

NumericEnvironment EnvironmentOf(const Simulation& simulation, const JobSpec& spec) {
  const int64_t elements = simulation.chunks * spec.training.chunk_bytes / int64_t{sizeof(float)};
  return {kSamples, "made", {{"weights", {elements}, TensorKind::kParameter}}, {{"isa", "any"}}};
}

Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace

JobSpec SpecOf(const Simulation& simulation) {
  JobSpec spec;
  spec.training.task = "counting";
  spec.training.lanes = simulation.members;
  spec.training.batch = simulation.members;
  spec.training.steps = 1'000'000;
  spec.training.data.samples = kSamples;
  spec.training.reduction = Reduction::kSum;
  spec.training.optimizer.learning_rate = 1;
  spec.runtime.name = simulation.job;
  spec.runtime.workers_max = simulation.members;
  spec.runtime.checkpoint.every_seconds = 0;
  spec.runtime.fingerprint_every = 0;
  return spec;
}

SimulatedMembers::SimulatedMembers(Simulation simulation, std::string address)
    : simulation_(std::move(simulation)),
      address_(std::move(address)),
      spec_(SpecOf(simulation_)),
      environment_(EnvironmentOf(simulation_, spec_)),
      transport_(MakeGrpcTransport({})),
      members_(static_cast<size_t>(simulation_.members)),
      left_(simulation_.members) {
  for (size_t i = 0; i < members_.size(); ++i) {
    members_[i].id = {absl::StrCat("worker-", i), {Mix64(i + 1), i + 1}};
    members_[i].backoff = Backoff(i);
  }
}

SimulatedMembers::~SimulatedMembers() {
  std::vector<std::shared_ptr<Session>> sessions;
  {
    MutexLock lock(mutex_);
    restarting_ = true;
    for (Member& member : members_) {
      member.gone = true;
      sessions.push_back(std::move(member.session));
    }
  }
  for (auto& session : sessions)
    if (session) session->Close(absl::CancelledError("the benchmark is over"));
}

bool SimulatedMembers::Connect(Duration patience) {
  for (size_t i = 0; i < static_cast<size_t>(simulation_.members); ++i) Open(i);
  return Until(Goal::kAllAsked, Now() + patience);
}

bool SimulatedMembers::JoinAll(Duration patience) {
  const Duration pace = simulation_.lease / 3;
  for (size_t i = 0; i < static_cast<size_t>(simulation_.members); ++i) {
    std::string join;
    std::shared_ptr<Session> session;
    {
      MutexLock lock(mutex_);
      Member& member = members_[i];
      member.joined = true;
      member.alive_at = Now() + pace * static_cast<int64_t>(i + 1) / simulation_.members;
      join = JoinOf(member);
      session = member.session;
    }
    if (session) session->Send({std::move(join), {}});
    ++sent_;
  }
  return AwaitActive(patience);
}

bool SimulatedMembers::Live(Duration time, Duration step_time) {
  step_at_ = Now();
  Until(Goal::kNone, Now() + time, step_time);
  return Trouble().empty();
}

void SimulatedMembers::LoseOne() {
  std::shared_ptr<Session> session;
  {
    MutexLock lock(mutex_);
    Member& last = members_.back();
    last.gone = true;
    session = std::move(last.session);
    --left_;
    if (std::exchange(last.active, false)) --active_;
    sealed_ = false;
  }
  session->Close(absl::CancelledError("lost on purpose"));
}

bool SimulatedMembers::AwaitSeal(Duration patience) {
  return Until(Goal::kSealed, Now() + patience);
}

bool SimulatedMembers::AwaitActive(Duration patience) {
  return Until(Goal::kAllActive, Now() + patience);
}

void SimulatedMembers::ExpectRestart() {
  MutexLock lock(mutex_);
  restarting_ = true;
  for (Member& member : members_) member.active = false;
  active_ = 0;
}

std::vector<double> SimulatedMembers::CollectAckTimes() {
  MutexLock lock(mutex_);
  return std::exchange(ack_times_, {});
}

std::string SimulatedMembers::Trouble() const {
  MutexLock lock(mutex_);
  if (broken_ == 0 && sent_away_ == 0) return "";
  return absl::StrCat(broken_, " sessions broke and ", sent_away_,
                      " members were sent away; the last: ", last_trouble_);
}

SessionHandler SimulatedMembers::HandlerOf(size_t index) {
  return {[this, index](const Frame& frame) { OnFrame(index, frame); },
          [this, index](const absl::Status& why) { OnBroken(index, why); }};
}

void SimulatedMembers::Open(size_t index) {
  std::string first;
  {
    // Whoever has joined says so again, as real members do; others ask for their job first.
    MutexLock lock(mutex_);
    Member& member = members_[index];
    member.connect_at.reset();
    first = member.joined ? JoinOf(member)
                          : Encode(ToCoordinator(AskJob{simulation_.job, member.id.name}));
  }
  auto session = transport_->Connect(address_, kConnectTimeout, HandlerOf(index));
  session->Send({std::move(first), {}});
  ++sent_;
  MutexLock lock(mutex_);
  members_[index].session = std::move(session);
}

std::string SimulatedMembers::JoinOf(const Member& member) const {
  Join join{.job = simulation_.job,
            .start = member.start,
            .id = member.id,
            .role = Role::kWorker,
            .node = "here"};
  join.address = absl::StrCat(member.id.name, ":1");
  join.environment = environment_;
  join.sealed = member.sealed;
  join.term = member.term;
  if (member.in_view) join.active = member.sealed;
  return Encode(ToCoordinator(join));
}

void SimulatedMembers::OnFrame(size_t index, const Frame& frame) {
  std::string answer;
  std::shared_ptr<Session> session;
  bool news = false;
  {
    MutexLock lock(mutex_);
    if (members_[index].gone) return;
    answer = Answer(index, frame.header);
    session = members_[index].session;
    news = active_ == left_ || asked_ == simulation_.members;
  }
  if (news) changed_.NotifyOne();
  if (!answer.empty() && session) session->Send({std::move(answer), {}});
}

std::string SimulatedMembers::Answer(size_t index, const std::string& header) {
  using Kind = v1::MemberFrame;
  Member& member = members_[index];
  member.backoff.Reset();
  if (IsKind(header, Kind::kHealFieldNumber))
    return Encode(ToCoordinator(HoldsBase{member.sealed, 0}));
  if (IsKind(header, Kind::kActivateFieldNumber)) {
    Activated(index, header);
    return "";
  }
  if (IsKind(header, Kind::kViewStandsFieldNumber)) {
    if (!std::exchange(member.active, true)) ++active_;
    return "";
  }
  if (IsKind(header, Kind::kJobIsFieldNumber)) {
    if (std::exchange(member.asked, true)) return "";
    ++asked_;
    const absl::StatusOr<FromCoordinator> message = DecodeFromCoordinator(header);
    if (message.ok()) member.start = std::get<JobIs>(*message).start;
    return "";
  }
  if (header.size() > kSmallFrame) return "";
  const absl::StatusOr<FromCoordinator> message = DecodeFromCoordinator(header);
  if (!message.ok()) return "";
  if (const Seal* seal = std::get_if<Seal>(&*message)) return AnswerSeal(member, *seal);
  if (const AckRecords* ack = std::get_if<AckRecords>(&*message); ack && ack->below == next_step_)
    ack_times_.push_back(Seconds(Now() - records_sent_));
  if (const Leave* leave = std::get_if<Leave>(&*message)) {
    ++sent_away_;
    last_trouble_ = leave->reason;
    member.gone = true;
    --left_;
    if (std::exchange(member.active, false)) --active_;
  }
  return "";
}

std::string SimulatedMembers::AnswerSeal(Member& member, const Seal& seal) {
  if (!std::exchange(sealed_, true)) changed_.NotifyOne();
  member.sealed = seal.view;
  member.term = seal.term;
  member.in_view = false;
  if (std::exchange(member.active, false)) --active_;
  Sealed sealed{seal.view, {}};
  if (view_.number > ViewNumber(0)) {
    sealed.local_state.has_state = true;
    sealed.local_state.lineage = view_.lineage;
    sealed.local_state.step = next_step_;
    sealed.local_state.previous_results = true;
  }
  return Encode(ToCoordinator(sealed));
}

void SimulatedMembers::Activated(size_t index, const std::string& header) {
  Member& member = members_[index];
  member.in_view = true;
  if (!std::exchange(member.active, true)) ++active_;
  if (index != 0) return;
  absl::StatusOr<FromCoordinator> message = DecodeFromCoordinator(header);
  if (!message.ok()) return;
  view_ = std::move(std::get<Activate>(*message).view);
  next_step_ = std::max(next_step_, view_.first_step);
}

void SimulatedMembers::OnBroken(size_t index, const absl::Status& why) {
  std::shared_ptr<Session> ended;  // let go of without the lock
  MutexLock lock(mutex_);
  Member& member = members_[index];
  if (member.gone) return;
  ended = std::move(member.session);
  if (std::exchange(member.active, false)) --active_;
  member.connect_at = Now() + member.backoff.Next();
  if (restarting_) return;
  ++broken_;
  last_trouble_ = why.ToString();
}

// The record of the open step, from everybody at once, as after a step that all finish together.
void SimulatedMembers::SendRecords(Time now) {
  std::vector<std::shared_ptr<Session>> sessions;
  StepRecord record;
  {
    MutexLock lock(mutex_);
    if (active_ != left_ || view_.number == ViewNumber(0)) return;
    record = {.lineage = view_.lineage, .step = next_step_, .view = view_.number};
    record.samples = StepSamples(spec_.training, kSamples, next_step_);
    record.weight = static_cast<int64_t>(record.samples.count);
    record.loss = static_cast<double>(record.weight);
    ++next_step_;
    records_sent_ = now;
    for (const Member& member : members_)
      if (member.active && member.session) sessions.push_back(member.session);
  }
  const auto header =
      std::make_shared<const std::string>(Encode(ToCoordinator(Records{{std::move(record)}})));
  for (const auto& session : sessions) session->Send(FrameOfMany(header));
  sent_ += static_cast<int64_t>(sessions.size());
}

void SimulatedMembers::Pump(Time now) {
  std::vector<size_t> connect;
  std::vector<std::shared_ptr<Session>> due;
  Step step;
  {
    MutexLock lock(mutex_);
    step = next_step_;
    for (size_t i = 0; i < members_.size(); ++i) {
      Member& member = members_[i];
      if (member.gone) continue;
      if (member.connect_at && *member.connect_at <= now) connect.push_back(i);
      if (!member.joined || !member.session || member.alive_at > now) continue;
      member.alive_at = now + simulation_.lease / 3;
      due.push_back(member.session);
    }
  }
  const auto alive = std::make_shared<const std::string>(
      Encode(ToCoordinator(Alive{step, "waiting for results"})));
  for (const auto& session : due) session->Send(FrameOfMany(alive));
  sent_ += static_cast<int64_t>(due.size());
  for (const size_t index : connect) Open(index);
}

bool SimulatedMembers::Reached(Goal goal) const {
  switch (goal) {
    case Goal::kNone: return false;
    case Goal::kAllAsked: return asked_ == simulation_.members;
    case Goal::kSealed: return sealed_;
    case Goal::kAllActive: return active_ == left_;
  }
  return false;
}

bool SimulatedMembers::Until(Goal goal, Time deadline, Duration step_time) {
  while (true) {
    const Time now = Now();
    Pump(now);
    if (step_time > Duration(0) && now >= step_at_) {
      step_at_ += step_time;
      SendRecords(now);
    }
    MutexLock lock(mutex_);
    if (Reached(goal)) return true;
    if (now >= deadline) return false;
    changed_.WaitUntil(mutex_, std::min(deadline, now + kPumpEvery));
  }
}

}  // namespace muster::bench
