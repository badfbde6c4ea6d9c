#include "lib/member/runtime/peer_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/transport/loop/loop_network.h"
#include "lib/wire/message_codec.h"

namespace muster {
namespace {

// A member's sessions on a pumped network and a clock moved by hand: nothing happens by itself.
class Node {
 public:
  Node(LoopNetwork& network, const std::string& name, uint64_t incarnation,
       const std::string& job = "job", std::optional<PeerName> own = std::nullopt,
       size_t most_waiting = kMostWaiting)
      : network_(network),
        id_{name, {incarnation, 1}},
        transport_(network.MakeTransport(name + "." + std::to_string(incarnation), std::move(own))),
        sessions_(std::make_unique<PeerSessions>(
            *transport_, events_, next_,
            PeerSessions::Options{.job = job, .me = id_, .most_waiting = most_waiting})) {
    listener_ = transport_->Listen(name + ":0", PeerSessions::AcceptInto(events_, next_)).value();
  }

  ViewMember member() const {
    return {id_, Role::kWorker, "host", listener_->Address(), Rank(0), 0};
  }
  const MemberId& id() const { return id_; }
  EventBox& events() { return *events_; }
  PeerSessions& operator*() { return *sessions_; }
  PeerSessions* operator->() { return sessions_.get(); }

  // Delivers everything that is due here; what it led to, in words.
  void Settle(std::vector<std::string>& trace, Time now) {
    while (std::optional<Event> event = events_->TryTake()) {
      PeerSessions::News news;
      if (auto* accepted = std::get_if<SessionAccepted>(&*event)) {
        sessions_->Accept(std::move(*accepted), now);
      } else if (auto* frame = std::get_if<FrameCame>(&*event)) {
        news = sessions_->Handle(std::move(*frame), now);
      } else if (auto* broke = std::get_if<SessionBroke>(&*event)) {
        news = sessions_->Handle(*broke, now);
      }
      if (news.down) trace.push_back(id_.name + ": " + news.down->name + " down");
      if (news.up) trace.push_back(id_.name + ": " + news.up->name + " up");
      if (news.said) trace.push_back(id_.name + ": " + news.said->name + " said");
    }
  }

 private:
  LoopNetwork& network_;
  const MemberId id_;
  std::shared_ptr<EventBox> events_ = std::make_shared<EventBox>();
  std::shared_ptr<std::atomic<LinkId>> next_ = std::make_shared<std::atomic<LinkId>>(1);
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<PeerSessions> sessions_;
  std::unique_ptr<Listener> listener_;
};

class SessionsTest : public testing::Test {
 protected:
  std::vector<std::string> Settle() {
    std::vector<std::string> trace;
    for (bool more = true; more;) {
      more = network_.Pump();
      a_.Settle(trace, now_);
      b_.Settle(trace, now_);
    }
    return trace;
  }
  // Also what is sent because of what was dealt with last.
  std::vector<std::string> SettleAll() {
    std::vector<std::string> trace;
    for (int round = 0; round < 4; ++round)
      for (std::string& line : Settle()) trace.push_back(std::move(line));
    return trace;
  }
  void Meet() {
    a_->Hold({a_.member(), b_.member()}, now_);
    b_->Hold({a_.member(), b_.member()}, now_);
  }
  std::vector<std::string> Later(Duration by) {
    now_ += by;
    a_->Tick(now_);
    b_->Tick(now_);
    return Settle();
  }

