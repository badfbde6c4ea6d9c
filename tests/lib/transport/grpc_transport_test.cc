#include "lib/transport/grpc/grpc_transport.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/lib/transport/identities.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {
namespace {

class GrpcWorld : public TransportWorld {
 public:
  explicit GrpcWorld(int threads) : threads_(threads) {}
  std::unique_ptr<Transport> Make(const std::string&) override {
    GrpcOptions options;
    options.threads = threads_;
    return MakeGrpcTransport(std::move(options));
  }

 private:
  const int threads_;
};

class TlsWorld : public TransportWorld {
 public:
  std::unique_ptr<Transport> Make(const std::string& name) override {
    return TlsTransport(TestIdentity(authority_, MemberName(name)));
  }

 private:
  const Authority authority_ = TestAuthority();
};

std::unique_ptr<TransportWorld> Tls() { return std::make_unique<TlsWorld>(); }
std::unique_ptr<TransportWorld> OneThread() { return std::make_unique<GrpcWorld>(1); }
std::unique_ptr<TransportWorld> TwoThreads() { return std::make_unique<GrpcWorld>(2); }
std::string NameOf(const testing::TestParamInfo<MakeWorld>& world) {
  constexpr std::array kNames{"OneThread", "TwoThreads", "Tls"};
  return kNames[world.index];
}

// Shutting it down waits for a thread that looks after a full socket, ten seconds at a time.
TEST(GrpcTransports, TheLastOneThatGoesLeavesGrpcAsItIs) {
  MakeGrpcTransport({}).reset();
  EXPECT_NE(grpc_is_initialized(), 0);
}

// A member's sessions are of both kinds.
TEST(GrpcTransports, WhatItsSessionsKeepAndAssembleIsBoundedAlsoOfThoseThatItMade) {
  GrpcOptions bounded;
  bounded.assembling_bytes = size_t{32} << 20;
  const auto server = MakeGrpcTransport({}), client = MakeGrpcTransport(std::move(bounded));
  Lobby lobby;
  const auto listener = server->Listen("127.0.0.1:0", lobby.acceptor());
  ASSERT_TRUE(listener.ok()) << listener.status();
  const auto recorder = std::make_shared<Recorder>();  // it keeps what comes
  const auto session =
      client->Connect((*listener)->Address(), kConnectTimeout, recorder->Handler());
  session->Admit();
  const std::optional<Accepted> accepted = lobby.Await(0);
  ASSERT_TRUE(accepted.has_value());
  for (uint32_t i = 0; i < 128; ++i)
    accepted->session->Send(PatternFrame("", i, size_t{1} << 20, size_t{1} << 20));
  EXPECT_TRUE(recorder->AwaitBroken());
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Grpc, TransportSuite, testing::Values(&OneThread, &TwoThreads, &Tls),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Grpc, HeldFrames, testing::Values(&OneThread, &TwoThreads, &Tls), NameOf);
INSTANTIATE_TEST_SUITE_P(Grpc, FullQueues, testing::Values(&OneThread, &TwoThreads, &Tls), NameOf);

}  // namespace muster
