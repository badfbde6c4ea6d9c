#include "coordinator/state/reattachment.h"

#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;

constexpr Duration kLease = milliseconds(1500);
const MemberId kFirst{"worker-0", {1, 1}}, kSecond{"worker-1", {1, 2}}, kOther{"worker-2", {1, 3}};

Time At(int64_t millis) { return Time(milliseconds(millis)); }

JobJournal JobOfTwo() {
  JobJournal job;
  job.view.emplace();
  for (const MemberId& id : {kFirst, kSecond}) job.view->members.push_back({.id = id});
  return job;
}

struct Row {
  std::string name;
  std::vector<MemberId> came;   // at the tick at 1000
  std::vector<MemberId> ended;  // then, too
  int64_t tick;
  bool is_over;
};
class ReattachmentTable : public testing::TestWithParam<Row> {};

TEST_P(ReattachmentTable, EndsWhenNobodyIsAwaitedOrALeaseIsOver) {
  Reattachment wait(JobOfTwo(), At(0));
  for (const MemberId& id : GetParam().came) wait.Came(id, At(1000));
  for (const MemberId& id : GetParam().ended) wait.Ended(id.incarnation, At(1000));
  EXPECT_EQ(wait.IsOver(At(GetParam().tick), kLease), GetParam().is_over);
}

INSTANTIATE_TEST_SUITE_P(All, ReattachmentTable,
                         testing::ValuesIn(std::vector<Row>{
                             {"NobodyYet", {}, {}, 1000, false},
                             {"NobodyForALease", {}, {}, 1500, true},
                             {"AllCame", {kFirst, kSecond}, {}, 1000, true},
                             {"OneCame", {kFirst}, {}, 2499, false},
                             {"ALeaseAfterOneCame", {kFirst}, {}, 2500, true},
                             {"OneCameAndOneEnded", {kFirst}, {kSecond}, 1000, true},
                             {"BothEnded", {}, {kFirst, kSecond}, 1000, true},
                             {"AnotherCame", {kOther}, {}, 2499, false},
                         }),
                         [](const auto& row) { return row.param.name; });

TEST(Reattachment, WhoIsKnownToHaveEndedIsNotAwaited) {
  JobJournal job = JobOfTwo();
  for (const MemberId& id : {kFirst, kSecond}) job.lanes.Told({.incarnation = id.incarnation});
  EXPECT_TRUE(Reattachment(job, At(0)).IsOver(At(0), kLease));
}

TEST(Reattachment, WithoutAViewItTakesALease) {
  Reattachment wait(JobJournal(), At(0));
  wait.Came(kFirst, At(0));
  EXPECT_FALSE(wait.IsOver(At(1499), kLease));
  EXPECT_TRUE(wait.IsOver(At(1500), kLease));
}

TEST(Reattachment, AStallOfOurOwnGivesThemAnotherLease) {
  Reattachment wait(JobOfTwo(), At(0));
  wait.StoodStill(At(1400));
  EXPECT_FALSE(wait.IsOver(At(1500), kLease));
  EXPECT_TRUE(wait.IsOver(At(2900), kLease));
}

}  // namespace
}  // namespace muster::coordinator