  LoopNetwork network_{LoopNetwork::Delivery::kPumped};
  Node a_{network_, "a", 1};
  Node b_{network_, "b", 2};
  Time now_{std::chrono::hours(1)};
};

TEST_F(SessionsTest, BothAreUpOnceGreetedAndSpeak) {
  Meet();
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b up", "b: a up"));
  b_->Send(a_.id(), {Encode(PeerMessage(GlobalNorm{})), {}});
  a_->Send(b_.id(), {Encode(PeerMessage(GlobalNorm{})), {}});
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b said", "b: a said"));
}

TEST_F(SessionsTest, OnlyTheSmallerOneConnects) {
  b_->Hold({a_.member(), b_.member()}, now_);
  EXPECT_TRUE(Settle().empty());
  a_->Hold({a_.member(), b_.member()}, now_);
  EXPECT_EQ(Settle().size(), 2u);
}

TEST_F(SessionsTest, ABrokenSessionIsConnectedAgainAfterAWait) {
  Meet();
  Settle();
  network_.Break("a.1", "b.2");
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b down", "b: a down"));
  EXPECT_LE(a_->NextTick(), now_ + Backoff::kFirst);
  EXPECT_GT(a_->NextTick(), now_);
  EXPECT_TRUE(Later(Duration(1)).empty()) << "not at once";
  EXPECT_THAT(Later(Backoff::kFirst), testing::UnorderedElementsAre("a: b up", "b: a up"));
}

TEST_F(SessionsTest, WaitsGrowWhileNobodyAnswers) {
  Meet();
  Settle();
  network_.Cut("a.1", "b.2");
  Settle();
  Duration longest{};
  for (int attempt = 0; attempt < 12; ++attempt) {
    const Duration wait = a_->NextTick() - now_;
    longest = std::max(longest, wait);
    EXPECT_LE(wait, Backoff::kLongest);
    Later(wait);
  }
  EXPECT_GE(longest, Backoff::kLongest / 2);
  network_.Heal("a.1", "b.2");
  EXPECT_THAT(Later(Backoff::kLongest), testing::UnorderedElementsAre("a: b up", "b: a up"));
}

TEST_F(SessionsTest, WhoIsNoLongerListedIsClosedAndNotCalledAgain) {
  Meet();
  Settle();
  EXPECT_THAT(a_->Hold({a_.member()}, now_), testing::ElementsAre(b_.id()));
  EXPECT_THAT(Settle(), testing::ElementsAre("b: a down"));
  EXPECT_TRUE(Later(std::chrono::seconds(10)).empty());
  EXPECT_FALSE(a_->Up(b_.id()));
}

TEST_F(SessionsTest, AGreetingForSomebodyElseOrOfAnotherJobIsRefused) {
  Node stranger(network_, "A", 3, "another job");
  stranger->Hold({b_.member()}, now_);
  Settle();
  std::vector<std::string> trace;
  stranger.Settle(trace, now_);
  EXPECT_TRUE(trace.empty());
  EXPECT_EQ(b_->refused(), 1);

  ViewMember late = b_.member();
  late.id.incarnation = {9, 9};  // the one we look for is gone; another listens there
  a_->Hold({late}, now_);
  EXPECT_TRUE(Settle().empty());
  EXPECT_EQ(b_->refused(), 2);
}

TEST_F(SessionsTest, GarbageBreaksTheSessionAndIsCounted) {
  Meet();
  Settle();
  b_->Send(a_.id(), {"no message at all", {}});
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b down", "b: a down"));
  EXPECT_EQ(a_->refused(), 1);
  EXPECT_THAT(Later(Backoff::kFirst), testing::UnorderedElementsAre("a: b up", "b: a up"));
}

TEST_F(SessionsTest, ASecondGreetingBreaksTheSession) {
  Meet();
  Settle();
  b_->Send(a_.id(), {Encode(PeerMessage(Hello{"job", b_.id(), a_.id()})), {}});
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b down", "b: a down"));
}

// However much is sent to a member that is busy with something else, it holds a fixed number of
// bytes of it, and what does not come from peers is taken first.
TEST_F(SessionsTest, ABusyMemberHoldsLittleOfWhatItsPeerSendsAndGetsItAllInTheEnd) {
  constexpr int kFrames = 100;
  Meet();
  Settle();
  const std::vector<std::byte> megabyte(size_t{1} << 20);
  const std::string header = Encode(PeerMessage(GlobalNorm{}));
  for (int i = 0; i < kFrames; ++i) b_->Send(a_.id(), {header, {.slices = {megabyte}, .keep = {}}});
  while (network_.Pump()) {
  }
  EXPECT_EQ(a_.events().size(), 8u) << "of 1 MiB each";
  EXPECT_GT(b_->QueuedBytes(), 91u << 20);
  a_.events().Post(StopAsked{0, "control"});
  const std::optional<Event> first = a_.events().TryTake();
  EXPECT_TRUE(first && std::holds_alternative<StopAsked>(*first));
  std::vector<std::string> said;
  for (size_t before = SIZE_MAX; std::exchange(before, said.size()) != said.size();)
    for (std::string& line : Settle()) said.push_back(std::move(line));
  EXPECT_EQ(said, std::vector<std::string>(kFrames, "a: b said"));
  EXPECT_EQ(b_->QueuedBytes(), 0u);
}

TEST_F(SessionsTest, AStrangerSaysOneSmallFrame) {
  struct Row {
    std::string name;
    size_t bytes;  // of each of many frames
  };
  for (const Row& row : {Row{"large", size_t{1} << 20}, Row{"small", kMaxGreetingBytes}}) {
    const auto transport = network_.MakeTransport("stranger " + row.name);
    absl::Status broken;
    const auto session =
        transport->Connect(b_.member().address, std::chrono::seconds(1),
                           {[](Frame) {}, [&](absl::Status why) { broken = std::move(why); }});
    for (size_t sent = 0; sent < size_t{64} << 20; sent += row.bytes)
      session->Send({std::string(row.bytes, 'x'), {}});
    const uint64_t before = network_.counters().bytes_received;
    while (network_.Pump()) {
    }
    EXPECT_LE(network_.counters().bytes_received - before, kMaxGreetingBytes) << row.name;
    Settle();  // it is read, and refused
    Settle();  // the stranger is told
    EXPECT_FALSE(broken.ok()) << row.name;
    EXPECT_EQ(session->QueuedBytes(), 0u) << row.name;
  }
}

TEST_F(SessionsTest, OfAStrangerNothingButItsGreetingIsRead) {
  const auto transport = network_.MakeTransport("stranger");
  absl::Status broken;
  const auto session =
      transport->Connect(b_.member().address, std::chrono::seconds(1),
                         {[](Frame) {}, [&](absl::Status why) { broken = std::move(why); }});
  Pieces pieces;
  pieces.record = StepRecord{};
  session->Send({Encode(PeerMessage(pieces)), {}});
  Settle();
  Settle();  // the stranger is told
  EXPECT_THAT(std::string(broken.message()), testing::HasSubstr("and nothing else"));
  EXPECT_EQ(b_->refused(), 1);
}

PeerName Proving(const std::string& name, uint64_t incarnation) {
  return {"c1", MemberPeer{"job", name, PlacementNumber(3), {incarnation, 1}}};
}

// Three pairs that differ in one name: two that are who they say, one who greets as another, and
// one who is called as another.
TEST_F(SessionsTest, WhereThereAreCertificatesMembersSpeakForThemselves) {
  struct Row {
    PeerName caller, called;
    size_t up;
  };
  for (const Row& row :
       {Row{Proving("c", 1), Proving("d", 2), 2}, Row{Proving("c", 9), Proving("d", 2), 0},
        Row{Proving("c", 1), Proving("e", 2), 0}}) {
    Node c(network_, "c", 1, "job", row.caller), d(network_, "d", 2, "job", row.called);
    c->Hold({c.member(), d.member()}, now_);
    d->Hold({c.member(), d.member()}, now_);
    std::vector<std::string> trace;
    for (bool more = true; more;) {
      more = network_.Pump();
      c.Settle(trace, now_);
      d.Settle(trace, now_);
    }
    EXPECT_EQ(trace.size(), row.up) << ToUri(row.caller) << " called " << ToUri(row.called);
  }
}

// Who got the plan of a view first connects first.
TEST_F(SessionsTest, WhoGreetsBeforeHeIsListedWaitsAndLosesNothing) {
  a_->Hold({a_.member(), b_.member()}, now_);
  EXPECT_TRUE(Settle().empty()) << "b does not answer yet";
  EXPECT_TRUE(Later(kDefaultLease - Duration(1)).empty()) << "nor is a turned away";
  b_->Hold({a_.member(), b_.member()}, now_);
  EXPECT_THAT(SettleAll(), testing::UnorderedElementsAre("a: b up", "b: a up"));
  a_->Send(b_.id(), {Encode(PeerMessage(GlobalNorm{})), {}});
  EXPECT_THAT(Settle(), testing::ElementsAre("b: a said"));
  EXPECT_EQ(b_->refused(), 0);
  EXPECT_TRUE(Later(std::chrono::seconds(10)).empty()) << "it waits no more";
}

// A process that says what the test likes, as whom it likes.
class Caller {
 public:
  Caller(LoopNetwork& network, const Node& to, const MemberId& as, const Speaks& speaks = {})
      : transport_(network.MakeTransport("caller " + as.name + ToHex(as.incarnation) +
                                         std::to_string(++made_))),
        session_(transport_->Connect(
            to.member().address, std::chrono::seconds(1),
            {[](Frame) {}, [broken = broken_](absl::Status why) { *broken = why; }})) {
    Say(PeerMessage(Hello{"job", as, to.id(), speaks}));
  }
  void Say(const PeerMessage& message) { session_->Send({Encode(message), {}}); }
  const absl::Status& broken() const { return *broken_; }

