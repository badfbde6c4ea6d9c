// Which hosts may join, with which key, and what becomes of one that is revoked.
#include "coordinator/state/host_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

HostRecord Admitted(const std::string& name_space = "default", const std::string& key = "") {
  return {.name_space = name_space, .secret = "5ec7e7", .key_hash = key};
}

struct JoinRow {
  const char* what;
  HostRecords records;
  HostJoins joins;
  bool may_bind_anew;
  bool is_one_namespace;
  std::string why;  // words of it; empty: it is signed
  bool passes = false;
};

TEST(HostRecords, ATokenBindsToItsFirstKey) {
  const HostJoins asks{"a", "key1"}, run{"a", "key1", true};
  HostRecord revoked = Admitted(), certified{.certified = true};
  revoked.revoked = true;
  HostRecord of_run{.name_space = "", .key_hash = "key1"};
  const JoinRow rows[] = {
      {"nobody knows it", {}, asks, true, true, "has no token"},
      {"it is admitted", {{"a", Admitted()}}, asks, false, true, ""},
      {"another one is", {{"b", Admitted()}}, asks, true, true, "has no token"},
      {"the same key again", {{"a", Admitted("n", "key1")}}, asks, false, false, ""},
      {"a second key", {{"a", Admitted("n", "key0")}}, asks, false, true, "another key", true},
      {"once nobody lives there", {{"a", Admitted("n", "key0")}}, asks, true, true, ""},
      {"it was revoked", {{"a", revoked}}, asks, true, true, "was revoked"},
      {"it is signed elsewhere", {{"a", certified}}, asks, true, true, "from outside"},
      {"a run's host", {}, run, true, true, ""},
      {"a run's host again", {{"a", of_run}}, run, false, true, ""},
      {"a run of several namespaces", {}, run, true, false, "one namespace"},
      {"the same where it has joined", {{"a", of_run}}, run, false, false, "one namespace"},
      {"a run may not take an admitted host", {{"a", Admitted()}}, run, true, true, "of its own"},
      {"nor a revoked one", {{"a", revoked}}, run, true, true, "was revoked"},
  };
  for (const JoinRow& row : rows) {
    const std::string why =
        WhyNotJoined(row.records, row.joins, row.may_bind_anew, row.is_one_namespace);
    EXPECT_EQ(why.empty(), row.why.empty()) << row.what << ": " << why;
    EXPECT_THAT(why, HasSubstr(row.why)) << row.what;
    if (!row.may_bind_anew) {
      EXPECT_EQ(IsRefusedForNow(row.records, row.joins), row.passes) << row.what;
    }
  }
}

TEST(HostRecords, AHostIsHeardWithTheKeyThatItJoinedWith) {
  const HostRecords records = {{"bound", Admitted("default", "key1")},
                               {"fresh", Admitted()},
                               {"outside", {.certified = true}},
                               {"of-run", {.name_space = "", .key_hash = "key1"}}};
  struct Row {
    const char* host;
    const char* key;
    const char* why;  // empty: it is heard
  };
  const Row rows[] = {
      {"bound", "key1", ""},
      {"bound", "key2", "has joined with another key"},
      {"bound", "", "has joined with another key"},
      {"fresh", "key1", "`muster token host fresh --certified`"},
      {"outside", "key1", ""},
      {"outside", "key2", ""},
      {"of-run", "key1", ""},
      {"of-run", "key2", ""},  // whoever has the secret may join under any name
      {"unknown", "key1", ""},
  };
  for (const Row& row : rows) {
    const std::string why = WhyNotHeard(records, row.host, row.key);
    if (*row.why == 0) {
      EXPECT_EQ(why, "") << row.host << " with " << row.key;
    } else {
      EXPECT_THAT(why, HasSubstr(row.why)) << row.host << " with " << row.key;
    }
  }
}

TEST(HostRecords, NoMoreThanMayBe) {
  HostRecords many;
  for (size_t i = 0; i < kMostHosts; ++i) many["h" + std::to_string(i)] = Admitted();
  EXPECT_THAT(WhyNotAdmitted(many, "x", Admitted()), HasSubstr("the most"));
  EXPECT_EQ(WhyNotAdmitted(many, "h0", Admitted()), "");
  EXPECT_THAT(WhyNotJoined(many, {"x", "k", true}, true, true), HasSubstr("the most"));
  EXPECT_THAT(WhyNotAdmitted({}, "../x", Admitted()), HasSubstr("no name of a host"));
  EXPECT_THAT(WhyNotAdmitted({}, "x", Admitted("Vision")), HasSubstr("a namespace is"));
}

