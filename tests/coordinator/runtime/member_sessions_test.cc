// Who may say what on a session, without a network.
#include "coordinator/runtime/member_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

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
  std::optional<PeerName> ProvenPeer() const override { return proven; }
  std::string ProvenKey() const override { return key; }
  std::optional<PeerName> proven;
  std::string key;
  absl::Status closed;
  bool admitted = false;
};

constexpr Duration kTick = std::chrono::milliseconds(1);
constexpr size_t kRoom = 4;

const Time kCame = Time(std::chrono::seconds(3));
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

class MemberSessionsTest : public ::testing::Test {
 protected:
  std::shared_ptr<KeptSession> Open(SessionId id, std::optional<PeerName> proven = {},
                                    std::string key = "key1") {
    auto session = std::make_shared<KeptSession>();
    session->key = proven ? std::move(key) : "";
    session->proven = std::move(proven);
    sessions_.Opened(id, session, Time(), [this](Time) { return heard_; });
    return session;
  }

  Time heard_{};
  std::vector<SessionId> asked_;
  std::vector<std::optional<ProcessName>> processes_;  // that asked, as they proved
  std::vector<MemberId> down_;
  std::vector<std::string> holders_;
  std::vector<std::optional<Time>> came_;
  MemberSessions sessions_{
      {.input =
           [this](const Input& input) {
             if (const auto* down = std::get_if<MemberDown>(&input)) down_.push_back(down->member);
             if (const auto* says = std::get_if<MemberSays>(&input)) came_.push_back(says->came);
             if (const auto* told = std::get_if<DevicesTold>(&input))
               holders_.push_back(told->agent.host + " " + told->devices.at(0).id);
           },
       .asked =
           [this](SessionId id, const AskJob&, const std::optional<ProcessName>& proven) {
             asked_.push_back(id);
             processes_.push_back(proven);
           },
       .why_not_heard =
           [](const std::string& host, const std::string& key) {
             return key == "key1" ? "" : absl::StrCat("another key of ", host);
           }},
      kRoom,
      [] { return kNow; }};
};

TEST_F(MemberSessionsTest, WhoAsksAgainBeforeItIsAnsweredIsSentAway) {
  const auto session = Open(1);
  sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}), kCame);
  EXPECT_TRUE(session->closed.ok());
  EXPECT_THAT(processes_, testing::ElementsAre(std::nullopt)) << "it has no certificate";
  sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}), kCame);
  EXPECT_THAT(session->closed.message(), HasSubstr("again before it was answered"));
  EXPECT_THAT(asked_, testing::ElementsAre(1));
}

// Each refused one has a twin that is taken, which differs in the name alone.
TEST_F(MemberSessionsTest, WhereThereAreCertificatesWhoSpeaksForAnotherIsSentAway) {
  const auto member = [](const std::string& name, int64_t placement) {
    return PeerName{"c1", MemberPeer{"a", name, PlacementNumber(placement), {1, 1}}};
  };
  Join join;
  join.job = "a";
  join.id = {"worker-0", {1, 1}};
  join.placement = PlacementNumber(3);
  const AtCoordinator ask = ToCoordinator(AskJob{"a", "worker-0"});
  const AtCoordinator hello =
      FromAgent(AgentHello{.agent = {"alpha", {2, 2}}, .now_unix_ms = absl::ToUnixMillis(kNow)});
  struct Case {
    AtCoordinator says;
    PeerName may, may_not;
  };
  const Case cases[] = {
      {ask, member("worker-0", 3), member("worker-1", 3)},
      {ToCoordinator(join), member("worker-0", 3), member("worker-0", 4)},
      {ToCoordinator(join), member("worker-0", 3), {"c1", UserPeer{"worker-0"}}},
      {hello, {"c1", HostPeer{"alpha"}}, {"c1", HostPeer{"beta"}}},
      {hello, {"c1", HostPeer{"alpha"}}, {"c1", CoordinatorPeer{}}},
  };
  SessionId next = 0;
  for (const Case& one : cases) {
    const auto taken = Open(++next, one.may);
    sessions_.Said(next, one.says, kCame);
    EXPECT_TRUE(taken->closed.ok()) << next << ": " << taken->closed;
    sessions_.Broken(next);
    const auto refused = Open(++next, one.may_not);
    sessions_.Said(next, one.says, kCame);
    EXPECT_EQ(refused->closed.code(), absl::StatusCode::kPermissionDenied) << next;
    EXPECT_FALSE(refused->admitted);
  }
  EXPECT_THAT(asked_, testing::ElementsAre(1));
  EXPECT_THAT(processes_,
              testing::ElementsAre(ProcessName{"a", "worker-0", PlacementNumber(3), {1, 1}}));
}

