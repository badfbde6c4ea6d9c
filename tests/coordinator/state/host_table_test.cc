#include "coordinator/state/host_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration kLease = seconds(2);
const Time kStart = Time(seconds(1000));

AgentHello Hello(const std::string& host, uint64_t life, uint64_t follows = 0) {
  AgentHello hello{.agent = {host, {life, 7}}, .node = host, .slots = 4};
  if (follows > 0) hello.follows = {follows, 7};
  return hello;
}

std::vector<HostStatus> StatusOf(const HostTable& hosts) {
  return hosts.Status(hosts.KeptOff(hosts.Rooms()));
}

TEST(HostTable, KnowsTheRoomOfWhoeverIsThere) {
  HostTable hosts(0, kLease);
  EXPECT_THAT(hosts.Rooms(), IsEmpty());
  EXPECT_EQ(hosts.Up(Hello("a", 1), false, kStart), "");
  ASSERT_EQ(hosts.Rooms().size(), 1u);
  EXPECT_EQ(hosts.Rooms()[0].slots, 4);
  EXPECT_TRUE(hosts.Rooms()[0].takes_new);
  EXPECT_TRUE(hosts.Down({"a", {1, 7}}, kStart));
  EXPECT_FALSE(hosts.Rooms()[0].takes_new);
  EXPECT_THAT(hosts.Agents(), IsEmpty());
  hosts.Forget("a");
  EXPECT_THAT(hosts.Rooms(), IsEmpty());
}

TEST(HostTable, SaysWhenSomethingElseIsToBeSeen) {
  HostTable hosts(2, kLease);
  const auto changed_by = [&](const auto& change) {
    hosts.TakeChanged();
    change();
    const bool changed = hosts.TakeChanged();
    EXPECT_FALSE(hosts.TakeChanged()) << "it was told";
    return changed;
  };
  const AgentId agent{"a", {1, 7}};
  EXPECT_TRUE(changed_by([&] { hosts.Up(Hello("a", 1), false, kStart); }));
  EXPECT_FALSE(changed_by([&] { hosts.SilentFor(kLease, kStart); }));
  EXPECT_TRUE(changed_by([&] { hosts.Down(agent, kStart + seconds(1)); }));
  ASSERT_EQ(StatusOf(hosts).size(), 1u) << "its own slots are no host to be seen";
  EXPECT_EQ(StatusOf(hosts)[0].name, "a");
  EXPECT_EQ(StatusOf(hosts)[0].slots, 4);
  EXPECT_FALSE(StatusOf(hosts)[0].up);
  EXPECT_EQ(StatusOf(hosts)[0].away_since, kStart + seconds(1));
  EXPECT_FALSE(changed_by([&] { hosts.Down(agent, kStart + seconds(2)); }));
  EXPECT_FALSE(changed_by([&] { hosts.Forget("b"); }));
  EXPECT_TRUE(changed_by([&] { hosts.Forget("a"); }));
}

TEST(HostTable, ItsOwnSlotsAreAHostWithoutAName) {
  ASSERT_EQ(HostTable(3, kLease).Rooms().size(), 1u);
  EXPECT_EQ(HostTable(3, kLease).Rooms()[0].name, "");
  EXPECT_EQ(HostTable(3, kLease).Rooms()[0].slots, 3);
}

TEST(HostTable, OneAgentSpeaksForAHost) {
  struct Case {
    const char* what;
    bool is_up;        // the one before
    Duration away;     // if it is not
    bool lives;        // a member that it started may
    uint64_t follows;  // whom the newcomer follows
    bool may_speak;
  };
  const Case cases[] = {
      {"the one before is there", true, {}, false, 0, false},
      {"it is there, but ended, as the newcomer knows", true, {}, false, 1, true},
      {"its lease is not over", false, kLease, false, 0, false},
      {"its lease is over", false, kLease + milliseconds(1), false, 0, true},
      {"its lease is over, and a member of it may live", false, seconds(60), true, 0, false},
      {"it has ended, and only members of others may live", false, {}, true, 1, false},
      {"it has ended", false, {}, false, 1, true},
      {"the newcomer follows another one", false, {}, false, 9, false},
  };
  for (const Case& c : cases) {
    HostTable hosts(0, kLease);
    ASSERT_EQ(hosts.Up(Hello("a", 1), false, kStart), "");
    if (!c.is_up) {
      ASSERT_TRUE(hosts.Down({"a", {1, 7}}, kStart));
    }
    const std::string why = hosts.Up(Hello("a", 2, c.follows), c.lives, kStart + c.away);
    EXPECT_EQ(why.empty(), c.may_speak) << c.what << ": " << why;
    if (!c.may_speak) {
      EXPECT_THAT(why, HasSubstr("--host")) << c.what;
    }
    EXPECT_EQ(hosts.Speaks({"a", {2, 7}}), c.may_speak) << c.what;
    EXPECT_EQ(hosts.Speaks({"a", {1, 7}}), !c.may_speak && c.is_up) << c.what;
  }
}