// One job of a worker, on a host that was admitted for its namespace and has joined.
class JoiningTest : public testing::Test {
 protected:
  JoiningTest() {
    desk_.Give(AdmitHost{"a", Admitted()});
    desk_.Give(HostJoins{"a", "key1"});
    desk_.Give(AgentUp{HelloOf("a", 2)});
    desk_.Drain<PersistHost>();
  }
  const HostRecord& Record(const std::string& host = "a") {
    return desk_.coordinator().host_records().at(host);
  }
  void Submit(const std::string& name_space = "default") {
    JobSpec spec = SpecOf(1, 1);
    spec.queue.name_space = name_space;
    desk_.Give(coordinator::Submit{"job", spec});
  }
  std::string Place() { return desk_.Job().placements.at("worker-0").host.value_or("none"); }
  // Without a word of anybody, as a coordinator that works.
  void Tick(int ticks) {
    for (int i = 0; i < ticks; ++i) {
      desk_.Wait(std::chrono::milliseconds(500));
      desk_.Give(coordinator::Tick{});
    }
  }

  Desk desk_{{}, /*slots=*/0};
};

TEST_F(JoiningTest, WhatIsBoundIsJournalledOnce) {
  EXPECT_EQ(Record().key_hash, "key1");
  desk_.Give(HostJoins{"a", "key1"});
  EXPECT_THAT(desk_.Drain<PersistHost>(), IsEmpty()) << "nothing is new";
  desk_.Give(HostJoins{"b", "key1"});
  EXPECT_THAT(desk_.Drain<PersistHost>(), IsEmpty()) << "nobody admitted it";
  desk_.Give(HostJoins{"r", "key2", /*by_run=*/true});
  EXPECT_EQ(desk_.Drain<PersistHost>().at(0).record,
            (HostRecord{.name_space = "", .key_hash = "key2"}));
}

TEST_F(JoiningTest, ANewTokenIsUsedInPlaceOfWhoeverSpeaksForTheHost) {
  desk_.Give(HostJoins{"a", "key1"});
  EXPECT_THAT(desk_.Drain<EndAgentSession>(), IsEmpty()) << "it renews with the key that it has";
  desk_.Give(AdmitHost{"a", Admitted()});
  EXPECT_THAT(desk_.Drain<EndAgentSession>(), IsEmpty()) << "nobody has used the token";
  desk_.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(desk_.Drain<EndAgentSession>().at(0).agent, HelloOf("a", 2).agent);
  desk_.Give(AgentUp{HelloOf("run", 1)});
  desk_.Give(HostJoins{"run", "key9", /*by_run=*/true});
  EXPECT_THAT(desk_.Drain<EndAgentSession>(), IsEmpty()) << "others of the run disturb nobody";
}

TEST_F(JoiningTest, ASecondKeyWaitsUntilNobodySpeaksForTheHost) {
  desk_.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(Record().key_hash, "key1") << "its agent has a session";
  desk_.Give(AgentDown{HelloOf("a", 2).agent});
  Tick(39);
  desk_.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(Record().key_hash, "key1") << "it was there less than host_patience ago";
  Tick(2);
  desk_.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(Record().key_hash, "key2");
}

// A run that goes on has the secret, the names and no key of the time before.
TEST_F(JoiningTest, AHostOfARunBindsAnewOnceItsAgentHasNoSession) {
  const auto join = [this](const std::string& key) {
    desk_.Give(HostJoins{"r", key, /*by_run=*/true});
    return Record("r").key_hash;
  };
  EXPECT_EQ(join("key1"), "key1");
  desk_.Give(AgentUp{HelloOf("r", 1)});
  EXPECT_EQ(join("key2"), "key1") << "its agent has a session";
  desk_.Give(AgentDown{HelloOf("r", 1).agent});
  EXPECT_EQ(join("key2"), "key2");
}

TEST_F(JoiningTest, ASecondKeyWaitsForTheMembersThatLiveThere) {
  Submit();
  ASSERT_EQ(Place(), "a");
  desk_.Join(kA);
  desk_.Activate({kA});
  desk_.Give(AgentDown{HelloOf("a", 2).agent});
  for (int i = 0; i < 60; ++i) {
    desk_.Say(kA, Alive{Step(0), ""});
    Tick(1);
  }
  desk_.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(Record().key_hash, "key1") << "a member that it started lives";
}

