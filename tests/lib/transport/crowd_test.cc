// More connections than a listener may have, and fewer descriptors than it would need: who is too
// many is told so, and the listener hears again afterwards.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <deque>

#include "lib/transport/grpc/grpc_transport.h"
#include "tests/lib/http/raw_client.h"
#include "tests/lib/transport/transport_suite.h"

namespace muster {
namespace {

using http::RawClient;
using testing::HasSubstr;

constexpr int kConnections = 6;
constexpr int kSessions = 5;  // one connection is kept for other calls

class GrpcCrowd : public testing::Test {
 protected:
  GrpcCrowd() {
    GrpcOptions options;
    options.connections = kConnections;
    server_ = MakeGrpcTransport(std::move(options));
    listener_ = *server_->Listen("127.0.0.1:0", [this](std::shared_ptr<Session> session) {
      session->Send({"welcome", {}});
      return lobby_.acceptor()(std::move(session));
    });
  }
  ~GrpcCrowd() override {
    sessions_.clear();
    listener_.reset();
  }

  // A session that was welcomed stays; else the reason why it broke.
  absl::Status Enter() {
    const auto recorder = std::make_shared<Recorder>();
    auto session = client_->Connect(listener_->Address(), kConnectTimeout, recorder->Handler());
    if (!recorder->AwaitFrames(1)) return recorder->broken();
    sessions_.push_back(std::move(session));
    return absl::OkStatus();
  }
  // What has gone is noticed soon, not at once.
  absl::Status EnterSoon() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    absl::Status why = Enter();
    while (!why.ok() && std::chrono::steady_clock::now() < end) why = Enter();
    return why;
  }

  Lobby lobby_;
  std::unique_ptr<GrpcTransport> server_;
  std::unique_ptr<GrpcTransport> client_ = MakeGrpcTransport({});
  std::unique_ptr<Listener> listener_;
  std::deque<std::shared_ptr<Session>> sessions_;
};

TEST_F(GrpcCrowd, OneSessionTooManyIsRefusedWithTheReasonUntilAnotherLeaves) {
  for (int i = 0; i < kSessions; ++i) ASSERT_TRUE(Enter().ok());
  const absl::Status refused = Enter();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("5 sessions"));
  sessions_.pop_front();
  EXPECT_TRUE(EnterSoon().ok());
}

TEST_F(GrpcCrowd, OneConnectionTooManyIsTurnedAwayWithTheReasonUntilOthersLeave) {
  std::deque<RawClient> silent;
  for (int i = 0; i < kConnections; ++i) silent.emplace_back(listener_->Address());
  for (int i = 0; i < 100; ++i) {
    RawClient late(listener_->Address());
    ASSERT_THAT(late.ReadToEnd(), HasSubstr("6 connections")) << i;
  }
  const absl::Status refused = Enter();
  EXPECT_FALSE(refused.ok());
  silent.clear();
  const absl::Status entered = EnterSoon();
  EXPECT_TRUE(entered.ok()) << entered;
}

TEST_F(GrpcCrowd, WithoutDescriptorsOnePeerIsTurnedAwayAndAfterwardsAllAreHeard) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{512, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int fd; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  ASSERT_FALSE(taken.empty());
  close(taken.back());  // for the client's end; the accepted one has none
  taken.pop_back();
  {
    RawClient unlucky(listener_->Address());
    EXPECT_THAT(unlucky.ReadToEnd(), HasSubstr("connections"));
  }
  for (const int fd : taken) close(fd);
  setrlimit(RLIMIT_NOFILE, &before);
  const absl::Status entered = EnterSoon();
  EXPECT_TRUE(entered.ok()) << entered;
}

}  // namespace
}  // namespace muster
