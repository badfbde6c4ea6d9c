// One started job by itself: what it holds, what it gives back. Jobs from their start to their end
// are in coordinator_test.cc and tests/scenarios.
#include "coordinator/state/job_run.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/coordinator/state/desk.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const Time kNow{seconds(1000)};
const StartNumber kFirst(1);

StoredJob Queued(int32_t min, int32_t max, int32_t servers = 0) {
  StoredJob job;
  job.journal.id = "job";
  job.journal.spec = SpecOf(min, max);
  job.journal.spec.runtime.servers = servers;
  job.journal.resumes = true;
  return job;
}

JobRun RunOf(StoredJob job) {
  return JobRun({"cluster", TermNumber(3), Settings()}, std::move(job), kNow);
}

Join JoinOf(const MemberId& id) {
  Join join;
  join.job = "job";
  join.start = kFirst;
  join.id = id;
  join.environment = Environment();
  return join;
}

template <class A>
std::vector<A> Of(const std::vector<Action>& actions) {
  std::vector<A> found;
  for (const Action& action : actions)
    if (const auto* a = std::get_if<A>(&action)) found.push_back(*a);
  return found;
}

TEST(JobRun, HoldsTheSlotsThatItWasGranted) {
  JobRun run = RunOf(Queued(1, 8, 2));
  run.Handle(StartRun{kFirst, 3}, kNow);
  EXPECT_EQ(run.slots(), 5);
  std::vector<std::string> names;
  for (const ProcessWanted& process : run.Processes().processes) names.push_back(process.name);
  EXPECT_THAT(names, ElementsAre("worker-0", "worker-1", "worker-2", "server-0", "server-1"));
  EXPECT_EQ(run.journal().phase, JobPhase::kStarting);
}

TEST(JobRun, GivesBackWhatTheNextOneIsMadeOf) {
  JobRun run = RunOf(Queued(1, 1));
  run.Handle(StartRun{kFirst, 1}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  EXPECT_TRUE(run.HasMembers());
  run.Handle(Cancel{"job"}, kNow);
  ASSERT_TRUE(run.ended());
  const StoredJob stored = std::move(run).Rest();
  EXPECT_EQ(stored.journal.phase, JobPhase::kCancelled);
  EXPECT_TRUE(stored.journal.environment.has_value());
  JobRun next = RunOf(stored);
  EXPECT_THAT(next.Status().members, IsEmpty()) << "nothing of the life before is left";
}

// A heartbeat changes nothing that is decided, so nothing comes out of it.
TEST(JobRun, AHeartbeatAsksForNothing) {
  JobRun run = RunOf(Queued(1, 1));
  run.Handle(StartRun{kFirst, 1}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  const ViewNumber number = run.journal().number;
  run.Handle(MemberSays{kA, Sealed{number, {}}}, kNow);
  run.Handle(MemberSays{kA, HoldsBase{number, 0}}, kNow);
  ASSERT_EQ(run.journal().phase, JobPhase::kRunning);
  EXPECT_THAT(run.Handle(MemberSays{kA, Alive{Step(1), "lane 1"}}, kNow), IsEmpty());
  EXPECT_THAT(run.Handle(Tick{}, kNow), IsEmpty());
  EXPECT_EQ(run.Status().members.at(0).phase, "lane 1");
}

// Seal, plan and view are the same for all: one message for any number of members.
TEST(JobRun, SaysTheSameToAllMembersOnce) {
  JobRun run = RunOf(Queued(2, 2));
  run.Handle(StartRun{kFirst, 2}, kNow);
  run.Handle(MemberSays{kA, JoinOf(kA)}, kNow);
  auto actions = run.Handle(MemberSays{kB, JoinOf(kB)}, kNow);
  ASSERT_EQ(Of<ToMembers>(actions).size(), 1u);
  EXPECT_THAT(Of<ToMembers>(actions)[0].members, ElementsAre(kA, kB));
  const ViewNumber number = run.journal().number;
  run.Handle(MemberSays{kA, Sealed{number, {}}}, kNow);
  actions = run.Handle(MemberSays{kB, Sealed{number, {}}}, kNow);
  ASSERT_EQ(Of<ToMembers>(actions).size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Heal>(Of<ToMembers>(actions)[0].message));
  EXPECT_THAT(Of<ToMember>(actions), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
