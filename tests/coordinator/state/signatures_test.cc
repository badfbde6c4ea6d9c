// Certificates of members: which the coordinator signs, and whose word counts of their processes
// (docs/identity.md sections 2 and 4).
#include "coordinator/state/signatures.h"

#include <optional>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two hosts of two slots, and a job of three workers: worker-2 is on the second host.
class SignaturesTest : public testing::Test {
 protected:
  SignaturesTest() {
    desk_.Give(AgentUp{HelloOf("other", 2)});
    desk_.Give(Submit{"job", SpecOf(2, 3)});
    desk_.Drain<Announce>();
  }
  SignatureAsked Asks(const std::string& name, uint64_t life, const std::string& key = "k") {
    const Placement placement = desk_.Job().placements.at(name);
    return {{*placement.host, placement.agent},
            {{"job", name, placement.number, Id(name, life).incarnation}, key},
            key};
  }
  // What became of it: empty, it is signed; else why not.
  std::string Ask(const SignatureAsked& asked) {
    desk_.Give(asked);
    std::string why = "nothing was answered";
    bool is_journalled = false;
    for (const Action& action : desk_.DrainAll()) {
      if (const auto* job = std::get_if<PersistJob>(&action))
        is_journalled = job->job.signatures.contains(asked.ask.process.incarnation);
      if (const auto* refused = std::get_if<RefuseToSign>(&action)) why = refused->refused.why;
      if (const auto* sign = std::get_if<Sign>(&action)) {
        EXPECT_EQ(sign->ask.process, asked.ask.process);
        EXPECT_TRUE(is_journalled || known_.contains(asked.ask.process.incarnation))
            << "the journal knows it before anybody else does";
        known_.insert(asked.ask.process.incarnation);
        why = "";
      }
    }
    return why;
  }
  muster::Join JoinOf(const MemberId& id) {
    muster::Join join;
    join.job = "job";
    join.start = desk_.StartOf();
    join.placement = desk_.Job().placements.at(id.name).number;
    join.id = id;
    join.node = "host";
    join.address = id.name;
    join.environment = Environment();
    return join;
  }
  // The exit code with which it is turned away; nothing: it takes part.
  std::optional<int> Joins(const MemberId& id, bool is_proven = true) {
    desk_.Drain<Announce>();
    desk_.Give(MemberSays{id, JoinOf(id), std::nullopt, is_proven});
    const auto leave = desk_.Sent<Leave>();
    return leave.empty() ? std::nullopt : std::optional(leave[0].second.exit_code);
  }

  Desk desk_{{}, /*slots=*/2};
  std::set<Incarnation> known_;
};

TEST_F(SignaturesTest, AProcessIsSignedForOneKeyAndForThatAgain) {
  EXPECT_EQ(Ask(Asks("worker-0", 5)), "");
  EXPECT_EQ(Ask(Asks("worker-0", 5)), "") << "its answer may have been lost, or it is renewed";
  EXPECT_THAT(Ask(Asks("worker-0", 5, "another")), HasSubstr("another key"));
  EXPECT_THAT(Ask(Asks("worker-0", 4)), HasSubstr("a later process"));
  EXPECT_EQ(Ask(Asks("worker-0", 6, "another")), "") << "a later process has a key of its own";
  EXPECT_THAT(Ask(Asks("worker-0", 5)), HasSubstr("a later process"));
  EXPECT_EQ(Ask(Asks("worker-2", 1)), "") << "other places do not matter";
}

// Sessions know members by name and incarnation. With the certificate of a process of its own job a
// host would else take the session of another job's member, and speak for it.
TEST_F(SignaturesTest, AnIncarnationIsSignedForOneJob) {
  Desk desk({}, /*slots=*/2);
  desk.Give(AgentUp{HelloOf("other", 2)});
  desk.Give(Submit{"job", SpecOf(2, 2)});
  desk.Give(Submit{"job2", SpecOf(2, 2)});
  const auto why_not = [&](const std::string& job, Incarnation process) {
    const Placement placement = desk.Job(job).placements.at("worker-0");
    desk.DrainAll();
    desk.Give(SignatureAsked{{*placement.host, placement.agent},
                             {{job, "worker-0", placement.number, process}, "k"},
                             "k"});
    const auto refused = desk.Drain<RefuseToSign>();
    return refused.empty() ? std::string() : refused[0].refused.why;
  };
  EXPECT_EQ(why_not("job", {5, 5}), "");
  EXPECT_THAT(why_not("job2", {5, 5}), HasSubstr("of another job"));
  EXPECT_THAT(desk.Job("job2").signatures, IsEmpty());
  EXPECT_EQ(why_not("job2", {5, 6}), "") << "one of its own is signed";
  EXPECT_EQ(why_not("job", {5, 5}), "") << "the first is renewed";
}

