#include "tests/lib/transport/transport_suite.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace muster {

using testing::HasSubstr;
using testing::SizeIs;

void TransportSuite::SetUp() {
  world_ = GetParam()();
  server_ = world_->Make("server");
  client_ = world_->Make("client");
}

void TransportSuite::TearDown() {
  listener_.reset();
  client_.reset();
  for (const auto& recorder : {near_recorder_, far_.recorder}) {
    if (!recorder) continue;
    EXPECT_EQ(recorder->broken_calls(), 1);
    EXPECT_EQ(recorder->calls_after_broken(), 0);
  }
  near_.reset();
  far_.session.reset();
}

void TransportSuite::ConnectPair() {
  auto listener = server_->Listen("127.0.0.1:0", lobby_.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  near_recorder_ = std::make_shared<Recorder>();
  near_ = client_->Connect(listener_->Address(), kConnectTimeout, near_recorder_->Handler());
  const std::optional<Accepted> accepted = lobby_.Await(0);
  ASSERT_TRUE(accepted.has_value());
  far_ = *accepted;
}

TEST_P(TransportSuite, FramesArriveInOrderAndOnceInBothDirections) {
  constexpr size_t kFrames = 10'000;
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  std::thread other([&] {
    for (size_t i = 0; i < kFrames; ++i) far_.session->Send(HeaderFrame(absl::StrCat("far ", i)));
  });
  for (size_t i = 0; i < kFrames; ++i) near_->Send(HeaderFrame(absl::StrCat("near ", i)));
  other.join();
  ASSERT_TRUE(far_.recorder->AwaitFrames(kFrames)) << far_.recorder->broken();
  ASSERT_TRUE(near_recorder_->AwaitFrames(kFrames)) << near_recorder_->broken();
  const std::vector<Frame> at_far = far_.recorder->TakeFrames();
  const std::vector<Frame> at_near = near_recorder_->TakeFrames();
  ASSERT_THAT(at_far, SizeIs(kFrames));
  ASSERT_THAT(at_near, SizeIs(kFrames));
  for (size_t i = 0; i < kFrames; ++i) {
    ASSERT_EQ(at_far[i].header, absl::StrCat("near ", i));
    ASSERT_EQ(at_near[i].header, absl::StrCat("far ", i));
  }
}

TEST_P(TransportSuite, AHeaderThatManyFramesShareArrivesWithEachOfThem) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}, kMaxHeaderBytes}) {
    const auto header = std::make_shared<const std::string>(Pattern(7, size));
    for (int i = 0; i < 3; ++i) near_->Send(FrameOfMany(header));
    near_->Send(HeaderFrame("between"));
  }
  ASSERT_TRUE(far_.recorder->AwaitFrames(16)) << far_.recorder->broken();
  const std::vector<Frame> frames = far_.recorder->TakeFrames();
  const size_t sizes[] = {0, 1, 100'000, kMaxHeaderBytes};
  for (size_t i = 0; i < frames.size(); ++i) {
    const bool between = i % 4 == 3;
    EXPECT_EQ(frames[i].header, between ? "between" : Pattern(7, sizes[i / 4])) << i;
    EXPECT_EQ(frames[i].shared_header, nullptr);
    EXPECT_EQ(frames[i].payload.size(), 0u);
  }
  near_->Send(FrameOfMany(std::make_shared<const std::string>(kMaxHeaderBytes + 1, 'x')));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kResourceExhausted);
}