TEST(HostTable, TheSameAgentComesBackAtOnce) {
  HostTable hosts(0, kLease);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(hosts.Up(Hello("a", 1), true, kStart), "");
}

TEST(HostTable, TheEndOfAnEarlierAgentsSessionChangesNothing) {
  HostTable hosts(0, kLease);
  ASSERT_EQ(hosts.Up(Hello("a", 1), false, kStart), "");
  ASSERT_EQ(hosts.Up(Hello("a", 2, 1), false, kStart), "");
  EXPECT_FALSE(hosts.Down({"a", {1, 7}}, kStart));
  EXPECT_TRUE(hosts.Speaks({"a", {2, 7}}));
}

TEST(HostTable, SilenceCountsFromTheEndOfTheSessionWithoutOurOwnGaps) {
  HostTable hosts(0, kLease);
  hosts.Expect({"expected", {1, 7}}, {}, kStart);
  ASSERT_EQ(hosts.Up(Hello("a", 1), false, kStart), "");
  ASSERT_EQ(hosts.Up(Hello("b", 1), false, kStart), "");
  hosts.Down({"a", {1, 7}}, kStart + seconds(5));
  EXPECT_THAT(hosts.SilentFor(seconds(20), kStart + seconds(20)), ElementsAre("expected"));
  EXPECT_THAT(hosts.SilentFor(seconds(20), kStart + seconds(25)), ElementsAre("a", "expected"));
  hosts.HeldUp(seconds(10), kStart + seconds(25));
  EXPECT_THAT(hosts.SilentFor(seconds(20), kStart + seconds(25)), IsEmpty());
  EXPECT_THAT(hosts.SilentFor(seconds(20), kStart + seconds(30)), ElementsAre("expected"));
}

TEST(HostTable, WhoLeavesWhileNothingIsHandledHasBeenAwaySinceNow) {
  HostTable hosts(0, kLease);
  ASSERT_EQ(hosts.Up(Hello("a", 1), false, kStart), "");
  hosts.Down({"a", {1, 7}}, kStart);
  hosts.HeldUp(seconds(3600), kStart);
  EXPECT_THAT(hosts.SilentFor(seconds(20), kStart + seconds(20)), ElementsAre("a"));
}

// The journal says which agent was told to run what runs there.
TEST(HostTable, OfAnExpectedHostItsOwnAgentSpeaksAndWhoFollowsIt) {
  HostTable hosts(0, kLease);
  hosts.Expect({"a", {1, 7}}, {"0", "1"}, kStart);
  EXPECT_THAT(hosts.Up(Hello("a", 2), false, kStart), HasSubstr("another agent"));
  EXPECT_TRUE(hosts.AwaitsAnother("b"));
  EXPECT_FALSE(hosts.AwaitsAnother("a"));
  EXPECT_THAT(hosts.OthersOf({"b", {3, 7}}, {1, 7}), ElementsAre("a"));
  EXPECT_THAT(hosts.OthersOf({"b", {3, 7}}, {}), IsEmpty());
  EXPECT_EQ(hosts.Up(Hello("a", 3, 1), false, kStart), "");
  EXPECT_FALSE(hosts.AwaitsAnother("b"));
}

// Then it is more likely cut off than alone. One that has not come back may be on any machine.
TEST(HostTable, KnowsWhenItHearsNoOtherMachine) {
  for (const std::string own : {"", "a"}) {
    HostTable hosts(0, kLease);
    EXPECT_FALSE(hosts.HearsNoOther(own)) << "there is no other";
    hosts.Expect({"b", {1, 7}}, {}, kStart);
    EXPECT_TRUE(hosts.HearsNoOther(own));
    hosts.Up(Hello("b", 1), false, kStart);
    EXPECT_FALSE(hosts.HearsNoOther(own));
    hosts.Down({"b", {1, 7}}, kStart);
    EXPECT_TRUE(hosts.HearsNoOther(own));
    EXPECT_FALSE(hosts.HearsNoOther("b")) << "it is this machine";
  }
}