TEST_F(JoiningTest, AfterARestartEverybodyMayStillBeThere) {
  RecoveredState found;
  found.hosts = {{"a", Admitted("default", "key1")}};
  Desk after(found, /*slots=*/0);
  after.Give(HostJoins{"a", "key2"});
  EXPECT_THAT(after.Drain<PersistHost>(), IsEmpty());
  after.Give(HostJoins{"a", "key1"});
  after.Wait(seconds(21));
  after.Give(HostJoins{"a", "key2"});
  EXPECT_EQ(after.Drain<PersistHost>().size(), 1u);
}

TEST_F(JoiningTest, ARevokedHostLosesItsSessionItsPlacesAndItsMembers) {
  Submit();
  desk_.Join(kA);
  desk_.Activate({kA});
  desk_.Give(AgentUp{HelloOf("host", 1)});
  ASSERT_EQ(Place(), "a");
  desk_.Drain<Announce>();
  desk_.Give(RevokeHost{"a"});
  std::vector<std::string> ended;
  std::vector<HostRecord> kept;
  for (const Action& action : desk_.DrainAll()) {
    if (const auto* end = std::get_if<EndSession>(&action)) ended.push_back(end->member.name);
    if (const auto* end = std::get_if<EndAgentSession>(&action)) ended.push_back(end->agent.host);
    if (const auto* persist = std::get_if<PersistHost>(&action)) kept.push_back(persist->record);
  }
  EXPECT_THAT(ended, ElementsAre("a", "worker-0")) << "of the agent, and of its members";
  EXPECT_THAT(kept, ElementsAre(HostRecord{.revoked = true}));
  EXPECT_EQ(Place(), "host");
  desk_.Give(AgentUp{HelloOf("a", 2, 2)});
  EXPECT_THAT(desk_.Drain<EndAgentSession>().at(0).why,
              testing::AllOf(HasSubstr("was revoked"), HasSubstr("--certified")))
      << "the host of muster up joins with no token";
  desk_.Give(HostJoins{"a", "key1"});
  EXPECT_EQ(Record(), (HostRecord{.revoked = true})) << "nothing is signed for it";
  desk_.Give(AdmitHost{"a", Admitted()});
  desk_.Give(HostJoins{"a", "key3"});
  EXPECT_EQ(Record().key_hash, "key3") << "a person lets it back";
}

TEST_F(JoiningTest, OnlyJobsOfItsNamespaceArePlacedOnAHost) {
  desk_.Give(AdmitHost{"v", Admitted("vision")});
  desk_.Give(HostJoins{"v", "key9"});
  Submit("vision");
  EXPECT_THAT(desk_.Status().waits_for, HasSubstr("waits for a host agent"));
  desk_.Give(AgentUp{HelloOf("v", 1)});
  EXPECT_EQ(Place(), "v");
  desk_.Give(AdmitHost{"v", Admitted("speech")});
  EXPECT_EQ(Place(), "none") << "what it ran is of another namespace now";
}

// Hosts of others are none of its business, and no help to it.
TEST(JoinedAfterARestart, TheOnlyHostOfANamespaceIsTakenThoughItIsLeftOutAndOthersAreNotNamed) {
  const auto waits_for = [](const std::string& name_space, int workers) {
    Desk desk({.left_out = {{"a", "why"}, {"v", "why"}}}, /*slots=*/0);
    for (const auto& [host, of] :
         std::map<std::string, std::string>{{"a", "default"}, {"b", "default"}, {"v", "vision"}}) {
      desk.Give(AdmitHost{host, Admitted(of)});
      desk.Give(HostJoins{host, absl::StrCat("key of ", host)});
      desk.Give(AgentUp{HelloOf(host, 1)});
    }
    JobSpec spec = SpecOf(workers, workers);
    spec.queue.name_space = name_space;
    desk.Give(coordinator::Submit{"job", spec});
    return desk.Status().waits_for;
  };
  EXPECT_EQ(waits_for("vision", 1), "no worker has joined") << "it is placed";
  EXPECT_THAT(waits_for("vision", 3), Not(HasSubstr("without")));
  EXPECT_THAT(waits_for("default", 3), HasSubstr("(without a, left out for all jobs"));
}

TEST_F(JoiningTest, AHostOfARunTakesWhatTheOnlyNamespaceHas) {
  Desk desk({}, /*slots=*/0);
  desk.Give(HostJoins{"r", "key", /*by_run=*/true});
  desk.Give(AgentUp{HelloOf("r", 1)});
  JobSpec spec = SpecOf(1, 1);
  spec.queue.name_space = "vision";
  desk.Give(coordinator::Submit{"job", spec});
  EXPECT_EQ(desk.Job().placements.at("worker-0").host, "r");
}

}  // namespace
}  // namespace muster::coordinator
