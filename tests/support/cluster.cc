#include "tests/support/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/checkpoint/load.h"
#include "lib/domain/role_name.h"
#include "lib/member/runtime/follower_exchange.h"
#include "lib/member/runtime/reader_exchange.h"
#include "lib/optim/optim.h"
#include "lib/task/counting.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(50);
constexpr std::chrono::seconds kPatience{20};  // only a test that fails waits so long

struct CutOff {};  // thrown where a member would have been killed

Incarnation NewIncarnation() {
  static std::atomic<uint64_t> next{1};
  return {next++, 7};
}

// Hands every frame that is sent to `spoil` first.
class SpoilingSession final : public Session {
 public:
  SpoilingSession(std::shared_ptr<Session> inner, std::function<void(Frame&)> spoil)
      : inner_(std::move(inner)), spoil_(std::move(spoil)) {}
  void Send(Frame frame) override {
    spoil_(frame);
    inner_->Send(std::move(frame));
  }
  void Admit() override { inner_->Admit(); }
  void Close(absl::Status why) override { inner_->Close(std::move(why)); }
  size_t QueuedBytes() const override { return inner_->QueuedBytes(); }
  std::string Peer() const override { return inner_->Peer(); }
  std::optional<PeerName> ProvenPeer() const override { return inner_->ProvenPeer(); }
  std::string ProvenKey() const override { return inner_->ProvenKey(); }

 private:
  const std::shared_ptr<Session> inner_;
  const std::function<void(Frame&)> spoil_;
};

using Bytes = std::shared_ptr<std::atomic<size_t>>;

// In place of the receipt that came with a frame: counts as long as that is held.
struct CountedReceipt {
  CountedReceipt(Receipt of, size_t bytes, Bytes in)
      : inner(std::move(of)), weight(bytes), held(std::move(in)) {
    *held += weight;
  }
  ~CountedReceipt() { *held -= weight; }
  CountedReceipt(const CountedReceipt&) = delete;
  CountedReceipt& operator=(const CountedReceipt&) = delete;
  const Receipt inner;  // given back after it is no longer counted
  const size_t weight;
  const Bytes held;
};

// What waits of one session when its next frame comes; of the coordinator's, nobody asks.
SessionHandler CountHeld(SessionHandler handler, const Bytes& at_most) {
  if (handler.inbound.first_frame != kMaxGreetingBytes) return handler;
  const auto held = std::make_shared<std::atomic<size_t>>(0);
  const auto on_frame = std::move(handler.on_frame);
  handler.on_frame = [on_frame, at_most, held](Frame frame) {
    const size_t before = *held;
    size_t most = *at_most;
    while (most < before && !at_most->compare_exchange_weak(most, before)) {
    }
    const size_t weight = BytesOf(frame) + kFrameWeight;
    frame.receipt = std::make_shared<const CountedReceipt>(std::move(frame.receipt), weight, held);
    on_frame(std::move(frame));
  };
  return handler;
}

// Of a member, as its tests want it: what it sends may be spoiled, what it holds is counted.
class TestTransport final : public Transport {
 public:
  TestTransport(std::unique_ptr<Transport> inner, std::function<void(Frame&)> spoil, Bytes at_most)
      : inner_(std::move(inner)), spoil_(std::move(spoil)), at_most_(std::move(at_most)) {}
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string& address,
                                                   Acceptor acceptor) override {
    return inner_->Listen(address, [this, acceptor](std::shared_ptr<Session> session) {
      return CountHeld(acceptor(Wrap(std::move(session))), at_most_);
    });
  }
  std::shared_ptr<Session> Connect(const std::string& address, Duration timeout,
                                   SessionHandler handler) override {
    return Wrap(inner_->Connect(address, timeout, CountHeld(std::move(handler), at_most_)));
  }

 private:
  std::shared_ptr<Session> Wrap(std::shared_ptr<Session> session) {
    if (!spoil_) return session;
    return std::make_shared<SpoilingSession>(std::move(session), spoil_);
  }
  const std::unique_ptr<Transport> inner_;
  const std::function<void(Frame&)> spoil_;
  const Bytes at_most_;
};

