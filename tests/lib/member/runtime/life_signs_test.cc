#include "lib/member/runtime/life_signs.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/clock.h"
#include "lib/base/mailbox.h"
#include "lib/member/runtime/exchange.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kEvery = milliseconds(1);
constexpr Duration kLong = seconds(60);  // for a test to fail rather than hang

// Keeps what a member says to the coordinator.
class Heard final : public Session {
 public:
  void Send(Frame frame) override { said_->Post(DecodeToCoordinator(frame.header).value()); }
  void Admit() override {}
  void Close(absl::Status) override {}
  size_t QueuedBytes() const override { return 0; }
  std::string Peer() const override { return "the coordinator"; }

  // The next word of that kind.
  template <class M>
  std::optional<M> Await() {
    const Time deadline = RealClock().Now() + kLong;
    while (std::optional<ToCoordinator> message = said_->TakeUntil(deadline))
      if (auto* wanted = std::get_if<M>(&*message)) return std::move(*wanted);
    return std::nullopt;
  }

 private:
  const std::unique_ptr<Mailbox<ToCoordinator>> said_ = std::make_unique<Mailbox<ToCoordinator>>();
};

TEST(ThreadProgress, IsTheTimeSinceAThreadWithWorkWentOn) {
  ThreadProgress progress("train");
  const Time start = Time{} + seconds(100);
  EXPECT_FALSE(progress.Age(start)) << "it has no work yet";
  progress.GoesOn(start);
  ASSERT_TRUE(progress.Age(start + seconds(7)));
  EXPECT_EQ(progress.Age(start + seconds(7)), seconds(7));
  EXPECT_EQ(progress.Age(start - seconds(1)), seconds(0)) << "it went on since the clock was read";
  progress.GoesOn(start + seconds(7));
  EXPECT_EQ(progress.Age(start + seconds(8)), seconds(1));
  progress.Rests();
  EXPECT_FALSE(progress.Age(start + seconds(1000))) << "an idle thread is no hung one";
}

// The machine slept for an hour.
TEST(ThreadAges, DoNotCountWhatTheWholeProcessStoodStill) {
  const Time start = Time{} + seconds(100);
  ThreadProgress train("train"), exchange("exchange"), idle("idle");
  OwnGaps gaps(seconds(1), start);
  train.GoesOn(start);
  const auto ages_at = [&](Duration after) {
    gaps.Wake(start + after);
    std::vector<std::pair<std::string, double>> ages;
    for (const ThreadAge& age : AgesOf({&train, &exchange, &idle}, gaps, start + after))
      ages.emplace_back(age.thread, age.seconds);
    return ages;
  };
  using Ages = std::vector<std::pair<std::string, double>>;
  EXPECT_EQ(ages_at(seconds(1)), (Ages{{"train", 1}}));
  exchange.GoesOn(start + seconds(3600));
  EXPECT_EQ(ages_at(seconds(3601)), (Ages{{"train", 0}, {"exchange", 0}}));
  EXPECT_EQ(ages_at(seconds(3602)), (Ages{{"train", 1}, {"exchange", 1}}));
  exchange.GoesOn(start + seconds(3602));
  EXPECT_EQ(ages_at(seconds(3603)), (Ages{{"train", 2}, {"exchange", 1}})) << "it may hang";
}

TEST(LifeSigns, TellWhatIsDoneAndHowLongThreadsHaveStoodStill) {
  ThreadProgress train("train"), exchange("exchange");
  train.GoesOn(RealClock().Now() - seconds(50));
  LifeSigns signs({kEvery, seconds(1000), {}}, {&train, &exchange});
  signs.Note(Step(4), "applying", {ViewNumber(3), {1}}, RealClock().Now() + seconds(1000));
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  for (int i = 0; i < 3; ++i) {
    const std::optional<Alive> alive = heard->Await<Alive>();
    ASSERT_TRUE(alive);
    EXPECT_EQ(alive->step, Step(4));
    EXPECT_EQ(alive->phase, "applying");
    EXPECT_EQ(alive->unreachable, (Unreachable{ViewNumber(3), {1}}));
    ASSERT_EQ(alive->threads.size(), 1u) << "the exchange thread has no work";
    EXPECT_EQ(alive->threads[0].thread, "train");
    EXPECT_GE(alive->threads[0].seconds, 50);
  }
}

