// A coordinator that may open few files, and a crowd at its two ports: whoever is too many is told
// so, those inside are served meanwhile, and afterwards everybody is.
#include <chrono>
#include <deque>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/http/client.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "tests/coordinator/control_client.h"
#include "tests/coordinator/program.h"
#include "tests/coordinator/runtime/scripted_member.h"
#include "tests/lib/http/raw_client.h"

namespace muster::coordinator {
namespace {

using http::RawClient;
using ::testing::HasSubstr;

constexpr int kDescriptors = 128;
constexpr int kCrowd = 300;
constexpr char kSpec[] =
    R"({"name":"count","task":"counting","lanes":2,"batch":5,"epochs":1,"reduction":"sum",)"
    R"("data":{"samples":10},"optimizer":{"kind":"sgd","learning_rate":1}})";

class Crowd : public ::testing::Test {
 protected:
  Crowd() { std::filesystem::remove_all(dir_); }
  ~Crowd() override {
    program_.Kill();
    std::filesystem::remove_all(dir_);
    std::filesystem::remove(dir_ + ".log");
  }

  bool Healthy() const {
    const auto answer = http::Get(program_.Url("/healthz"));
    return answer.ok() && answer->status == 200;
  }
  // Connections that have gone are noticed soon, not at once.
  bool HealthySoon() const {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (!Healthy())
      if (std::chrono::steady_clock::now() > end) return false;
    return true;
  }
  // The view that a member, the only one, gets by joining; tried again while it is turned away.
  View JoinSoon() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < end) {
      const auto transport = MakeGrpcTransport({});
      ScriptedMember member(*transport, program_.grpc(), {"worker-0", {7, ++joined_}});
      member.JoinJob("a");
      if (member.HeardBeforeBroken()) return member.FollowIntoView();
    }
    return {};
  }

  const std::string dir_ = ::testing::TempDir() + "crowd-" + std::to_string(getpid());
  Program program_{dir_, {}, kDescriptors};
  uint64_t joined_ = 0;
};

TEST_F(Crowd, AtTheHttpPortIsToldToComeLater) {
  ASSERT_TRUE(program_.listens());
  std::deque<RawClient> inside;
  std::string said;
  for (int i = 0; i < kCrowd && said.empty(); ++i) {
    inside.emplace_back(program_.http());
    ASSERT_TRUE(inside.back().Send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const std::string answer = inside.back().ReadUntil("\r\n\r\n");
    if (answer.find(" 200 ") == std::string::npos) said = answer + inside.back().ReadToEnd();
  }
  EXPECT_THAT(said, HasSubstr("503"));
  EXPECT_THAT(said, HasSubstr("too many connections"));
  EXPECT_LT(inside.size(), size_t{kDescriptors});
  EXPECT_EQ(MakeGrpcClient(program_.grpc())->Submit("a", kSpec).code, "ok") << "the other port";
  inside.clear();
  EXPECT_TRUE(HealthySoon());
}

TEST_F(Crowd, AtTheGrpcPortIsTurnedAwayAndAMemberGetsInLater) {
  ASSERT_TRUE(program_.listens());
  ASSERT_EQ(MakeRestClient(program_.http())->Submit("a", kSpec).code, "ok");
  std::deque<RawClient> crowd;
  for (int i = 0; i < kCrowd; ++i) crowd.emplace_back(program_.grpc());
  EXPECT_THAT(crowd.back().ReadToEnd(), HasSubstr("connections, all that it may have"));
  EXPECT_TRUE(Healthy()) << "the other port";
  crowd.clear();
  EXPECT_EQ(JoinSoon().members.size(), 1u);
  EXPECT_TRUE(Healthy());
}

TEST_F(Crowd, OfSessionsIsRefusedWithTheReason) {
  ASSERT_TRUE(program_.listens());
  ASSERT_EQ(MakeRestClient(program_.http())->Submit("a", kSpec).code, "ok");
  absl::Status refused;
  {
    const auto transport = MakeGrpcTransport({});
    std::deque<ScriptedAgent> agents;  // whose sessions are closed for nobody
    for (int i = 0; i < kCrowd && refused.ok(); ++i) {
      agents.emplace_back(*transport, program_.grpc(), DecodeToAgent);
      agents.back().Say(AgentHello{.agent = {"node-" + std::to_string(i), {1, 1}}});
      if (!agents.back().HeardBeforeBroken()) refused = agents.back().Broken();
    }
    EXPECT_LT(agents.size(), size_t{kDescriptors});
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("sessions, all that this process may have"));
  EXPECT_EQ(JoinSoon().members.size(), 1u);
}

// Each keeps its session, as if it did not hear that it is to leave. Connections may run out for a
// moment, because those that have gone are noticed late.
TEST_F(Crowd, OfThoseTurnedAwayTakesOnlyTheirOwnPlaces) {
  ASSERT_TRUE(program_.listens());
  ASSERT_EQ(MakeRestClient(program_.http())->Submit("a", kSpec).code, "ok");
  const auto transport = MakeGrpcTransport({});
  std::deque<ScriptedMember> strangers;
  for (int i = 0; i < kCrowd; ++i) {
    strangers.emplace_back(*transport, program_.grpc(),
                           MemberId{"worker-" + std::to_string(i), {}});
    strangers.back().Say(AskJob{"none", strangers.back().id().name});
    if (strangers.back().HeardBeforeBroken()) continue;
    ASSERT_THAT(std::string(strangers.back().Broken().message()),
                ::testing::Not(HasSubstr("sessions, all that this process may have")))
        << "of stranger " << i;
  }
  EXPECT_EQ(JoinSoon().members.size(), 1u);
}

TEST(TooFewDescriptors, AreRefusedAtTheStart) {
  const std::string dir = ::testing::TempDir() + "few-" + std::to_string(getpid());
  Program program(dir, {}, 64);
  EXPECT_FALSE(program.listens());
  EXPECT_EQ(program.Wait(), 64);
  EXPECT_THAT(program.Said(), HasSubstr("ulimit -n"));
  std::filesystem::remove_all(dir);
  std::filesystem::remove(dir + ".log");
}

}  // namespace
}  // namespace muster::coordinator