coordinator::Settings TestSettings() {
  coordinator::Settings settings;
  settings.slots = 64;
  settings.lease = std::chrono::seconds(30);  // tests say who is gone
  settings.start_patience = std::chrono::seconds(30);
  return settings;
}

}  // namespace

TestCoordinator::TestCoordinator(LoopNetwork& network, std::string checkpoint_dir)
    : dir_(std::move(checkpoint_dir)),
      transport_(network.MakeTransport("coordinator")),
      machine_("cluster", TermNumber(1), TestSettings(), {}, RealClock().Now()) {
  auto next = std::make_shared<std::atomic<uint64_t>>(1);
  listener_ =
      transport_
          ->Listen("127.0.0.1:0",
                   [box = box_, next](std::shared_ptr<Session> session) {
                     const uint64_t id = (*next)++;
                     session->Admit();
                     box->Post(Came{id, std::move(session), {}, false, {}});
                     return SessionHandler{[box, id](Frame f) {
                                             box->Post(Came{id, {}, std::move(f), false, {}});
                                           },
                                           [box, id](absl::Status) {
                                             box->Post(Came{id, {}, {}, true, {}});
                                           }};
                   })
          .value();
  thread_ = std::thread([this] { Run(); });
}

TestCoordinator::~TestCoordinator() {
  box_->Close();
  thread_.join();
  sessions_.clear();
  listener_.reset();
}

void TestCoordinator::Run() {
  Time next_tick = clock_.Now();
  while (true) {
    std::optional<Came> came = box_->TakeUntil(next_tick);
    if (!came && box_->closed()) return;
    if (came) Handle(*std::move(came));
    if (clock_.Now() < next_tick) continue;
    next_tick = clock_.Now() + kTick;
    Handle(coordinator::Tick{});
  }
}

void TestCoordinator::Handle(Came came) {
  if (came.call) return came.call();
  if (came.opened) sessions_[came.session] = std::move(came.opened);
  if (came.frame) {
    absl::StatusOr<ToCoordinator> message = DecodeToCoordinator(came.frame->header);
    ASSERT_TRUE(message.ok()) << message.status();
    FromMember(came.session, *std::move(message));
  }
  if (!came.broke) return;
  sessions_.erase(came.session);
  waiting_.erase(came.session);
  for (const auto& [id, session] : members_)
    if (session == came.session) return Handle(coordinator::MemberDown{id});
}

void TestCoordinator::FromMember(uint64_t session, ToCoordinator message) {
  if (const auto* ask = std::get_if<AskJob>(&message)) {
    waiting_[session] = {ask->job, false};
    return TellEnvironment();
  }
  if (const auto* join = std::get_if<Join>(&message)) members_[join->id] = session;
  for (const auto& [id, of] : members_)
    if (of == session) return Handle(coordinator::MemberSays{id, std::move(message)});
}

// Every process that asked is answered at once, and again when the numeric environment is there.
void TestCoordinator::TellEnvironment() {
  std::vector<uint64_t> told;
  for (auto& [session, asked] : waiting_) {
    std::optional<JobIs> answer = machine_.jobs().JobOf(asked.job);
    if (!answer || (std::exchange(asked.told, true) && !answer->environment)) continue;
    answer->checkpoint_dir = dir_;
    if (answer->environment) told.push_back(session);
    sessions_[session]->Send({Encode(FromCoordinator(*answer)), {}});
  }
  for (uint64_t session : told) waiting_.erase(session);
}

void TestCoordinator::Handle(const coordinator::Input& input) {
  for (const coordinator::Action& action : machine_.Handle(input, clock_.Now())) Do(action);
  TellEnvironment();
  NoteWhatIsAwaited();
  std::vector<coordinator::Input> more = std::exchange(inputs_, {});
  for (const coordinator::Input& next : more) Handle(next);
}

void TestCoordinator::NoteWhatIsAwaited() {
  for (const coordinator::JobStatus& status : machine_.jobs().Status()) {
    MutexLock lock(mutex_);
    waits_for_ = status.waits_for;
    changed_.NotifyAll();
  }
}

