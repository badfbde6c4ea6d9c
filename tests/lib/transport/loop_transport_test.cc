#include <gtest/gtest.h>

#include "lib/transport/loop/loop_network.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {
namespace {

class LoopWorld final : public TransportWorld {
 public:
  std::unique_ptr<Transport> Make(const std::string& name) override {
    return network_.MakeTransport(name);
  }

 private:
  LoopNetwork network_;
};

std::unique_ptr<TransportWorld> MakeLoopWorld() { return std::make_unique<LoopWorld>(); }
std::string NameOf(const testing::TestParamInfo<MakeWorld>&) { return "Loop"; }

// Two hosts of a network that is pumped by hand.
class PumpedLoop : public testing::Test {
 protected:
  PumpedLoop() {
    auto listener = server_->Listen("s:0", lobby_.acceptor());
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
  }
  std::shared_ptr<Session> Connect() {
    return client_->Connect(listener_->Address(), kConnectTimeout, recorder_->Handler());
  }
  void PumpAll() {
    while (network_.Pump()) {
    }
  }

  LoopNetwork network_{LoopNetwork::Delivery::kPumped};
  std::unique_ptr<Transport> server_ = network_.MakeTransport("s");
  std::unique_ptr<Transport> client_ = network_.MakeTransport("c");
  Lobby lobby_;
  std::unique_ptr<Listener> listener_;
  std::shared_ptr<Recorder> recorder_ = std::make_shared<Recorder>();
};

// As over gRPC: both know the other, and nobody but the one that is expected gets a frame.
TEST_F(PumpedLoop, WithCertificatesEndsKnowEachOtherAndReachWhomTheyExpect) {
  const PeerName coordinator{"c1", CoordinatorPeer{}}, host{"c1", HostPeer{"alpha"}};
  const auto server = network_.MakeTransport("S", coordinator);
  const auto listener = server->Listen("S:0", lobby_.acceptor()).value();
  struct Row {
    std::optional<PeerName> own;
    std::optional<ExpectedPeer> expected;
    absl::StatusCode how;
  };
  size_t accepted = 0;
  for (const Row& row :
       {Row{host, CoordinatorPeer{}, absl::StatusCode::kOk},
        Row{host, ExpectedMember{"job", "w0", {1, 2}}, absl::StatusCode::kPermissionDenied},
        Row{PeerName{"c2", host.who}, {}, absl::StatusCode::kUnauthenticated},
        Row{std::nullopt, {}, absl::StatusCode::kUnavailable}}) {
    const auto client = network_.MakeTransport("C", row.own);
    const auto recorder = std::make_shared<Recorder>();
    SessionHandler handler = recorder->Handler();
    handler.expected = row.expected;
    const auto session = client->Connect(listener->Address(), kConnectTimeout, handler);
    session->Send(HeaderFrame("hello"));
    PumpAll();
    EXPECT_EQ(recorder->broken().code(), row.how) << recorder->broken();
    if (row.how == absl::StatusCode::kOk) {
      ++accepted;
      EXPECT_EQ(session->ProvenPeer(), coordinator);
      EXPECT_EQ(lobby_.Await(0)->session->ProvenPeer(), host);
    }
    EXPECT_EQ(lobby_.size(), accepted);
  }
}

TEST_F(PumpedLoop, NothingIsDeliveredUntilPumpedAndThenOneThingAtATime) {
  auto session = Connect();
  session->Send(HeaderFrame("a"));
  session->Send(HeaderFrame("b"));
  EXPECT_EQ(session->QueuedBytes(), 2u);
  ASSERT_TRUE(network_.Pump());  // the connection
  const Accepted far = *lobby_.Await(0);
  EXPECT_THAT(far.recorder->TakeFrames(), testing::SizeIs(0));
  ASSERT_TRUE(network_.Pump());
  EXPECT_THAT(far.recorder->TakeFrames(), testing::SizeIs(1));
  ASSERT_TRUE(network_.Pump());
  EXPECT_THAT(far.recorder->TakeFrames(), testing::SizeIs(1));
  EXPECT_FALSE(network_.Pump());
  EXPECT_EQ(session->QueuedBytes(), 0u);
}

TEST_F(PumpedLoop, BreakLosesWhatIsOnItsWayAndSparesOthers) {
  auto session = Connect();
  auto bystander = network_.MakeTransport("b");
  auto other = std::make_shared<Recorder>();
  auto spared = bystander->Connect(listener_->Address(), kConnectTimeout, other->Handler());
  PumpAll();
  session->Send(HeaderFrame("on its way"));
  spared->Send(HeaderFrame("arrives"));
  network_.Break("s", "c");
  PumpAll();
  EXPECT_EQ(recorder_->broken().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsConnectRefused(recorder_->broken()));
  EXPECT_THAT(lobby_.Await(0)->recorder->TakeFrames(), testing::SizeIs(0));
  EXPECT_EQ(lobby_.Await(0)->recorder->broken_calls(), 1);
  EXPECT_THAT(lobby_.Await(1)->recorder->TakeFrames(), testing::SizeIs(1));
  EXPECT_EQ(other->broken_calls(), 0);
}

TEST_F(PumpedLoop, ACutHostIsRefusedUntilHealed) {
  network_.Cut("c", "s");
  auto refused = Connect();
  PumpAll();
  EXPECT_TRUE(IsConnectRefused(recorder_->broken())) << recorder_->broken();
  network_.Heal("s", "c");
  auto later = std::make_shared<Recorder>();
  auto session = client_->Connect(listener_->Address(), kConnectTimeout, later->Handler());
  PumpAll();
  EXPECT_EQ(later->broken_calls(), 0);
  EXPECT_TRUE(lobby_.Await(0).has_value());
}

TEST_F(PumpedLoop, DestructorsDeliverTheLastCallsOnTheSpot) {
  auto session = Connect();
  PumpAll();
  session.reset();
  EXPECT_EQ(recorder_->broken().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(lobby_.Await(0)->recorder->broken_calls(), 0);
  listener_.reset();
  EXPECT_EQ(lobby_.Await(0)->recorder->broken_calls(), 1);
}

TEST_F(PumpedLoop, CountsWhatItMoved) {
  auto session = Connect();
  session->Send(PatternFrame("head", 1, 100, 30));
  PumpAll();
  EXPECT_EQ(network_.counters().bytes_sent, 104u);
  EXPECT_EQ(network_.counters().bytes_received, 104u);
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Loop, TransportSuite, testing::Values(&MakeLoopWorld), NameOf);
INSTANTIATE_TEST_SUITE_P(Loop, HeldFrames, testing::Values(&MakeLoopWorld), NameOf);
INSTANTIATE_TEST_SUITE_P(Loop, FullQueues, testing::Values(&MakeLoopWorld), NameOf);

}  // namespace muster