TEST(HostTable, JobsAreKeptOffWhatIsLeftOutAsLongAsAnotherHostRemains) {
  HostTable hosts(0, kLease);
  for (const char* name : {"a", "b"}) ASSERT_EQ(hosts.Up(Hello(name, 1), false, kStart), "");
  EXPECT_FALSE(hosts.LeaveOut("x", "nobody knows it"));
  EXPECT_TRUE(hosts.LeaveOut("a", "why"));
  EXPECT_FALSE(hosts.LeaveOut("a", "why"));
  EXPECT_THAT(hosts.KeptOff(hosts.Rooms()), ElementsAre("a"));
  EXPECT_EQ(StatusOf(hosts)[0].left_out, "why");
  EXPECT_TRUE(hosts.LeaveOut("b", "why"));
  EXPECT_THAT(hosts.KeptOff(hosts.Rooms()), IsEmpty());
  EXPECT_EQ(StatusOf(hosts)[0].left_out, "");
  ASSERT_EQ(hosts.Up(Hello("c", 1), false, kStart), "");
  EXPECT_THAT(hosts.KeptOff(hosts.Rooms()), ElementsAre("a", "b"));
  hosts.Drain("c", true);
  EXPECT_THAT(hosts.KeptOff(hosts.Rooms()), IsEmpty()) << "nothing would be left";
  hosts.Drain("c", false);
  hosts.Forget("a");
  EXPECT_EQ(StatusOf(hosts)[0].left_out, "why") << "until somebody lets it back";
  EXPECT_TRUE(hosts.LetBack("a"));
  EXPECT_FALSE(hosts.LetBack("a"));
  EXPECT_THAT(hosts.KeptOff(hosts.Rooms()), ElementsAre("b"));
}

// Jobs of a namespace run nowhere else: its only host is taken all the same, whoever has others.
TEST(HostTable, OfEachNamespaceAHostRemains) {
  HostTable hosts(0, kLease, {}, {{"a", "why"}, {"c", "why"}});
  for (const char* name : {"a", "b", "c"}) ASSERT_EQ(hosts.Up(Hello(name, 1), false, kStart), "");
  std::vector<HostRoom> rooms = hosts.Rooms();
  EXPECT_THAT(hosts.KeptOff(rooms), ElementsAre("a", "c"));
  for (HostRoom& room : rooms) room.name_space = room.name == "c" ? "vision" : "speech";
  EXPECT_THAT(hosts.KeptOff(rooms), ElementsAre("a"));
}

// It says all of them each time: what it does not name is not held any more.
TEST(HostTable, DevicesAreHeldAsItsAgentSaidLast) {
  HostTable hosts(0, kLease);
  hosts.Expect({"a", {1, 7}}, {"2", "0"}, kStart);
  EXPECT_THAT(hosts.Rooms()[0].devices, ElementsAre("2", "0")) << "as many as are placed there";
  AgentHello hello = Hello("a", 1);
  hello.devices = {{"0", PlacementNumber(5)}, {"1"}, {"2"}};
  ASSERT_EQ(hosts.Up(hello, false, kStart), "");
  EXPECT_THAT(hosts.Rooms()[0].devices, ElementsAre("0", "1", "2"));
  EXPECT_THAT(hosts.Rooms()[0].held, ElementsAre("0"));
  EXPECT_TRUE(
      hosts.Hold(hello.agent, {{"0"}, {"1", PlacementNumber(6)}, {"x", PlacementNumber(7)}}));
  EXPECT_THAT(hosts.Rooms()[0].held, ElementsAre("1"));
  EXPECT_EQ(StatusOf(hosts)[0].devices[1], (HostDevice{"1", PlacementNumber(6)}));
  EXPECT_FALSE(hosts.Hold(hello.agent, {{"1", PlacementNumber(6)}})) << "as before";
  EXPECT_FALSE(hosts.Hold({"a", {9, 7}}, {})) << "it does not speak for the host";
  EXPECT_TRUE(hosts.Hold(hello.agent, {}));
  EXPECT_THAT(hosts.Rooms()[0].held, IsEmpty());
}

TEST(HostTable, HasABound) {
  HostTable hosts(0, kLease);
  for (size_t i = 0; i < kMostHosts; ++i)
    ASSERT_EQ(hosts.Up(Hello("a" + std::to_string(i), 1), false, kStart), "");
  EXPECT_THAT(hosts.Up(Hello("more", 1), false, kStart), HasSubstr("4096 hosts"));
}

}  // namespace
}  // namespace muster::coordinator