void TestCoordinator::Send(const MemberId& to, const FromCoordinator& message) {
  const auto member = members_.find(to);
  const auto session = member == members_.end() ? sessions_.end() : sessions_.find(member->second);
  if (session != sessions_.end()) session->second->Send({Encode(message), {}});
}

void TestCoordinator::Do(const coordinator::Action& action) {
  MutexLock lock(mutex_);
  if (const auto* job = std::get_if<coordinator::PersistJob>(&action)) {
    jobs_[job->job.id] = job->job;
  } else if (const auto* records = std::get_if<coordinator::PersistRecords>(&action)) {
    records_.insert(records_.end(), records->records.begin(), records->records.end());
  } else if (const auto* tell = std::get_if<coordinator::Announce>(&action)) {
    if (tell->event != "step") told_.push_back(absl::StrCat(tell->event, ": ", tell->text));
  } else if (const auto* commit = std::get_if<coordinator::CommitManifest>(&action)) {
    Manifest manifest = commit->manifest;
    manifest.total_bytes = 0;
    for (const Segment& s : manifest.segments) manifest.total_bytes += s.bytes;
    manifests_.push_back(manifest);
    inputs_.push_back(coordinator::ManifestCommitted{manifest});
  } else if (const auto* digest = std::get_if<coordinator::ComputeDigest>(&action)) {
    const absl::StatusOr<std::string> sum = Digest(*CheckpointFilesIn(dir_), digest->manifest);
    inputs_.push_back(coordinator::DigestDone{digest->job, digest->start, sum.ok() ? *sum : "",
                                              std::string(sum.status().message())});
  } else if (const auto* to = std::get_if<coordinator::ToMember>(&action)) {
    Send(to->member, to->message);
  } else if (const auto* all = std::get_if<coordinator::ToMembers>(&action)) {
    for (const MemberId& id : all->members) Send(id, all->message);
  }
  changed_.NotifyAll();
}

void TestCoordinator::Submit(const std::string& id, const JobSpec& spec) {
  box_->Post({0, {}, {}, false, [this, id, spec] { Handle(coordinator::Submit{id, spec}); }});
}

void TestCoordinator::Killed(const std::string& job, const MemberId& member) {
  ProcessExited exited;
  exited.job = job;
  exited.name = member.name;
  exited.signal = 9;
  exited.cause = "killed by SIGKILL";
  exited.lanes.incarnation = member.incarnation;
  box_->Post({0, {}, {}, false, [this, exited] { Handle(coordinator::AgentSays{exited}); }});
}

template <class F>
void TestCoordinator::Await(F done) {
  MutexLock lock(mutex_);
  const Time until = RealClock().Now() + kPatience;
  while (!done() && changed_.WaitUntil(mutex_, until)) {
  }
  if (done()) return;
  for (const std::string& line : told_) ADD_FAILURE() << line;
  lock.Unlock();
  Explain();
  MUSTER_CHECK(false, "waited in vain; what was told stands above");
}

// What the coordinator and its members wait for, for a test that failed.
void TestCoordinator::Explain() {
  std::promise<void> done;
  box_->Post({0, {}, {}, false, [&] {
                for (const coordinator::JobStatus& status : machine_.jobs().Status()) {
                  ADD_FAILURE() << "waits for: " << status.waits_for;
                  for (const coordinator::MemberStatus& m : status.members)
                    ADD_FAILURE() << m.member.id.name << " (" << m.state << "), step "
                                  << m.step.value() << ": " << m.phase;
                }
                done.set_value();
              }});
  done.get_future().wait();
}

coordinator::JobJournal TestCoordinator::AwaitEnd(const std::string& id) {
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return jobs_.count(id) > 0 && coordinator::Ended(jobs_[id].phase);
  });
  MutexLock lock(mutex_);
  return jobs_[id];
}

void TestCoordinator::AwaitStep(Step step) {
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !records_.empty() && records_.back().step >= step;
  });
}

void TestCoordinator::AwaitWaits(const std::string& wanted) {
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waits_for_ == wanted; });
}

