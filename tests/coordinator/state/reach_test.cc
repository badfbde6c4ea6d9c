#include "coordinator/state/reach.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

MemberId Id(const std::string& name) { return {name, {1, 1}}; }

std::vector<ViewMember> Members(const std::vector<std::string>& names) {
  std::vector<ViewMember> members;
  for (const std::string& name : names) members.push_back({.id = Id(name)});
  return members;
}

// Three members, of which A and B say of each other at times what a test gives.
class ReachTest : public testing::Test {
 protected:
  ReachTest() { reach_.Learn(ViewNumber(1), Members({"a", "b", "c"})); }
  void A(int64_t ms, std::vector<int32_t> names, int64_t view = 1) {
    now_ = Time(milliseconds(ms));
    reach_.Hear(Id("a"), {ViewNumber(view), std::move(names)}, now_);
  }
  void B(int64_t ms, std::vector<int32_t> names, int64_t view = 1) {
    now_ = Time(milliseconds(ms));
    reach_.Hear(Id("b"), {ViewNumber(view), std::move(names)}, now_);
  }
  // How long A and B have named each other; -1: they do not.
  int64_t Lasts() const {
    for (const NamedPair& pair : reach_.Pairs(now_))
      if (pair.a == Id("a") && pair.b == Id("b")) return pair.lasts / milliseconds(1);
    return -1;
  }

  Reach reach_{milliseconds(1000)};
  Time now_{};  // of the last word
};

TEST_F(ReachTest, BothMustNameEachOther) {
  A(0, {1});
  A(500, {1, 2});
  EXPECT_EQ(Lasts(), -1);
  B(600, {0});
  EXPECT_EQ(Lasts(), 0);
  A(1000, {1});
  B(1100, {0});
  EXPECT_EQ(Lasts(), 400) << "from the later first word to the earlier last one";
  EXPECT_THAT(reach_.Pairs(now_), ElementsAre(NamedPair{Id("a"), Id("b"), milliseconds(400)}));
}

TEST_F(ReachTest, AWordThatDoesNotNameEndsIt) {
  for (const int64_t ms : {0, 500, 1000}) A(ms, {1}), B(ms, {0});
  EXPECT_EQ(Lasts(), 1000);
  A(1500, {});
  EXPECT_EQ(Lasts(), -1);
  A(2000, {1});
  B(2000, {0});
  EXPECT_EQ(Lasts(), 0) << "it begins anew";
}

// It stood still, or its words were held up: nobody knows what was between.
TEST_F(ReachTest, APauseBeginsAnew) {
  for (const int64_t ms : {0, 500, 1000, 1500}) B(ms, {0});
  A(0, {1});
  A(1500, {1});
  EXPECT_EQ(Lasts(), 0);
}

TEST_F(ReachTest, OneThatHasFallenSilentIsNotCut) {
  A(0, {1}), B(0, {0});
  A(500, {1});
  for (const int64_t ms : {500, 1000, 1500}) B(ms, {0});
  EXPECT_EQ(Lasts(), 500);
  B(2000, {0});
  EXPECT_EQ(Lasts(), -1);
}

// All stood still, the coordinator, too: what was said before says nothing of now.
TEST_F(ReachTest, WordsOfLongAgoCutNobody) {
  for (const int64_t ms : {0, 500, 1000}) A(ms, {1}), B(ms, {0});
  EXPECT_EQ(Lasts(), 1000);
  now_ += milliseconds(1001);
  EXPECT_EQ(Lasts(), -1);
}

TEST_F(ReachTest, ItGoesOnOverViews) {
  A(0, {1}), B(0, {0});
  reach_.Learn(ViewNumber(2), Members({"b", "a"}));
  A(500, {0}, 2), B(500, {0});  // who has not heard of the next view speaks of the last one
  EXPECT_EQ(Lasts(), 500);
  A(900, {1}, 7), B(900, {0}, 0);  // says nothing: an unknown view, and none
  EXPECT_EQ(Lasts(), 500);
  A(1000, {0}, 2), B(1000, {1}, 2);
  EXPECT_EQ(Lasts(), 1000);
}

// Sessions that were there and broke, not such as were never made.
TEST_F(ReachTest, ItBrokeWhereBothReachedAllBeforeInThatView) {
  const auto broke = [&] {
    const std::vector<NamedPair> pairs = reach_.Pairs(now_);
    return pairs.size() == 1 && pairs[0].broke;
  };
  A(0, {}), B(0, {});
  A(500, {1}), B(500, {0});
  EXPECT_TRUE(broke());
  A(1000, {1}), B(1000, {0});
  EXPECT_TRUE(broke()) << "as long as it lasts";
  reach_.Learn(ViewNumber(2), Members({"a", "b", "c"}));
  A(1500, {1}, 2), B(1500, {0}, 2);
  EXPECT_TRUE(broke()) << "also over views";
  A(2000, {}, 2), B(2000, {0}, 2);
  A(2500, {1}, 2), B(2500, {0}, 2);
  EXPECT_TRUE(broke());
  A(3000, {}, 2), B(3000, {}, 2);
  reach_.Learn(ViewNumber(3), Members({"a", "b", "c"}));
  A(3500, {1}, 3), B(3500, {0}, 3);
  EXPECT_FALSE(broke()) << "in the new view nobody had reached all";
}

