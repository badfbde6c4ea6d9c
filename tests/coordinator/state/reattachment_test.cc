#include "coordinator/state/reattachment.h"

#include <chrono>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::milliseconds;

constexpr Duration kLease = milliseconds(1500), kPatience = milliseconds(9000);
const MemberId kFirst{"worker-0", {1, 1}}, kSecond{"worker-1", {1, 2}}, kOther{"worker-2", {1, 3}};
const MemberId kServer{"server-0", {1, 4}}, kOtherServer{"server-1", {1, 5}};

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
  for (const MemberId& id : GetParam().came) wait.Came(id, "", At(1000));
  for (const MemberId& id : GetParam().ended) wait.Ended(id.incarnation, At(1000));
  EXPECT_EQ(wait.IsOver(At(GetParam().tick), kLease, kPatience), GetParam().is_over);
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
                             {"AnEndThatIsNoNews", {}, {kOther}, 1500, true},
                         }),
                         [](const auto& row) { return row.param.name; });

TEST(Reattachment, WhoIsKnownToHaveEndedIsNotAwaited) {
  JobJournal job = JobOfTwo();
  for (const MemberId& id : {kFirst, kSecond}) job.lanes.Told({.incarnation = id.incarnation});
  EXPECT_TRUE(Reattachment(job, At(0)).IsOver(At(0), kLease, kPatience));
}

TEST(Reattachment, WithoutAViewItTakesALease) {
  Reattachment wait(JobJournal(), At(0));
  wait.Came(kFirst, "", At(0));
  EXPECT_FALSE(wait.IsOver(At(1499), kLease, kPatience));
  EXPECT_TRUE(wait.IsOver(At(1500), kLease, kPatience));
}

TEST(Reattachment, WhatWeHandledNothingInDoesNotCount) {
  Reattachment wait(JobOfTwo(), At(0));
  wait.HeldUp(std::chrono::milliseconds(1400));
  EXPECT_FALSE(wait.IsOver(At(2899), kLease, kPatience));
  EXPECT_TRUE(wait.IsOver(At(2900), kLease, kPatience));
}

TEST(Reattachment, AfterWeWereDeafAllIsToBeSaidAgain) {
  Reattachment wait(JobOfTwo(), At(0));
  wait.WasDeaf(At(1400));
  EXPECT_FALSE(wait.IsOver(At(2899), kLease, kPatience));
  EXPECT_TRUE(wait.IsOver(At(2900), kLease, kPatience));
}

// Whom it waits for longer than a lease: those without whom the job would go back to a checkpoint.
struct CopyCase {
  std::string what;
  Sync sync = Sync::kAllreduce;
  std::vector<MemberId> came{};   // at once
  std::vector<MemberId> ended{};  // then
  int64_t over_after = 0;         // at the tick at this time, and not before
  bool forming = false;
  bool voided = false;  // a lineage was begun since
  std::vector<int32_t> lanes = {0, 0};
};

// Of worker-0, which has all lanes, the spare worker-1, and two servers, if there are any.
JobJournal JobOf(const CopyCase& c) {
  JobJournal job;
  job.spec.training.sync = c.sync;
  job.number = ViewNumber(c.forming ? 2 : 1);
  job.lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  if (c.voided) job.lineages.push_back({LineageNumber(2), LineageNumber(1), Step(0), "rewind"});
  View& view = job.view.emplace();
  view.number = ViewNumber(1);
  view.lineage = LineageNumber(1);
  for (const MemberId& id : {kFirst, kSecond}) view.members.push_back({.id = id, .node = "host"});
  view.lanes.holder_of = view.first_lanes.holder_of = c.lanes;
  view.owner_of = {0, 0};
  if (c.sync == Sync::kAllreduce) return job;
  for (const MemberId& id : {kServer, kOtherServer})
    view.members.push_back({.id = id, .role = Role::kServer, .node = "host"});
  view.owner_of = {2, 3};
  return job;
}

TEST(Reattachment, TheOnlyCopyOfTheStateIsWaitedForLonger) {
  constexpr Sync kServers = Sync::kServer;
  const MemberId next_first{kFirst.name, {7, 1}};
  const std::vector<CopyCase> cases = {
      {.what = "nobody comes", .over_after = 9000},
      {.what = "the spare comes", .came = {kSecond}, .over_after = 9000},
      {.what = "the copy comes", .came = {kFirst}, .over_after = 1500},
      {.what = "the copy has ended", .ended = {kFirst}, .over_after = 1500},
      {.what = "one copy came and has ended, another may come",
       .came = {kFirst},
       .ended = {kFirst},
       .over_after = 9000,
       .lanes = {0, 1}},
      {.what = "its successor comes", .came = {next_first}, .over_after = 1500},
      {.what = "all come", .came = {kFirst, kSecond}, .over_after = 0},
      {.what = "a lineage was begun since", .over_after = 1500, .voided = true},
      {.what = "all have ended", .ended = {kFirst, kSecond}, .over_after = 0},
      {.what = "all have ended, but one may have been healed for the next view",
       .ended = {kFirst, kSecond},
       .over_after = 1500,
       .forming = true},
      {.what = "all come back into a forming", .came = {kFirst, kSecond}, .forming = true},
      {.what = "one server comes", .sync = kServers, .came = {kServer}, .over_after = 9000},
      {.what = "both servers come",
       .sync = kServers,
       .came = {kServer, kOtherServer},
       .over_after = 1500},
      {.what = "one server came and has ended",
       .sync = kServers,
       .came = {kServer},
       .ended = {kServer},
       .over_after = 1500},
      {.what = "one server has ended", .sync = kServers, .ended = {kServer}, .over_after = 1500},
      {.what = "the workers come", .sync = kServers, .came = {kFirst, kSecond}, .over_after = 9000},
  };
  for (const CopyCase& c : cases) {
    Reattachment wait(JobOf(c), At(0));
    for (const MemberId& id : c.came) wait.Came(id, "host", At(0));
    for (const MemberId& id : c.ended) wait.Ended(id.incarnation, At(0));
    EXPECT_TRUE(wait.IsOver(At(c.over_after), kLease, kPatience)) << c.what;
    if (c.over_after == 0) continue;
    EXPECT_FALSE(wait.IsOver(At(c.over_after - 1), kLease, kPatience)) << c.what;
  }
}

TEST(Reattachment, AProcessOfThatNameOnAnotherHostSaysNothingOfTheEnd) {
  Reattachment wait(JobOf({.what = ""}), At(0));
  wait.Came({kFirst.name, {7, 1}}, "another host", At(0));
  EXPECT_FALSE(wait.IsOver(At(8999), kLease, kPatience));
}

}  // namespace
}  // namespace muster::coordinator
