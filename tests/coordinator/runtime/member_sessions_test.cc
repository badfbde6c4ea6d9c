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
  void Admit() override { admitted = true; }
  void Close(absl::Status why) override { closed = std::move(why); }
  size_t QueuedBytes() const override { return 0; }
  std::string Peer() const override { return "the test"; }
  absl::Status closed;
  bool admitted = false;
};

constexpr Duration kTick = std::chrono::milliseconds(1);

class MemberSessionsTest : public ::testing::Test {
 protected:
  std::shared_ptr<KeptSession> Open(SessionId id) {
    auto session = std::make_shared<KeptSession>();
    sessions_.Opened(id, session, Time(), [this](Time) { return heard_; });
    return session;
  }

  Time heard_{};
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

TEST_F(MemberSessionsTest, WhoSaysNothingIsClosedInTime) {
  struct Row {
    std::string name;
    bool asks;
    Duration silence;
    bool closed;
  };
  for (const Row& row : {Row{"greeting", false, kGreetingPatience - kTick, false},
                         Row{"no greeting", false, kGreetingPatience, true},
                         Row{"preparing", true, kJoinPatience - kTick, false},
                         Row{"asked, then silent", true, kJoinPatience, true}}) {
    const auto session = Open(1);
    if (row.asks) sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}));
    sessions_.CloseSilent(Time() + row.silence);
    EXPECT_EQ(!session->closed.ok(), row.closed) << row.name;
  }
}

TEST_F(MemberSessionsTest, WhoSaysWhoItIsIsAdmitted) {
  struct Row {
    std::string name;
    AtCoordinator first;
    bool admitted;
  };
  Join join;
  join.id = {"worker-0", {1, 1}};
  for (const Row& row : {Row{"asks", ToCoordinator(AskJob{"a", "worker-0"}), false},
                         Row{"joins", ToCoordinator(join), true},
                         Row{"agent", FromAgent(AgentHello{.node = "here", .slots = 1}), true},
                         Row{"neither", ToCoordinator(Alive{}), false}}) {
    const auto session = Open(1);
    sessions_.Said(1, row.first);
    EXPECT_EQ(session->admitted, row.admitted) << row.name;
  }
}

TEST_F(MemberSessionsTest, TellsWhenAMemberWasHeard) {
  Open(1);
  const MemberId member{"worker-0", {1, 1}};
  Join join;
  join.id = member;
  EXPECT_THAT(sessions_.WhenMembersWereHeard(Time()), testing::IsEmpty()) << "who speaks?";
  sessions_.Said(1, ToCoordinator(join));
  heard_ = Time(std::chrono::seconds(7));
  EXPECT_THAT(sessions_.WhenMembersWereHeard(Time(std::chrono::seconds(9))),
              testing::ElementsAre(testing::Pair(member, heard_)));
}

}  // namespace
}  // namespace muster::coordinator
