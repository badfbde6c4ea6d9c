#include "lib/identity/may_say.h"

#include <gtest/gtest.h>

#include <vector>

namespace muster {
namespace {

const MemberId kMember{"w0", {5, 6}};
const PeerName kName{"c1", MemberPeer{"demo", "w0", PlacementNumber(3), kMember.incarnation}};
const PeerName kHost{"c1", HostPeer{"alpha"}};

Join JoinOf(const std::string& job, const MemberId& id, int64_t placement) {
  Join join;
  join.job = job;
  join.id = id;
  join.placement = PlacementNumber(placement);
  return join;
}

PeerMessage HelloFrom(const std::string& job, const MemberId& from) {
  return Hello{job, from, {"w1", {7, 8}}};
}

// Each refused one differs from one that is allowed in a single part of the name.
TEST(MaySay, WhoBeginsASessionBeginsItForItself) {
  EXPECT_TRUE(MaySay(kName, ToCoordinator(AskJob{"demo", "w0"})).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(AskJob{"demo", "w1"})).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(AskJob{"other", "w0"})).ok());

  EXPECT_TRUE(MaySay(kName, ToCoordinator(JoinOf("demo", kMember, 3))).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(JoinOf("other", kMember, 3))).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(JoinOf("demo", {"w1", {5, 6}}, 3))).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(JoinOf("demo", {"w0", {5, 7}}, 3))).ok());
  EXPECT_FALSE(MaySay(kName, ToCoordinator(JoinOf("demo", kMember, 4))).ok());

  EXPECT_TRUE(MaySay(kName, HelloFrom("demo", kMember)).ok());
  EXPECT_FALSE(MaySay(kName, HelloFrom("other", kMember)).ok());
  EXPECT_FALSE(MaySay(kName, HelloFrom("demo", {"w1", {5, 6}})).ok());
  EXPECT_FALSE(MaySay(kName, HelloFrom("demo", {"w0", {5, 7}})).ok());

  EXPECT_TRUE(MaySay(kHost, FromAgent(AgentHello{.agent = {"alpha", {}}})).ok());
  EXPECT_FALSE(MaySay(kHost, FromAgent(AgentHello{.agent = {"beta", {}}})).ok());
  EXPECT_TRUE(MaySay(kHost, FromAgent(DevicesHeld{})).ok());
}

template <class Variant, size_t... I>
std::vector<Variant> OneOfEach(std::index_sequence<I...>) {
  return {Variant(std::in_place_index<I>)...};
}
template <class Variant>
std::vector<Variant> OneOfEach() {
  return OneOfEach<Variant>(std::make_index_sequence<std::variant_size_v<Variant>>());
}

// Whatever the kind: of all names but one sort, nobody may say it.
TEST(MaySay, EachKindIsOfOneSortOfNames) {
  const PeerName coordinator{"c1", CoordinatorPeer{}}, user{"c1", UserPeer{"eve"}};
  for (const PeerName& other : {coordinator, user, kHost}) {
    for (const ToCoordinator& message : OneOfEach<ToCoordinator>())
      EXPECT_EQ(MaySay(other, message).code(), absl::StatusCode::kPermissionDenied);
    for (const PeerMessage& message : OneOfEach<PeerMessage>())
      EXPECT_EQ(MaySay(other, message).code(), absl::StatusCode::kPermissionDenied);
  }
  for (const PeerName& other : {coordinator, user, kName})
    for (const FromAgent& message : OneOfEach<FromAgent>())
      EXPECT_EQ(MaySay(other, message).code(), absl::StatusCode::kPermissionDenied);
}

TEST(MaySay, WhatFollowsSpeaksForTheOneWhoBegan) {
  EXPECT_TRUE(MaySay(kName, ToCoordinator(Alive{})).ok());
  EXPECT_TRUE(MaySay(kName, ToCoordinator(Records{})).ok());
  EXPECT_TRUE(MaySay(kName, PeerMessage(Fetch{})).ok());
  EXPECT_TRUE(MaySay(kHost, FromAgent(ProcessExited{})).ok());
  EXPECT_TRUE(MaySay(kHost, FromAgent(LogLines{})).ok());
  EXPECT_TRUE(MaySay(kHost, FromAgent(SignMember{})).ok());
}

}  // namespace
}  // namespace muster