TEST_F(SignaturesTest, OnlyWhoWasSignedLastForThePlaceIsToldWhatTheJobIs) {
  const PlacementNumber place = desk_.Job().placements.at("worker-0").number;
  const auto why_not = [&](const std::string& name, PlacementNumber number, uint64_t life) {
    return WhyNotTold(desk_.Job(), {"job", name, number, Id("worker-0", life).incarnation});
  };
  EXPECT_THAT(why_not("worker-0", place, 1), HasSubstr("later process")) << "it was never signed";
  ASSERT_EQ(Ask(Asks("worker-0", 1)), "");
  EXPECT_EQ(why_not("worker-0", place, 1), "");
  EXPECT_THAT(why_not("worker-0", place + 1, 1), HasSubstr("another placement"));
  EXPECT_THAT(why_not("worker-1", place, 1), HasSubstr("another placement"));
  EXPECT_THAT(why_not("worker-0", PlacementNumber(), 1), HasSubstr("another placement"));
  ASSERT_EQ(Ask(Asks("worker-0", 2)), "");
  EXPECT_THAT(why_not("worker-0", place, 1), HasSubstr("later process"));
  EXPECT_EQ(why_not("worker-0", place, 2), "");
  EXPECT_EQ(why_not("somebody", PlacementNumber(), 7), "")
      << "in the coordinator's own slots a name counts alone";
}

TEST_F(SignaturesTest, OnlyTheAgentThatIsToStartAProcessGetsItsCertificate) {
  const AgentId here = HelloOf("host", 2).agent, there = HelloOf("other", 2).agent;
  SignatureAsked asked = Asks("worker-2", 1);
  ASSERT_EQ(asked.agent, there);
  asked.agent = here;
  EXPECT_THAT(Ask(asked), HasSubstr("not to start it"));
  asked = Asks("worker-2", 1);
  asked.agent.incarnation.hi = 9;
  EXPECT_THAT(Ask(asked), HasSubstr("another agent speaks"));
  asked = Asks("worker-2", 1);
  asked.ask.process.placement = asked.ask.process.placement + 1;
  EXPECT_THAT(Ask(asked), HasSubstr("not to start it"));
  asked = Asks("worker-2", 1);
  asked.ask.process.name = "worker-7";
  EXPECT_THAT(Ask(asked), HasSubstr("not to start it"));
  asked = Asks("worker-2", 1);
  asked.ask.process.job = "unknown";
  EXPECT_THAT(Ask(asked), HasSubstr("not running"));
  asked = Asks("worker-2", 1);
  asked.ask.process.incarnation = {};
  EXPECT_THAT(Ask(asked), HasSubstr("incarnation"));
  EXPECT_THAT(desk_.Job().signatures, IsEmpty());
  desk_.Give(AgentDown{there});
  EXPECT_THAT(Ask(Asks("worker-2", 1)), HasSubstr("speaks for its host"));
}

TEST_F(SignaturesTest, ANewAgentIsSignedNothingForThePlacesOfTheOneBefore) {
  const SignatureAsked before = Asks("worker-2", 1);
  AgentHello next = HelloOf("other", 2, /*life=*/2);
  next.follows = HelloOf("other", 2).agent.incarnation;
  desk_.Give(AgentDown{HelloOf("other", 2).agent});
  desk_.Give(AgentUp{next});
  SignatureAsked asked = before;
  asked.agent = next.agent;
  EXPECT_THAT(Ask(asked), HasSubstr("not to start it"));
  EXPECT_EQ(Ask(Asks("worker-2", 2)), "");
}

TEST_F(SignaturesTest, TheNextCoordinatorKnowsWhatWasSigned) {
  ASSERT_EQ(Ask(Asks("worker-0", 5)), "");
  const SignatureAsked again = Asks("worker-0", 5), other = Asks("worker-0", 5, "another");
  RecoveredState found;
  found.jobs = {desk_.Job()};
  Desk after(std::move(found), /*slots=*/2);
  after.Give(again);
  EXPECT_THAT(after.Drain<Sign>(), SizeIs(1));
  after.Give(other);
  EXPECT_THAT(after.Drain<RefuseToSign>(), SizeIs(1));
}

TEST_F(SignaturesTest, WhoWasNotSignedLastIsTurnedAway) {
  EXPECT_EQ(Joins(kA), kExitReplaced) << "it was never signed";
  ASSERT_EQ(Ask(Asks("worker-0", 1)), "");
  ASSERT_EQ(Ask(Asks("worker-0", 2)), "");
  EXPECT_EQ(Joins(Id("worker-0", 1)), kExitReplaced);
  EXPECT_THAT(desk_.Status().members, IsEmpty());
  EXPECT_EQ(Joins(Id("worker-0", 2)), std::nullopt);
  EXPECT_THAT(desk_.Status().members, SizeIs(1));
  EXPECT_EQ(Joins(kB, /*is_proven=*/false), std::nullopt) << "without certificates nobody asks";
}

