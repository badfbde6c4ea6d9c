// Who may say what on a session, without a network.
#include "coordinator/runtime/member_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::coordinator {
namespace {

using testing::HasSubstr;

class KeptSession final : public Session {
 public:
  void Send(Frame) override {}
  void Close(absl::Status why) override { closed = std::move(why); }
  size_t QueuedBytes() const override { return 0; }
  std::string Peer() const override { return "the test"; }
  absl::Status closed;
};

class MemberSessionsTest : public ::testing::Test {
 protected:
  std::shared_ptr<KeptSession> Open(SessionId id) {
    auto session = std::make_shared<KeptSession>();
    sessions_.Opened(id, session, Time());
    return session;
  }

  std::vector<SessionId> asked_;
  MemberSessions sessions_{
      {.input = [](const Input&) {},
       .asked = [this](SessionId id, const AskJob&) { asked_.push_back(id); }}};
};

TEST_F(MemberSessionsTest, WhoAsksAgainBeforeItIsAnsweredIsSentAway) {
  const auto session = Open(1);
  sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}));
  EXPECT_TRUE(session->closed.ok());
  sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}));
  EXPECT_THAT(session->closed.message(), HasSubstr("again before it was answered"));
  EXPECT_THAT(asked_, testing::ElementsAre(1));
}

TEST_F(MemberSessionsTest, WhoWasAnsweredMayAskAgain) {
  const auto session = Open(1);
  for (int i = 0; i < 2; ++i) {
    sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}));
    sessions_.Answer(1, JobIs{.job = "a"});
  }
  EXPECT_TRUE(session->closed.ok());
  EXPECT_THAT(asked_, testing::ElementsAre(1, 1));
}

}  // namespace
}  // namespace muster::coordinator