TEST_F(ReachTest, WhatAMemberLostWhileItWasSilentHasNotBroken) {
  A(0, {}), B(0, {});
  B(1000, {});
  A(1500, {1}), B(1500, {0});
  ASSERT_EQ(reach_.Pairs(now_).size(), 1u);
  EXPECT_FALSE(reach_.Pairs(now_)[0].broke);
}

TEST_F(ReachTest, IndicesBeyondTheViewAreNobodys) {
  A(0, {1, 3, 4000}), B(0, {0});
  EXPECT_EQ(Lasts(), 0);
}

TEST_F(ReachTest, WhoHasNoSessionBeginsAnew) {
  for (const int64_t ms : {0, 500}) A(ms, {1}), B(ms, {0});
  reach_.Forget(Id("b"));
  EXPECT_THAT(reach_.Pairs(now_), IsEmpty());
  A(1000, {1}), B(1000, {0});
  EXPECT_EQ(Lasts(), 0);
}

TEST(Exchange, IsWhatAStepNeeds) {
  View view;
  view.members = Members({"worker-0", "worker-1", "worker-2", "server-0", "server-1", "server-2"});
  for (size_t i = 3; i < 6; ++i) view.members[i].role = Role::kServer;
  view.lanes.holder_of = view.first_lanes.holder_of = {0, 1};
  view.owner_of = {4, 3, 5};
  EXPECT_FALSE(Exchange(view, Sync::kServer, 0, 1)) << "workers";
  EXPECT_TRUE(Exchange(view, Sync::kServer, 0, 5));
  EXPECT_FALSE(Exchange(view, Sync::kServer, 2, 5)) << "a spare";
  EXPECT_TRUE(Exchange(view, Sync::kServer, 3, 4)) << "the owner of chunk 0 gets the norms";
  EXPECT_FALSE(Exchange(view, Sync::kServer, 3, 5));
  view.members.resize(3);
  view.owner_of = {0, 1, 0};
  EXPECT_TRUE(Exchange(view, Sync::kAllreduce, 0, 1));
  EXPECT_FALSE(Exchange(view, Sync::kAllreduce, 0, 2)) << "a spare";
}

// "w0+" holds the state.
std::vector<Party> PartiesOf(const std::vector<std::string>& names) {
  std::vector<Party> parties;
  for (const std::string& name : names)
    parties.push_back({Id(name.substr(0, 2)), name[0] == 's' ? Role::kServer : Role::kWorker,
                       Rank(name[1] - '0'), name.size() > 2});
  return parties;
}

TEST(WhomToLeaveOut, Table) {
  struct Case {
    const char* what;
    Sync sync;
    std::vector<std::string> parties;
    std::vector<PartyPair> pairs;
    std::vector<Verdict> verdicts;
  };
  constexpr Sync kAll = Sync::kAllreduce, kServer = Sync::kServer;
  const Case cases[] = {
      {"nobody is cut", kAll, {"w0+", "w1+"}, {}, {}},
      {"nor for a session that only broke", kAll, {"w0+", "w1+"}, {{0, 1, false}}, {}},
      {"the higher rank goes", kAll, {"w0+", "w1+"}, {{0, 1, true}}, {{1, {0}}}},
      {"who does not hold the state goes", kAll, {"w0", "w1+"}, {{0, 1, true}}, {{0, {1}}}},
      {"nobody holds it", kAll, {"w0", "w1"}, {{0, 1, true}}, {{1, {0}}}},
      {"who cannot reach most goes",
       kAll,
       {"w0+", "w1+", "w2+"},
       {{0, 1, true}, {0, 2, true}},
       {{0, {1, 2}}}},
      {"the only copy stays, though it cannot reach most",
       kAll,
       {"w0+", "w1", "w2"},
       {{0, 1, true}, {0, 2, true}},
       {{2, {0}}, {1, {0}}}},
      {"what is not cut for long enough counts where others are",
       kAll,
       {"w0+", "w1+", "w2+"},
       {{0, 1, true}, {0, 2, false}},
       {{0, {1}}}},
      {"two groups: of equals the highest rank, until one group is gone",
       kAll,
       {"w0+", "w1+", "w2+", "w3+"},
       {{0, 2, true}, {0, 3, true}, {1, 2, true}, {1, 3, true}},
       {{3, {0, 1}}, {2, {0, 1}}}},
      {"all of three: one is left",
       kAll,
       {"w0+", "w1+", "w2+"},
       {{0, 1, true}, {0, 2, true}, {1, 2, true}},
       {{2, {0, 1}}, {1, {0}}}},
      {"a worker before a server, without a state",
       kServer,
       {"w0", "s0"},
       {{0, 1, true}},
       {{0, {1}}}},
      {"a server is the only copy", kServer, {"w0+", "s0+"}, {{0, 1, true}}, {{0, {1}}}},
      {"two servers: both are", kServer, {"w0+", "s0+", "s1+"}, {{1, 2, true}}, {{2, {1}}}},
      {"a server that holds nothing goes before one that does",
       kServer,
       {"w0+", "s0", "s1+"},
       {{1, 2, true}},
       {{1, {2}}}},
  };
  for (const Case& c : cases)
    EXPECT_EQ(WhomToLeaveOut(PartiesOf(c.parties), c.pairs, c.sync), c.verdicts) << c.what;
}

}  // namespace
}  // namespace muster::coordinator