TEST_P(TransportSuite, PayloadsOfAllSizesAndCutsArriveUnchanged) {
  struct Case {
    size_t size;
    size_t cut;
  };
  constexpr Case kCases[] = {{0, 1},
                             {1, 1},
                             {3, 1},
                             {1000, 7},
                             {65'537, 4096},
                             {(39 * kMaxPayloadBytes) / 40, 65'521},
                             {kMaxPayloadBytes, kMaxPayloadBytes}};
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  uint32_t seed = 0;
  for (const Case& c : kCases) near_->Send(PatternFrame("p", ++seed, c.size, c.cut));
  near_->Send(HeaderFrame(Pattern(99, kMaxHeaderBytes)));
  ASSERT_TRUE(far_.recorder->AwaitFrames(std::size(kCases) + 1)) << far_.recorder->broken();
  const std::vector<Frame> frames = far_.recorder->TakeFrames();
  for (size_t i = 0; i < std::size(kCases); ++i) {
    EXPECT_EQ(frames[i].header, "p");
    EXPECT_EQ(frames[i].payload.size(), kCases[i].size);
    EXPECT_TRUE(Flatten(frames[i].payload) == Pattern(static_cast<uint32_t>(i) + 1, kCases[i].size))
        << "bytes differ in case " << i;
  }
  EXPECT_TRUE(frames.back().header == Pattern(99, kMaxHeaderBytes));
}

TEST_P(TransportSuite, FrameAboveTheLimitBreaksTheSessionAndNamesTheSize) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_->Send(PatternFrame("big", 1, kMaxPayloadBytes + 1, kMaxPayloadBytes));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(near_recorder_->broken().ToString(), HasSubstr(absl::StrCat(kMaxPayloadBytes + 1)));
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  EXPECT_EQ(far_.recorder->broken().code(), absl::StatusCode::kUnavailable);
}

TEST_P(TransportSuite, PayloadIsReleasedAfterDelivery) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  auto released = std::make_shared<Signal>();
  near_->Send(WatchedFrame(released, 100'000));
  ASSERT_TRUE(far_.recorder->AwaitFrames(1));
  far_.recorder->TakeFrames();
  EXPECT_TRUE(released->Await());
  near_->Send(HeaderFrame("next"));  // leaves only after the first has left
  ASSERT_TRUE(far_.recorder->AwaitFrames(2));
  EXPECT_LE(near_->QueuedBytes(), 4u);
}

void HeldFrames::SetUp() {
  TransportSuite::SetUp();
  auto listener = server_->Listen("127.0.0.1:0", [this](std::shared_ptr<Session> session) {
    if (far_.session) {
      beside_far_ = std::move(session);
      beside_far_->Admit();
      return beside_recorder_->Handler();
    }
    far_ = {std::move(session), std::make_shared<Recorder>()};
    far_.recorder->HoldReceipts();
    accepted_.Raise();
    return far_.recorder->Handler(kLimits);
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  near_recorder_ = std::make_shared<Recorder>();
  near_ = client_->Connect(listener_->Address(), kConnectTimeout, near_recorder_->Handler());
  near_->Send(HeaderFrame("hello"));
  ASSERT_TRUE(accepted_.Await());
}

void HeldFrames::Settle() {
  if (!beside_)
    beside_ = client_->Connect(listener_->Address(), kConnectTimeout,
                               std::make_shared<Recorder>()->Handler());
  for (int i = 0; i < 20; ++i) beside_->Send(PatternFrame("beside", 1, size_t{1} << 20, 1 << 20));
  ASSERT_TRUE(beside_recorder_->AwaitFrames(beside_frames_ += 20));
}

TEST_P(HeldFrames, WhoIsNotAdmittedIsReadOneFrameAtATime) {
  for (int i = 0; i < 3; ++i) near_->Send(HeaderFrame("more"));
  for (size_t came = 1; came <= 2; ++came) {
    ASSERT_TRUE(far_.recorder->AwaitFrames(came));
    Settle();
    EXPECT_EQ(far_.recorder->frame_count(), came);
    far_.recorder->TakeFrames();
  }
  ASSERT_TRUE(far_.recorder->AwaitFrames(3));
  far_.session->Admit();
  EXPECT_TRUE(far_.recorder->AwaitFrames(4)) << "with the third still held";
}

TEST_P(HeldFrames, AFirstFrameThatIsTooLargeBreaksTheSession) {
  near_->Send(PatternFrame("", 1, 101, 101));
  near_->Send(HeaderFrame("after it"));
  ASSERT_TRUE(far_.recorder->AwaitFrames(1));
  far_.recorder->TakeFrames();
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  EXPECT_EQ(far_.recorder->broken().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(far_.recorder->broken().message(), HasSubstr("at most 100"));
  EXPECT_EQ(far_.recorder->frame_count(), 1u);
}

TEST_P(HeldFrames, WhoseReceiverTakesNothingStandsStillAndLosesNothing) {
  constexpr uint32_t kFrames = 64;
  constexpr size_t kBytes = size_t{1} << 20;
  far_.session->Admit();
  for (uint32_t i = 1; i <= kFrames; ++i) near_->Send(PatternFrame("data", i, kBytes, kBytes));
  // The greeting and four, with which it is more than may be held.
  ASSERT_TRUE(far_.recorder->AwaitFrames(5));
  Settle();
  EXPECT_EQ(far_.recorder->frame_count(), 5u);
  EXPECT_GT(near_->QueuedBytes(), 20 * kBytes) << "the network below holds some MiB";
  uint32_t seen = 0;
  for (size_t count = 5; seen < kFrames; ++count) {
    ASSERT_TRUE(far_.recorder->AwaitFrames(std::min<size_t>(count, kFrames + 1)));
    for (const Frame& frame : far_.recorder->TakeFrames()) {
      if (frame.header == "hello") continue;
      ++seen;
      EXPECT_TRUE(Flatten(frame.payload) == Pattern(seen, kBytes)) << seen;
    }
  }
  EXPECT_EQ(far_.recorder->broken_calls(), 0);
}

TEST_P(HeldFrames, OneThatStandsStillIsClosedByItsReceiverAndGivesBackLater) {
  for (uint32_t i = 0; i < 10; ++i) near_->Send(PatternFrame("", i, 90, 90));
  Settle();
  far_.session->Close(absl::AbortedError("enough"));
  ASSERT_TRUE(far_.recorder->AwaitBroken()) << "with its frames still held";
  EXPECT_EQ(far_.recorder->broken(), absl::AbortedError("enough"));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_EQ(near_->QueuedBytes(), 0u);
  far_.recorder->TakeFrames();  // the receipts outlive their session
}

TEST_P(HeldFrames, OneThatStandsStillEndsWithItsPeerAndWithItsListener) {
  for (uint32_t i = 0; i < 10; ++i) near_->Send(PatternFrame("", i, 90, 90));
  Settle();
  near_->Close(absl::AbortedError("gone"));
  near_.reset();
  listener_.reset();
  EXPECT_EQ(far_.recorder->broken_calls(), 1);
  far_.recorder->TakeFrames();
}

void FullQueues::SetUp() {
  TransportSuite::SetUp();
  far_.recorder = std::make_shared<Recorder>();
}

void FullQueues::FillQueues() {
  auto listener = server_->Listen("127.0.0.1:0", [this](std::shared_ptr<Session> session) {
    far_.session = std::move(session);
    SessionHandler record = far_.recorder->Handler();
    return SessionHandler{[this, record](Frame frame) {
                            arrived_.Raise();
                            EXPECT_TRUE(resume_.Await());
                            record.on_frame(std::move(frame));
                          },
                          record.on_broken};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  near_recorder_ = std::make_shared<Recorder>();
  near_ = client_->Connect(listener_->Address(), kConnectTimeout, near_recorder_->Handler());
  for (auto& signal : released_) {
    signal = std::make_shared<Signal>();
    near_->Send(WatchedFrame(signal, size_t{1} << 20));
  }
  ASSERT_TRUE(arrived_.Await());
  EXPECT_GT(near_->QueuedBytes(), size_t{1} << 20);
}

void FullQueues::ExpectAllBrokenAndReleased() {
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  far_.recorder->TakeFrames();
  for (const auto& signal : released_) ASSERT_TRUE(signal->Await());
  EXPECT_EQ(near_->QueuedBytes(), 0u);
}

TEST_P(FullQueues, CloseAtTheSenderReleasesEverything) {
  ASSERT_NO_FATAL_FAILURE(FillQueues());
  near_->Close(absl::CancelledError("enough"));
  resume_.Raise();
  ExpectAllBrokenAndReleased();
  EXPECT_EQ(near_recorder_->broken(), absl::CancelledError("enough"));
}

TEST_P(FullQueues, CloseAtTheReceiverReleasesEverything) {
  ASSERT_NO_FATAL_FAILURE(FillQueues());
  far_.session->Close(absl::FailedPreconditionError("wrong cluster"));
  resume_.Raise();
  ExpectAllBrokenAndReleased();
  EXPECT_EQ(far_.recorder->broken(), absl::FailedPreconditionError("wrong cluster"));
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kUnavailable);
}

TEST_P(FullQueues, ListenerThatGoesReleasesEverything) {
  ASSERT_NO_FATAL_FAILURE(FillQueues());
  resume_.Raise();
  listener_.reset();
  EXPECT_EQ(far_.recorder->broken_calls(), 1) << "the destructor returned before the last call";
  ExpectAllBrokenAndReleased();
}

TEST_P(TransportSuite, CloseAtTheConnectingEndBreaksBoth) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_->Close(absl::AbortedError("done here"));
  near_->Close(absl::InternalError("too late to matter"));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  EXPECT_EQ(near_recorder_->broken(), absl::AbortedError("done here"));
  EXPECT_EQ(far_.recorder->broken().code(), absl::StatusCode::kUnavailable);
}

// Whoever is refused may get another certificate, and comes again with that.
TEST_P(TransportSuite, WhoIsRefusedCanTell) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_->Send(HeaderFrame("hello"));
  ASSERT_TRUE(far_.recorder->AwaitFrames(1));
  far_.session->Close(absl::PermissionDeniedError("node-b was revoked"));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(near_recorder_->broken().ToString(), HasSubstr("node-b was revoked"));
}

TEST_P(TransportSuite, CloseAtTheAcceptingEndCarriesTheReason) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_->Send(HeaderFrame("hello"));
  ASSERT_TRUE(far_.recorder->AwaitFrames(1));
  far_.session->Close(absl::FailedPreconditionError("cluster 7, not 8"));
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  EXPECT_EQ(far_.recorder->broken(), absl::FailedPreconditionError("cluster 7, not 8"));
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(near_recorder_->broken().ToString(), HasSubstr("cluster 7, not 8"));
  EXPECT_FALSE(IsConnectRefused(near_recorder_->broken()));
}

TEST_P(TransportSuite, SendAfterBreakIsDropped) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_->Close(absl::CancelledError("over"));
  ASSERT_TRUE(far_.recorder->AwaitBroken());
  auto released = std::make_shared<Signal>();
  near_->Send(WatchedFrame(released, 10));
  EXPECT_TRUE(released->Await());
  EXPECT_EQ(near_->QueuedBytes(), 0u);
  EXPECT_THAT(far_.recorder->TakeFrames(), SizeIs(0));
}

TEST_P(TransportSuite, DestroyingASessionReturnsAfterItsLastCall) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  near_.reset();
  EXPECT_EQ(near_recorder_->broken_calls(), 1);
  EXPECT_EQ(near_recorder_->broken().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(far_.recorder->AwaitBroken());
}

TEST_P(TransportSuite, ASessionMayBeDestroyedInsideItsHandlerAndAnothers) {
  auto listener = server_->Listen("127.0.0.1:0", lobby_.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  auto other = std::make_shared<Recorder>();
  auto mine = std::make_shared<Recorder>();
  struct Held {
    Signal ready;
    std::shared_ptr<Session> mine;
    std::shared_ptr<Session> other;
  };
  auto held = std::make_shared<Held>();
  held->other = client_->Connect((*listener)->Address(), kConnectTimeout, other->Handler());
  ASSERT_TRUE(lobby_.Await(0).has_value());
  SessionHandler record = mine->Handler();
  held->mine = client_->Connect((*listener)->Address(), kConnectTimeout,
                                {[held, record](Frame frame) {
                                   EXPECT_TRUE(held->ready.Await());
                                   held->mine.reset();
                                   held->other.reset();
                                   record.on_frame(std::move(frame));
                                 },
                                 record.on_broken});
  held->ready.Raise();
  const std::optional<Accepted> far = lobby_.Await(1);
  ASSERT_TRUE(far.has_value());
  far->session->Send(HeaderFrame("go"));
  far->session->Send(HeaderFrame("never seen"));
  ASSERT_TRUE(mine->AwaitBroken());
  ASSERT_TRUE(other->AwaitBroken());
  EXPECT_TRUE(far->recorder->AwaitBroken());
  EXPECT_THAT(mine->TakeFrames(), SizeIs(1));
  EXPECT_EQ(mine->broken_calls(), 1);
  listener->reset();
}

TEST_P(TransportSuite, AnAcceptorMayTurnASessionAway) {
  auto recorder = std::make_shared<Recorder>();
  auto listener = server_->Listen("127.0.0.1:0", [recorder](std::shared_ptr<Session> session) {
    session->Close(absl::FailedPreconditionError("not you"));
    return recorder->Handler();
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  near_recorder_ = std::make_shared<Recorder>();
  near_ = client_->Connect((*listener)->Address(), kConnectTimeout, near_recorder_->Handler());
  EXPECT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_TRUE(recorder->AwaitBroken());
  EXPECT_EQ(recorder->broken(), absl::FailedPreconditionError("not you"));
  listener->reset();
}

TEST_P(TransportSuite, HandlersMaySendAndClose) {
  auto recorder = std::make_shared<Recorder>();
  struct Echo {
    Signal ready;
    std::shared_ptr<Session> session;
  };
  auto echo = std::make_shared<Echo>();
  auto listener = server_->Listen("127.0.0.1:0", [&](std::shared_ptr<Session> session) {
    echo->session = std::move(session);
    return SessionHandler{[echo](Frame frame) {
                            if (frame.header == "close") {
                              echo->session->Close(absl::CancelledError("as asked"));
                            } else {
                              echo->session->Send(std::move(frame));
                            }
                          },
                          recorder->Handler().on_broken};
  });
  ASSERT_TRUE(listener.ok()) << listener.status();
  near_recorder_ = std::make_shared<Recorder>();
  near_ = client_->Connect((*listener)->Address(), kConnectTimeout, near_recorder_->Handler());
  near_->Send(PatternFrame("echo", 5, 300'000, 1000));
  ASSERT_TRUE(near_recorder_->AwaitFrames(1));
  EXPECT_TRUE(Flatten(near_recorder_->TakeFrames()[0].payload) == Pattern(5, 300'000));
  near_->Send(HeaderFrame("close"));
  EXPECT_TRUE(near_recorder_->AwaitBroken());
  EXPECT_TRUE(recorder->AwaitBroken());
  listener->reset();
  echo->session.reset();
}

TEST_P(TransportSuite, ConnectingToWhereNobodyListensIsRefusedAtOnceAndSaysSo) {
  auto listener = server_->Listen("127.0.0.1:0", lobby_.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = (*listener)->Address();
  listener->reset();
  for (int attempt = 0; attempt < 3; ++attempt) {
    auto recorder = std::make_shared<Recorder>();
    auto session = client_->Connect(address, std::chrono::hours(1), recorder->Handler());
    session->Send(HeaderFrame("lost"));
    ASSERT_TRUE(recorder->AwaitBroken());
    EXPECT_EQ(recorder->broken().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(IsConnectRefused(recorder->broken())) << recorder->broken();
    EXPECT_THAT(recorder->broken().ToString(), HasSubstr(address));
  }
}

TEST_P(TransportSuite, ASecondListenerOnAnAddressIsAnErrorAndTheFirstStays) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  auto rival = world_->Make("rival");
  auto second = rival->Listen(listener_->Address(), lobby_.acceptor());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
  EXPECT_THAT(second.status().ToString(), HasSubstr(listener_->Address()));
  near_->Send(HeaderFrame("still here"));
  EXPECT_TRUE(far_.recorder->AwaitFrames(1));
}

TEST_P(TransportSuite, AListenerMayComeBackOnItsAddress) {
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  const std::string address = listener_->Address();
  near_->Send(HeaderFrame("one"));
  ASSERT_TRUE(far_.recorder->AwaitFrames(1));
  listener_.reset();
  ASSERT_TRUE(near_recorder_->AwaitBroken());
  auto again = server_->Listen(address, lobby_.acceptor());
  ASSERT_TRUE(again.ok()) << again.status();
  auto recorder = std::make_shared<Recorder>();
  auto session = client_->Connect(address, kConnectTimeout, recorder->Handler());
  session->Send(HeaderFrame("two"));
  const std::optional<Accepted> accepted = lobby_.Await(1);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_TRUE(accepted->recorder->AwaitFrames(1));
  again->reset();
  EXPECT_TRUE(recorder->AwaitBroken());
}

TEST_P(TransportSuite, ManySessionsAreIndependent) {
  constexpr size_t kSessions = 20;
  ASSERT_NO_FATAL_FAILURE(ConnectPair());
  std::vector<std::shared_ptr<Session>> sessions;
  std::vector<std::shared_ptr<Recorder>> recorders;
  for (size_t i = 0; i < kSessions; ++i) {
    recorders.push_back(std::make_shared<Recorder>());
    sessions.push_back(
        client_->Connect(listener_->Address(), kConnectTimeout, recorders.back()->Handler()));
    sessions.back()->Send(HeaderFrame("x"));
  }
  for (size_t i = 1; i <= kSessions; ++i) {
    const std::optional<Accepted> accepted = lobby_.Await(i);
    ASSERT_TRUE(accepted.has_value());
    ASSERT_TRUE(accepted->recorder->AwaitFrames(1));
    if (i % 2 == 0) accepted->session->Close(absl::CancelledError("even"));
  }
  near_->Send(HeaderFrame("unmoved"));
  EXPECT_TRUE(far_.recorder->AwaitFrames(1));
  EXPECT_EQ(far_.recorder->broken_calls(), 0);
  sessions.clear();
  for (const auto& recorder : recorders) EXPECT_EQ(recorder->broken_calls(), 1);
}

}  // namespace muster