void TestCoordinator::AwaitTold(const std::string& part) {
  Await([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::any_of(told_.begin(), told_.end(),
                       [&](const std::string& line) { return absl::StrContains(line, part); });
  });
}

std::vector<StepRecord> TestCoordinator::records() const {
  MutexLock lock(mutex_);
  return records_;
}
std::vector<Manifest> TestCoordinator::manifests() const {
  MutexLock lock(mutex_);
  return manifests_;
}
std::vector<std::string> TestCoordinator::told() const {
  MutexLock lock(mutex_);
  return told_;
}

// ---- members

TestMember::TestMember(LoopNetwork& network, const std::string& coordinator,
                       TestMemberOptions options)
    : id_{options.name, NewIncarnation()},
      host_(absl::StrCat(options.name, ".", id_.incarnation.hi)),
      transport_(std::make_unique<TestTransport>(network.MakeTransport(host_), options.spoil,
                                                 held_at_most_)),
      metrics_({options.job, NameOfRole(options.role), options.name}, "test"),
      reporter_(-1, options.name),
      failpoints_([this](absl::string_view) {
        fired_ = true;
        throw CutOff();
      }) {
  if (!options.fail_at.empty()) MUSTER_CHECK(failpoints_.Arm(options.fail_at).ok());
  const bool is_in_views = IsInViews(options.role);
  const bool computes = RunsTask(options.role);
  if (is_in_views)
    listener_ = transport_
                    ->Listen(absl::StrCat(options.name, ":0"),
                             PeerSessions::AcceptInto(events_, next_link_, options.held_bytes))
                    .value();
  ExchangeOptions exchange;
  exchange.job = options.job;
  exchange.place = {id_, {}, options.role, "host", is_in_views ? listener_->Address() : ""};
  exchange.coordinator = coordinator;
  exchange.held_bytes = options.held_bytes;
  ExchangeParts parts;
  parts.transport = transport_.get();
  parts.events = events_;
  parts.next_link = next_link_;
  parts.train = computes ? &port_ : nullptr;
  parts.copied = &copied_;
  parts.metrics = &metrics_;
  parts.failpoints = &failpoints_;
  parts.reporter = &reporter_;
  if (options.role == Role::kFollower) {
    lone_ = std::make_unique<FollowerExchange>(exchange, parts);
  } else if (options.role == Role::kReader) {
    lone_ = std::make_unique<ReaderExchange>(exchange, parts, reads_);
  } else {
    exchange_ = std::make_unique<Exchange>(exchange, parts);
  }
  exchange_thread_ = std::thread([this] {
    try {
      exit_code_ = lone_ ? lone_->Run() : exchange_->Run();
    } catch (const CutOff&) {
      port_.box.Close();
    }
    exchange_.reset();  // its sessions break
    lone_.reset();
  });
  if (!computes) return;
  worker::TrainerParts train;
  train.port = &port_;
  train.events = events_;
  train.copied = &copied_;
  train.metrics = &metrics_;
  train.failpoints = &failpoints_;
  train.follows = options.role == Role::kFollower;
  train.make_task = options.make_task;
  if (!train.make_task)
    train.make_task = [](const TrainingSpec& training, DataPart, const auto&) {
      return MakeCounting(training);
    };
  trainer_ = std::make_unique<worker::Trainer>(train);
  train_thread_ = std::thread([this] {
    try {
      trainer_->Run();
    } catch (const CutOff&) {
      events_->Post(StopAsked{137, "cut off"});
    }
  });
}

TestMember::~TestMember() { Kill(); }

void TestMember::Kill() {
  events_->Post(StopAsked{137, "cut off"});
  AwaitExit();
}

int TestMember::AwaitExit() {
  if (exchange_thread_.joinable()) exchange_thread_.join();
  port_.box.Close();
  if (train_thread_.joinable()) train_thread_.join();
  listener_.reset();
  return exit_code_;
}

void TestMember::AwaitFired() {
  AwaitExit();
  EXPECT_TRUE(fired_) << "the failpoint was never reached";
}

}  // namespace muster