 private:
  static inline int made_ = 0;
  const std::shared_ptr<absl::Status> broken_ = std::make_shared<absl::Status>();
  const std::unique_ptr<Transport> transport_;
  const std::shared_ptr<Session> session_;
};

TEST_F(SessionsTest, OneOfAnotherVersionIsRefusedAndToldBothVersions) {
  Caller later(network_, b_, {"0", {7, 7}}, {kProtocol + 1, kProtocol + 1, "9.9.9"});
  Settle();
  Settle();  // it is told
  EXPECT_THAT(std::string(later.broken().message()),
              testing::AllOf(testing::HasSubstr("FAILED_PRECONDITION: 0 is Muster 9.9.9"),
                             testing::HasSubstr(std::string("is Muster ") + kVersion)));
  EXPECT_EQ(b_->refused(), 1);
}

TEST_F(SessionsTest, WhatIsBehindAGreetingThatWaitsIsReadOnceItsSenderIsListed) {
  const ViewMember late{{"0", {7, 7}}, Role::kWorker, "host",
                        "nowhere:1",   Rank(0),       0};  // calls, as the smaller one
  Caller caller(network_, b_, late.id);
  for (int i = 0; i < 100; ++i) caller.Say(PeerMessage(GlobalNorm{}));
  const uint64_t before = network_.counters().bytes_received;
  EXPECT_TRUE(Settle().empty());
  EXPECT_LE(network_.counters().bytes_received - before, kMaxGreetingBytes);
  b_->Hold({late, b_.member()}, now_);
  const std::vector<std::string> said = SettleAll();
  ASSERT_EQ(said.size(), 101u);
  EXPECT_EQ(said[0], "b: 0 up");
  EXPECT_EQ(said[100], "b: 0 said");
}

TEST_F(SessionsTest, WhoIsListedByNoViewForALeaseIsRefusedAndNothingOfItIsTaken) {
  Caller evicted(network_, b_, {"a", {9, 9}});  // the name of a member, and another process
  evicted.Say(PeerMessage(Fetch{ViewNumber(1000), PieceKind::kValues, 0, Step(0), {ChunkId(0)}}));
  EXPECT_TRUE(Settle().empty());
  Meet();
  EXPECT_THAT(Settle(), testing::UnorderedElementsAre("a: b up", "b: a up"));
  EXPECT_TRUE(Later(kDefaultLease - Duration(1)).empty());
  EXPECT_TRUE(evicted.broken().ok());
  EXPECT_TRUE(Later(Duration(1)).empty());
  EXPECT_THAT(std::string(evicted.broken().message()), testing::HasSubstr("no view of b"));
  EXPECT_EQ(b_->refused(), 1);
  EXPECT_EQ(b_->NextTick(), Time::max());
}

TEST_F(SessionsTest, WhoWasEvictedComesAgainInVain) {
  Meet();
  Settle();
  b_->Hold({b_.member()}, now_);
  EXPECT_THAT(Settle(), testing::ElementsAre("a: b down"));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(Later(kDefaultLease / 2).empty());
    a_->Send(b_.id(), {Encode(PeerMessage(GlobalNorm{})), {}});
  }
  EXPECT_GT(b_->refused(), 1);
}

TEST_F(SessionsTest, OneSessionOfANameWaitsAndAsManyNamesAsMay) {
  Node few(network_, "f", 5, "job", std::nullopt, /*most_waiting=*/2);
  const auto settle = [&] {
    std::vector<std::string> trace;
    for (bool more = true; more;) {
      more = network_.Pump();
      few.Settle(trace, now_);
    }
    EXPECT_TRUE(trace.empty());
  };
  const Caller first(network_, few, {"x", {1, 1}});
  settle();
  const Caller newer(network_, few, {"x", {1, 1}});
  settle();
  settle();  // the older one is told
  EXPECT_FALSE(first.broken().ok());
  EXPECT_TRUE(newer.broken().ok()) << newer.broken();
  const Caller second(network_, few, {"x", {1, 2}});
  settle();
  const Caller third(network_, few, {"x", {1, 3}});
  settle();
  settle();
  EXPECT_TRUE(second.broken().ok()) << second.broken();
  EXPECT_FALSE(third.broken().ok()) << "two wait already";
  EXPECT_TRUE(newer.broken().ok()) << newer.broken();
}

TEST_F(SessionsTest, WhoNeverGreetsIsClosed) {
  std::vector<absl::Status> broken;
  const auto transport = network_.MakeTransport("silent");
  const auto session =
      transport->Connect(b_.member().address, std::chrono::seconds(1),
                         {[](Frame) {}, [&](absl::Status why) { broken.push_back(why); }});
  Settle();
  Later(std::chrono::seconds(4));
  EXPECT_TRUE(broken.empty());
  Later(std::chrono::seconds(2));
  EXPECT_EQ(broken.size(), 1u);
}

}  // namespace
}  // namespace muster