// The exchange thread is busy with something else: peers may have come back meanwhile.
TEST(LifeSigns, NameNobodyOfWhomNothingIsKnownAnyMore) {
  LifeSigns signs({kEvery, seconds(1000), {}}, {});
  signs.Note(Step(4), "applying", {ViewNumber(3), {1}}, RealClock().Now() - 3 * kEvery);
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  const std::optional<Alive> alive = heard->Await<Alive>();
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->unreachable, Unreachable());
}

// Each time, however long it is until the next sign is due.
TEST(LifeSigns, NewsAreSaidAtOnce) {
  LifeSigns signs({seconds(1000), seconds(1000), {}}, {});
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  for (int32_t lost = 1; lost <= 3; ++lost) {
    const Unreachable expected{ViewNumber(3), {lost}};
    signs.Note(Step(4), "computing", expected, RealClock().Now() + seconds(1000));
    signs.SayNow();
    // What was news before is said again meanwhile, as somebody is still unreachable.
    std::optional<Alive> alive = heard->Await<Alive>();
    while (alive && alive->unreachable != expected) alive = heard->Await<Alive>();
    ASSERT_TRUE(alive);
  }
}

// The coordinator counts from word to word how long.
TEST(LifeSigns, WhoeverMissesOthersSaysSoAgainAndAgain) {
  LifeSigns signs({seconds(1000), seconds(1000), {}}, {});
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  signs.Note(Step(4), "computing", {ViewNumber(3), {1}}, RealClock().Now() + seconds(1000));
  signs.SayNow();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(heard->Await<Alive>());
}

TEST(LifeSigns, AThreadThatHangsIsToldOnce) {
  ThreadProgress train("train");
  train.GoesOn(RealClock().Now() - seconds(50));
  Mailbox<ThreadAge> hung;
  LifeSigns signs({kEvery, seconds(40), [&](const ThreadAge& age) { hung.Post(age); }}, {&train});
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  const std::optional<ThreadAge> told = hung.TakeUntil(RealClock().Now() + kLong);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->thread, "train");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(heard->Await<Alive>());
  EXPECT_EQ(hung.size(), 0u);
}

// A task that never comes back from its constructor: its worker has never joined.
TEST(LifeSigns, AThreadThatHangsIsToldWithoutAnySession) {
  ThreadProgress train("train");
  train.GoesOn(RealClock().Now() - seconds(50));
  Mailbox<ThreadAge> hung;
  const LifeSigns signs({kEvery, seconds(40), [&](const ThreadAge& age) { hung.Post(age); }},
                        {&train});
  ASSERT_TRUE(hung.TakeUntil(RealClock().Now() + kLong));
}

TEST(ThreadProgress, SaysInWhatItStandsStill) {
  EXPECT_EQ(WhyItHangs({"train", 125.2}, ""), "its train thread has stood still for 125 s");
  EXPECT_EQ(WhyItHangs({"train", 125.2}, "task mlp of plug-in /opt/mlp.so"),
            "nothing has gone on for 125 s in task mlp of plug-in /opt/mlp.so: its constructor, a "
            "first pass through its model or what it prepares has not returned; where it needs so "
            "long, give the job a larger thread_patience");
}

TEST(LifeSigns, ADiskThatHangsIsToldAndEndsNobody) {
  ThreadProgress writer(kCheckpointThread);
  writer.GoesOn(RealClock().Now() - seconds(50));
  Mailbox<ThreadAge> hung;
  LifeSigns signs({kEvery, seconds(40), [&](const ThreadAge& age) { hung.Post(age); }}, {&writer});
  const auto heard = std::make_shared<Heard>();
  signs.SayTo(heard);
  for (int i = 0; i < 3; ++i) {
    const std::optional<Alive> alive = heard->Await<Alive>();
    ASSERT_TRUE(alive);
    ASSERT_EQ(alive->threads.size(), 1u);
    EXPECT_EQ(alive->threads[0].thread, kCheckpointThread);
    EXPECT_GE(alive->threads[0].seconds, 50);
  }
  EXPECT_EQ(hung.size(), 0u);
}

