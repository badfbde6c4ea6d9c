// Members of different versions in one job (docs/protocol.md section 10).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

const Speaks kFirst{1, 1, "0.1.0"};
const Speaks kNext{1, 2, "0.2.0"};
const Speaks kLater{2, 3, "0.3.0"};

muster::Join JoinOf(const Desk& desk, const MemberId& id, const Speaks& speaks) {
  muster::Join join;
  join.job = "job";
  join.start = desk.StartOf();
  join.id = id;
  join.node = "host";
  join.address = id.name;
  join.environment = Environment();
  join.speaks = speaks;
  return join;
}

void ExpectTold78(Desk& desk, const MemberId& member, const std::string& why) {
  const auto leave = desk.Sent<Leave>();
  ASSERT_THAT(leave, ElementsAre(Pair(member.name, testing::_)));
  EXPECT_EQ(leave[0].second.exit_code, kExitOtherEnvironment);
  EXPECT_THAT(leave[0].second.reason, HasSubstr(why));
}

TEST(Versions, AllMembersOfAJobHaveAFormInCommon) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 2)});
  desk.Say(kA, JoinOf(desk, kA, kFirst));
  desk.Say(kB, JoinOf(desk, kB, kNext));
  EXPECT_TRUE(desk.Sent<Leave>().empty()) << "1 is common to both";
  desk.Say(kC, JoinOf(desk, kC, kLater));
  ExpectTold78(desk, kC,
               "worker-2 is Muster 0.3.0 and speaks protocol 2 to 3, and worker-0 is Muster 0.1.0 "
               "and speaks protocol 1");
  desk.Activate({kA, kB});
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
}

TEST(Versions, TheEventNamesBothVersions) {
  Desk desk;
  RunTwo(desk);
  desk.Say(kC, JoinOf(desk, kC, {kProtocol + 1, kProtocol + 1, "9.9.9"}));
  EXPECT_THAT(desk.Told(), Contains(AllOf(HasSubstr("worker-2 was turned away"), HasSubstr("9.9.9"),
                                          HasSubstr(kVersion))));
}

// Who was there first and has gone is no reason any more.
TEST(Versions, WhoIsAwayAndInNoViewRefusesNobody) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(2, 2)});
  desk.Say(kA, JoinOf(desk, kA, kFirst));
  desk.Give(MemberDown{kA});
  desk.Say(kB, JoinOf(desk, kB, kLater));
  EXPECT_TRUE(desk.Sent<Leave>().empty());
  desk.Say(kA, JoinOf(desk, kA, kFirst));
  ExpectTold78(desk, kA, "worker-1 is Muster 0.3.0");
}

TEST(Versions, ANewProcessOfThatNameIsNotComparedWithTheOneBefore) {
  Desk desk;
  desk.Give(Submit{"job", SpecOf(1, 1)});
  desk.Say(kA, JoinOf(desk, kA, kFirst));
  desk.Give(MemberDown{kA});
  desk.DrainAll();
  const MemberId again = Id(kA.name, 2);
  desk.Say(again, JoinOf(desk, again, kLater));
  EXPECT_TRUE(desk.Sent<Leave>().empty());
}

// After a restart of the coordinator they come in any order, and the member of the view may be the
// only one that holds the state.
TEST(Versions, AMemberOfTheViewIsNotRefusedForTheSakeOfOneThatIsNot) {
  Desk before;
  RunTwo(before);
  Desk desk(RecoveredState{.jobs = {before.Job()}});
  desk.Say(kC, JoinOf(desk, kC, kLater));
  EXPECT_TRUE(desk.Sent<Leave>().empty()) << "nobody else is there yet";
  for (const MemberId& id : {kA, kB}) {
    muster::Join join = JoinOf(desk, id, kFirst);
    join.sealed = join.active = before.Job().number;
    desk.Say(id, join);
    if (id == kA) ExpectTold78(desk, kC, "worker-0");
  }
  EXPECT_TRUE(desk.Sent<Leave>().empty());
  EXPECT_EQ(desk.Job().phase, JobPhase::kRunning);
}

}  // namespace
}  // namespace muster::coordinator