// It may hold the only copy of the state, which is not to be sent away.
TEST_F(SignaturesTest, WhoKnowsMoreThanTheJournalIsNotTurnedAwayForIt) {
  muster::Join join = JoinOf(kA);
  join.cluster = "cluster";
  join.term = TermNumber(9);
  desk_.Give(MemberSays{kA, join, std::nullopt, /*is_proven=*/true});
  EXPECT_THAT(desk_.Drain<EndSession>(), SizeIs(1));
}

TEST_F(SignaturesTest, AHostEndsOnlyItsOwnMembers) {
  for (const char* name : {"worker-0", "worker-2"}) ASSERT_EQ(Ask(Asks(name, 1)), "");
  ASSERT_EQ(Joins(Id("worker-0")), std::nullopt);
  ASSERT_EQ(Joins(Id("worker-2")), std::nullopt);
  ProcessExited exited;
  exited.job = "job";
  exited.start = desk_.StartOf();
  exited.name = "worker-2";
  exited.placement = desk_.Job().placements.at("worker-2").number;
  exited.signal = 9;
  exited.lanes.incarnation = Id("worker-2").incarnation;
  desk_.Give(AgentSays{exited, "host"});
  EXPECT_THAT(desk_.Status().members, SizeIs(2)) << "it is another host's";
  ProcessExited own = exited;  // in the place of its own, with the incarnation of another's
  own.name = "worker-1";
  own.placement = desk_.Job().placements.at("worker-1").number;
  desk_.Give(AgentSays{own, "host"});
  EXPECT_THAT(desk_.Status().members, SizeIs(2));
  desk_.Give(AgentSays{exited, "other"});
  EXPECT_THAT(desk_.Status().members, SizeIs(1));
}

TEST(Signatures, WhatAHostSays) {
  JobJournal job;
  job.placements = {{"w0", {Role::kWorker, "here", PlacementNumber(7), {}}},
                    {"w1", {Role::kWorker, "there", PlacementNumber(8), {}}}};
  job.signatures = {{{1, 1}, {PlacementNumber(3), "here", "k"}},
                    {{2, 2}, {PlacementNumber(8), "there", "k"}}};
  const auto says = [&](const char* name, int64_t placement, Incarnation ran) {
    ProcessExited exited;
    exited.start = StartNumber(5);
    exited.name = name;
    exited.placement = PlacementNumber(placement);
    exited.lanes = {ran, 10, LineageNumber(1), Step(2), 1};
    return SaidByHost(job, exited, "here");
  };
  struct Case {
    const char* what;
    const char* name;
    int64_t placement;
    Incarnation ran;
    bool ends;    // the member that is placed there
    bool counts;  // its lanes
  };
  const Case cases[] = {
      {"its member, and a process of it", "w0", 7, {1, 1}, true, true},
      {"its member, of which nothing ran", "w0", 7, {}, true, false},
      {"its member, and another host's process", "w0", 7, {2, 2}, true, false},
      {"an earlier place, and a process of it", "w1", 3, {1, 1}, false, true},
      {"no place that it knows any more", "w1", 0, {1, 1}, false, true},
      {"another host's member", "w1", 8, {2, 2}, false, false},
      {"another host's member, with its own process", "w1", 8, {1, 1}, false, true},
      {"a process that nobody signed", "w0", 6, {9, 9}, false, false},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const std::optional<ProcessExited> heard = says(c.name, c.placement, c.ran);
    ASSERT_EQ(heard.has_value(), c.ends || c.counts);
    if (!heard) continue;
    EXPECT_EQ(heard->start == StartNumber(5), c.ends);
    EXPECT_EQ(heard->lanes.incarnation != Incarnation{}, c.counts);
  }
}

TEST(Signatures, TheOldestOfThoseThatHaveEndedAreForgotten) {
  JobJournal job;
  job.placements = {{"w0", {Role::kWorker, "here", PlacementNumber(1), {}}},
                    {"w1", {Role::kWorker, "here", PlacementNumber(2), {}}}};
  EXPECT_TRUE(AddSignature(job, {1, 0}, {PlacementNumber(2), "here", "k"}));
  EXPECT_FALSE(AddSignature(job, {1, 0}, {PlacementNumber(2), "here", "k"}));
  for (uint64_t life = 2; life < kMostOldSignatures + 50; ++life)
    AddSignature(job, {life, 0}, {PlacementNumber(1), "here", "k"});
  EXPECT_EQ(job.signatures.size(), kMostOldSignatures + 2) << "and the last one of each place";
  EXPECT_EQ(SignedLast(job.signatures, PlacementNumber(1)),
            (Incarnation{kMostOldSignatures + 49, 0}));
  EXPECT_EQ(SignedLast(job.signatures, PlacementNumber(2)), (Incarnation{1, 0}));
  EXPECT_NE(WhyNotSigned(job.signatures, {2, 0}, {PlacementNumber(1), "here", "another"}), "")
      << "one that is forgotten gets no second key";
}

}  // namespace
}  // namespace muster::coordinator