TEST(LifeSigns, AJobMayAskForMorePatience) {
  for (const Duration asked : {Duration(seconds(1)), Duration(seconds(1000))}) {
    ThreadProgress train("train");
    Mailbox<ThreadAge> hung;
    LifeSigns signs({kEvery, seconds(40), [&](const ThreadAge& age) { hung.Post(age); }}, {&train});
    signs.BePatient(asked);
    train.GoesOn(RealClock().Now() - seconds(50));
    const auto heard = std::make_shared<Heard>();
    signs.SayTo(heard);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(heard->Await<Alive>());
    EXPECT_EQ(hung.size(), asked < seconds(40) ? 1u : 0u);
  }
}

// A transport whose only session is the one to the coordinator.
class OneSession final : public Transport {
 public:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const std::string&, Acceptor) override {
    return absl::UnimplementedError("not here");
  }
  std::shared_ptr<Session> Connect(const std::string&, Duration, SessionHandler handler) override {
    handler_ = std::move(handler);
    return heard;
  }
  void Says(const FromCoordinator& message) { handler_.on_frame({Encode(message), Payload()}); }

  const std::shared_ptr<Heard> heard = std::make_shared<Heard>();

 private:
  SessionHandler handler_;
};

// Holds a thread until it is let go.
class Gate {
 public:
  void Pass() {
    MutexLock lock(mutex_);
    while (!open_) changed_.Wait(mutex_);
  }
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// Copying, clearing and loading a large state takes the exchange thread longer than a lease.
TEST(Exchange, AMemberWhoseExchangeThreadIsBusyIsNotSilent) {
  Gate gate;
  Failpoints failpoints([&](absl::string_view) { gate.Pass(); });
  ASSERT_TRUE(failpoints.Arm("sealed_unanswered:1").ok());
  OneSession transport;
  Metrics metrics({"job", "server", "server-0"}, "test");
  CopyCounter copied{0};
  const Reporter reporter(-1, "server-0");
  ExchangeOptions options;
  options.job = "job";
  options.place = {{"server-0", {1, 1}}, {}, Role::kServer, "host", "server-0:1"};
  options.coordinator = "coordinator";
  options.lease = 3 * kEvery;
  ExchangeParts parts;
  parts.transport = &transport;
  parts.events = std::make_shared<EventBox>();
  parts.next_link = std::make_shared<std::atomic<LinkId>>(1);
  parts.copied = &copied;
  parts.metrics = &metrics;
  parts.failpoints = &failpoints;
  parts.reporter = &reporter;
  Exchange exchange(options, parts);
  std::thread thread([&] { exchange.Run(); });
  EXPECT_TRUE(transport.heard->Await<AskJob>());
  JobIs job;
  job.job = "job";
  job.cluster = "cluster";
  job.spec.training.task = "counting";
  job.spec.training.steps = 1;
  job.spec.training.sync = Sync::kServer;
  job.spec.runtime.servers = 1;
  job.checkpoint_dir = testing::TempDir();
  job.environment.emplace();
  job.environment->samples = 1;
  job.environment->tensors = {{"weight", {10}, TensorKind::kParameter}};
  transport.Says(job);
  EXPECT_TRUE(transport.heard->Await<Join>());
  transport.Says(Seal{TermNumber(1), ViewNumber(1)});
  double still = 0;  // grows as long as the thread is held
  while (still < 10 * Seconds(kEvery)) {
    const std::optional<Alive> alive = transport.heard->Await<Alive>();
    EXPECT_TRUE(alive) << "it is busy, and so it is silent";
    if (!alive) break;
    still = alive->threads.empty() ? 0 : alive->threads.front().seconds;
  }
  gate.Open();
  EXPECT_TRUE(transport.heard->Await<Sealed>());
  parts.events->Post(StopAsked{0, "the test ends"});
  thread.join();
}

}  // namespace
}  // namespace muster