TEST_F(MemberSessionsTest, ASecondKeyOfAHostIsNotHeardAndTakesNoSessionOver) {
  const PeerName alpha{"c1", HostPeer{"alpha"}};
  const AtCoordinator hello =
      FromAgent(AgentHello{.agent = {"alpha", {2, 2}}, .now_unix_ms = absl::ToUnixMillis(kNow)});
  const auto first = Open(1, alpha);
  sessions_.Said(1, hello, kCame);
  const auto twin = Open(2, alpha, "key2");
  sessions_.Said(2, hello, kCame);
  EXPECT_EQ(twin->closed.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(twin->closed.message(), HasSubstr("another key of alpha"));
  EXPECT_FALSE(twin->admitted);
  EXPECT_TRUE(first->closed.ok()) << first->closed;
  const auto again = Open(3, alpha);
  sessions_.Said(3, hello, kCame);
  EXPECT_TRUE(again->closed.ok()) << again->closed;
  EXPECT_FALSE(first->closed.ok()) << "the same agent with the same key has one session";
}

TEST_F(MemberSessionsTest, WhereThereAreCertificatesClocksFarApartAreRefused) {
  const auto says = [](absl::Duration apart) {
    return FromAgent(
        AgentHello{.agent = {"alpha", {2, 2}}, .now_unix_ms = absl::ToUnixMillis(kNow + apart)});
  };
  const PeerName alpha{"c1", HostPeer{"alpha"}};
  SessionId next = 0;
  for (const absl::Duration apart : {-absl::Minutes(6), absl::Minutes(6), absl::Hours(48)}) {
    const auto refused = Open(++next, alpha);
    sessions_.Said(next, says(apart), kCame);
    EXPECT_THAT(refused->closed.message(), HasSubstr("by the clock here it is 2023-11-14 22:13:20"))
        << apart;
    const auto plain = Open(++next);
    sessions_.Said(next, says(apart), kCame);
    EXPECT_TRUE(plain->closed.ok()) << apart << ": nobody needs clocks without certificates";
  }
  for (const absl::Duration apart : {-absl::Minutes(4), absl::Minutes(4)}) {
    const auto taken = Open(++next, alpha);
    sessions_.Said(next, says(apart), kCame);
    EXPECT_TRUE(taken->closed.ok()) << taken->closed;
  }
}

TEST_F(MemberSessionsTest, WhoWasAnsweredMayAskAgain) {
  const auto session = Open(1);
  for (int i = 0; i < 2; ++i) {
    sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0"}), kCame);
    sessions_.Answer(1, JobIs{.job = "a"}, Time());
  }
  EXPECT_TRUE(session->closed.ok());
  EXPECT_THAT(asked_, testing::ElementsAre(1, 1));
}

TEST_F(MemberSessionsTest, WhoWasToldItsJobPreparesUntilItJoinsOrIsGone) {
  using Names = std::map<std::string, PreparingProcesses>;
  const auto ask = [&](SessionId id, const std::string& name) {
    sessions_.Said(id, ToCoordinator(AskJob{"a", name}), kCame);
  };
  const std::vector<std::shared_ptr<KeptSession>> open = {Open(1), Open(2), Open(3)};
  ask(1, "worker-0");
  ask(2, "worker-1");
  ask(3, "worker-2");
  EXPECT_EQ(sessions_.Preparing(), Names());
  sessions_.Answer(1, JobIs{.job = "a"}, Time());
  sessions_.Answer(2, JobIs{.job = "a"}, Time());
  sessions_.Answer(3, Leave{TermNumber(1), 1, "nobody wants it"}, Time());
  EXPECT_EQ(sessions_.Preparing(), (Names{{"a", {{"worker-0", {}}, {"worker-1", {}}}}}));
  Join join;
  join.job = "a";
  join.id = {"worker-0", {1, 1}};
  sessions_.Said(1, ToCoordinator(join), kCame);
  EXPECT_EQ(sessions_.Preparing(), (Names{{"a", {{"worker-1", {}}}}}));
  sessions_.Broken(2);
  EXPECT_EQ(sessions_.Preparing(), Names());
}

TEST_F(MemberSessionsTest, WhoAsksAgainSaysHowFarItIsAndStaysWhatItWas) {
  const auto session = Open(1);
  const auto ask = [&](std::optional<HowFar> how_far) {
    sessions_.Said(1, ToCoordinator(AskJob{"a", "worker-0", {}, std::move(how_far)}), kCame);
  };
  const auto told = [&]() -> std::optional<HowFar> {
    const auto preparing = sessions_.Preparing();
    EXPECT_TRUE(preparing.contains("a")) << "nobody prepares";
    return preparing.contains("a") ? preparing.at("a").at("worker-0") : std::nullopt;
  };
  ask(std::nullopt);
  sessions_.Answer(1, JobIs{.job = "a"}, Time());
  EXPECT_EQ(told(), std::nullopt);
  for (const int32_t percent : {1, 2}) {
    const HowFar how_far{.percent = percent, .what = "merge 84 of 200"};
    ask(how_far);
    EXPECT_EQ(told(), how_far) << "before it is answered";
    EXPECT_TRUE(sessions_.WaitsForEnvironment("a"));
    sessions_.Answer(1, JobIs{.job = "a"}, Time());
    EXPECT_EQ(told(), how_far);
  }
  ask(std::nullopt);
  EXPECT_EQ(told(), std::nullopt) << "it is over";
  EXPECT_TRUE(session->closed.ok()) << session->closed;
  ask(HowFar{.percent = 3});
  EXPECT_FALSE(session->closed.ok()) << "it was not answered yet";
  EXPECT_TRUE(sessions_.Preparing().empty()) << "it goes with its session";
}

TEST_F(MemberSessionsTest, WhoSaysNothingIsClosedInTime) {
  const MemberId member{"worker-0", {1, 1}};
  const ToCoordinator ask = AskJob{"a", "worker-0"};
  Join join;
  join.job = "a";
  join.id = member;
  constexpr Duration kHour = std::chrono::hours(1);
  const Leave leave{TermNumber(1), 1, "nobody wants it"};
  const auto asks = [&] { sessions_.Said(1, ask, kCame); };
  const auto asks_in_vain = [&] {
    sessions_.Said(1, ask, kCame);
    sessions_.Answer(1, leave, Time() + kHour);
  };
  const auto joins = [&] { sessions_.Said(1, ToCoordinator(join), kCame); };
  const auto is_turned_away = [&] {
    sessions_.Said(1, ToCoordinator(join), kCame);
    sessions_.Tell(member, leave, Time() + kHour);
  };
  const auto comes_again = [&] {
    is_turned_away();
    sessions_.Said(1, ToCoordinator(join), kCame);
    sessions_.Tell(member, leave, Time() + kHour + kLeavePatience - kTick);
  };
  const auto sees_the_end = [&] {
    sessions_.Said(1, ToCoordinator(join), kCame);
    sessions_.TellAll({member}, leave, Time() + kHour);
  };
  const auto is_agent = [&] {
    sessions_.Said(1, FromAgent(AgentHello{.agent = {"here", {}}, .slots = 1}), kCame);
  };
  struct Row {
    std::string name;
    std::function<void()> speak;
    Duration silence;
    bool closed;
  };
  for (const Row& row :
       {Row{"greeting", [] {}, kGreetingPatience - kTick, false},
        Row{"no greeting", [] {}, kGreetingPatience, true},
        Row{"preparing", asks, kJoinPatience - kTick, false},
        Row{"asked, then silent", asks, kJoinPatience, true},
        Row{"reads that its job is none", asks_in_vain, kHour + kLeavePatience - kTick, false},
        Row{"stays though its job is none", asks_in_vain, kHour + kLeavePatience, true},
        Row{"a member, whose lease others judge", joins, 100 * kHour, false},
        Row{"reads that it is turned away", is_turned_away, kHour + kLeavePatience - kTick, false},
        Row{"stays though it is turned away", is_turned_away, kHour + kLeavePatience, true},
        Row{"comes again and again", comes_again, kHour + kLeavePatience, true},
        Row{"reads that its job is over", sees_the_end, kHour + kLeavePatience - kTick, false},
        Row{"stays though its job is over", sees_the_end, kHour + kLeavePatience, true},
        Row{"an agent", is_agent, 100 * kHour, false}}) {
    const auto session = Open(1);
    row.speak();
    const bool was_member = sessions_.members() > 0;
    down_.clear();
    sessions_.CloseSilent(Time() + row.silence);
    EXPECT_EQ(!session->closed.ok(), row.closed) << row.name;
    EXPECT_EQ(down_.size(), was_member && row.closed ? 1u : 0u) << row.name;
    sessions_.Broken(1);
    EXPECT_EQ(sessions_.members(), 0u) << row.name;
  }
}

// m: a member's, a: a host agent's, l: told to leave, s: silent, q: asked for its job.
TEST_F(MemberSessionsTest, WherePlacesRunShortThoseOfNobodyAreClosedFirst) {
  const auto speak = [&](SessionId id, char as) {
    const MemberId member{absl::StrCat("worker-", id), {1, static_cast<uint64_t>(id)}};
    Join join;
    join.id = member;
    if (as == 'q') sessions_.Said(id, ToCoordinator(AskJob{"a", member.name}), kCame);
    if (as == 'm' || as == 'l') sessions_.Said(id, ToCoordinator(join), kCame);
    if (as == 'l') sessions_.Tell(member, Leave{TermNumber(1), 1, "nobody wants it"}, Time());
    if (as == 'a')
      sessions_.Said(
          id, FromAgent(AgentHello{.agent = {absl::StrCat("node-", id), {}}, .slots = 1}), kCame);
  };
  struct Row {
    std::string there;  // the oldest first
    SessionId closed;   // for one more; 0: none
  };
  for (const Row& row :
       {Row{"mmml", 4}, Row{"lmml", 1}, Row{"slml", 2}, Row{"smam", 1}, Row{"qsmq", 2},
        Row{"mqqm", 2}, Row{"mama", 0}, Row{"mmmmm", 0}, Row{"mmls", 3}, Row{"lsq", 0}}) {
    std::map<SessionId, std::shared_ptr<KeptSession>> there;
    for (const char as : row.there) {
      const auto id = static_cast<SessionId>(there.size() + 1);
      there[id] = Open(id);
      speak(id, as);
    }
    down_.clear();
    const auto last = Open(100);
    for (const auto& [id, session] : there)
      EXPECT_EQ(!session->closed.ok(), id == row.closed) << row.there << ", session " << id;
    EXPECT_TRUE(last->closed.ok()) << row.there;
    const bool was_turned_away =
        row.closed != 0 && row.there[static_cast<size_t>(row.closed - 1)] == 'l';
    EXPECT_EQ(down_.size(), was_turned_away ? 1u : 0u) << row.there;
    sessions_.CloseAll(absl::CancelledError("the next row"));
  }
}

TEST_F(MemberSessionsTest, ASessionIsOfOneAgent) {
  const auto session = Open(1);
  for (int i = 0; i < 2; ++i) {
    sessions_.Said(1, FromAgent(AgentHello{.agent = {"here", {}}, .slots = 1}), kCame);
    EXPECT_TRUE(session->closed.ok()) << "hello no. " << i;
  }
  sessions_.Said(1, FromAgent(AgentHello{.agent = {"elsewhere", {}}, .slots = 1}), kCame);
  EXPECT_THAT(session->closed.message(), HasSubstr("spoke as that of elsewhere"));
}

TEST_F(MemberSessionsTest, AnAgentTellsOfItsOwnDevices) {
  const auto session = Open(1);
  sessions_.Said(1, FromAgent(AgentHello{.agent = {"here", {}}, .slots = 1}), kCame);
  sessions_.Said(1, FromAgent(DevicesHeld{{{"0"}}}), kCame);
  EXPECT_THAT(holders_, testing::ElementsAre("here 0"));
  const auto stranger = Open(2);
  sessions_.Said(2, FromAgent(DevicesHeld{{{"0"}}}), kCame);
  EXPECT_THAT(stranger->closed.message(), HasSubstr("not AgentHello"));
}

TEST_F(MemberSessionsTest, WhoSaysWhoItIsIsAdmitted) {
  struct Row {
    std::string name;
    AtCoordinator first;
    bool admitted;
  };
  Join join;
  join.id = {"worker-0", {1, 1}};
  for (const Row& row :
       {Row{"asks", ToCoordinator(AskJob{"a", "worker-0"}), false},
        Row{"joins", ToCoordinator(join), true},
        Row{"agent", FromAgent(AgentHello{.agent = {"here", {}}, .slots = 1}), true},
        Row{"neither", ToCoordinator(Alive{}), false}}) {
    const auto session = Open(1);
    sessions_.Said(1, row.first, kCame);
    EXPECT_EQ(session->admitted, row.admitted) << row.name;
  }
}

TEST_F(MemberSessionsTest, TellsWhenAMemberWasHeard) {
  Open(1);
  const MemberId member{"worker-0", {1, 1}};
  Join join;
  join.id = member;
  EXPECT_THAT(sessions_.WhenMembersWereHeard(Time()), testing::IsEmpty()) << "who speaks?";
  sessions_.Said(1, ToCoordinator(join), kCame);
  EXPECT_THAT(came_, testing::ElementsAre(kCame));
  heard_ = Time(std::chrono::seconds(7));
  EXPECT_THAT(sessions_.WhenMembersWereHeard(Time(std::chrono::seconds(9))),
              testing::ElementsAre(testing::Pair(member, heard_)));
}

}  // namespace
}  // namespace muster::coordinator
