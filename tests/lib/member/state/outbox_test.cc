// What the coordinator has not acknowledged.
#include "lib/member/state/outbox.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/frame_limits.h"
#include "lib/wire/message_codec.h"
#include "tests/lib/member/state/parts.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const ViewNumber kSealed(3);

StepRecord RecordAt(int64_t lineage, int64_t step) {
  StepRecord record;
  record.lineage = LineageNumber(lineage);
  record.step = Step(step);
  return record;
}

template <class M>
std::vector<M> Told(const std::vector<Action>& actions) {
  std::vector<M> found;
  for (const TellCoordinator& tell : Of<TellCoordinator>(actions))
    if (const auto* m = std::get_if<M>(&tell.message)) found.push_back(*m);
  return found;
}

// Lineage and step of all records in frames.
std::vector<std::pair<int64_t, int64_t>> RecordsIn(const std::vector<Action>& actions) {
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const Records& frame : Told<Records>(actions))
    for (const StepRecord& r : frame.records) found.emplace_back(r.lineage.value(), r.step.value());
  return found;
}

TEST(Outbox, ARecordIsToldAtOnceAndKept) {
  Outbox outbox(Role::kWorker);
  const std::vector<Action> actions = outbox.Add(RecordAt(1, 4), false, kSealed);
  EXPECT_THAT(RecordsIn(actions), ElementsAre(std::pair(1, 4)));
  EXPECT_EQ(Of<Completed>(actions).size(), 1u);
  EXPECT_THAT(RecordsIn(outbox.TellAgain(kSealed)), ElementsAre(std::pair(1, 4)));
}

TEST(Outbox, AServerKeepsRecordsButReportsNoProgress) {
  Outbox outbox(Role::kServer);
  const std::vector<Action> actions = outbox.Add(RecordAt(1, 4), false, kSealed);
  EXPECT_EQ(outbox.records(), 1u);
  EXPECT_THAT(Of<Completed>(actions), IsEmpty());
}

TEST(Outbox, ARecordWaitsForItsOwnFingerprint) {
  Outbox outbox(Role::kWorker);
  EXPECT_THAT(outbox.Add(RecordAt(1, 4), true, kSealed), IsEmpty());
  EXPECT_THAT(outbox.TellAgain(kSealed), IsEmpty());
  EXPECT_THAT(outbox.AddFingerprint(Step(4), {1, 2, true}, kSealed), IsEmpty())
      << "of the state before it";
  const auto told = Told<Records>(outbox.AddFingerprint(Step(5), {1, 2, true}, kSealed));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].records.at(0).fingerprint, (FingerprintPart{1, 2, true}));
  EXPECT_THAT(outbox.AddFingerprint(Step(5), {1, 2, true}, kSealed), IsEmpty()) << "it went out";
}

struct AckCase {
  const char* name;
  int64_t lineage, below;
  std::vector<std::pair<int64_t, int64_t>> left;
};

class Acknowledged : public testing::TestWithParam<AckCase> {};

TEST_P(Acknowledged, RecordsAreForgotten) {
  Outbox outbox(Role::kWorker);
  for (int64_t step : {4, 5}) outbox.Add(RecordAt(1, step), false, kSealed);
  for (int64_t step : {3, 4}) outbox.Add(RecordAt(2, step), false, kSealed);
  outbox.Acknowledge(
      AckRecords{TermNumber(1), LineageNumber(GetParam().lineage), Step(GetParam().below)});
  EXPECT_EQ(RecordsIn(outbox.TellAgain(kSealed)), GetParam().left);
}

INSTANTIATE_TEST_SUITE_P(
    Outbox, Acknowledged,
    testing::Values(AckCase{"nothing_yet", 1, 4, {{1, 4}, {1, 5}, {2, 3}, {2, 4}}},
                    AckCase{"the_first", 1, 5, {{1, 5}, {2, 3}, {2, 4}}},
                    AckCase{"all_of_a_lineage", 1, 9, {{2, 3}, {2, 4}}},
                    AckCase{"a_lineage_acknowledges_those_before_it", 2, 4, {{2, 4}}},
                    AckCase{"all", 2, 5, {}}),
    [](const auto& test) { return test.param.name; });

TEST(Outbox, RecordsOfOtherLineagesAreDroppedAlsoThoseThatWait) {
  Outbox outbox(Role::kWorker);
  outbox.Add(RecordAt(1, 4), false, kSealed);
  outbox.Add(RecordAt(1, 5), true, kSealed);
  outbox.Add(RecordAt(2, 3), false, kSealed);
  outbox.KeepOnly(LineageNumber(2));
  EXPECT_THAT(RecordsIn(outbox.TellAgain(kSealed)), ElementsAre(std::pair(2, 3)));
  EXPECT_THAT(outbox.AddFingerprint(Step(6), {}, kSealed), IsEmpty());
}

// Until we are sealed for a later view the coordinator has the record's view.
TEST(Outbox, LaneHoldersAreToldOnlyOfAnotherView) {
  Outbox outbox(Role::kWorker);
  StepRecord record = RecordAt(1, 4);
  record.view = kSealed;
  record.lane_holders = {NameOf("worker-0"), NameOf("worker-1")};
  const auto holders_in = [](const std::vector<Action>& actions) {
    return Told<Records>(actions).at(0).records.at(0).lane_holders;
  };
  EXPECT_TRUE(holders_in(outbox.Add(record, false, kSealed)).empty());
  EXPECT_TRUE(holders_in(outbox.TellAgain(kSealed)).empty());
  EXPECT_EQ(holders_in(outbox.TellAgain(kSealed + 1)), record.lane_holders);
  record.step = Step(5);
  EXPECT_EQ(holders_in(outbox.Add(record, false, kSealed + 1)), record.lane_holders);
}

TEST(Outbox, FramesOfRecordsAreBounded) {
  Outbox outbox(Role::kServer);
  StepRecord wide = RecordAt(1, 0);
  wide.lane_holders = {{NameOf(std::string(40, 'w'))}, std::vector<int32_t>(1000)};
  wide.view = kSealed;  // not told, but the coordinator adds the holders to all of a frame
  for (int64_t step = 0; step < 50; ++step) {
    wide.step = Step(step);
    outbox.Add(wide, false, kSealed);
  }
  const auto frames = Told<Records>(outbox.TellAgain(kSealed));
  EXPECT_GT(frames.size(), 1u);
  int64_t next = 0;
  for (const Records& frame : frames) {
    EXPECT_LE(Encode(ToCoordinator(frame)).size(), kMaxHeaderBytes / 2);
    for (const StepRecord& r : frame.records) EXPECT_EQ(r.step, Step(next++));
  }
  EXPECT_EQ(next, 50);
}

TEST(Outbox, LanesThatAreNotFiniteAreToldUntilALaterStepIsInTheLedger) {
  struct Case {
    const char* name;
    int64_t lineage, below;
    bool is_told;
  };
  const std::vector<Case> cases = {{"the step before", 2, 4, true},
                                   {"the step", 2, 5, true},
                                   {"the next step", 2, 6, false},
                                   {"an earlier lineage", 1, 9, true}};
  for (const Case& c : cases) {
    Outbox outbox(Role::kWorker);
    const LanesNotFinite found{LineageNumber(2), Step(4), {LaneId(1)}};
    EXPECT_EQ(Told<LanesNotFinite>({outbox.Add(found)}).size(), 1u);
    outbox.Acknowledge(AckRecords{TermNumber(1), LineageNumber(c.lineage), Step(c.below)});
    const auto again = Told<LanesNotFinite>(outbox.TellAgain(kSealed));
    ASSERT_EQ(again.size(), c.is_told ? 1u : 0u) << c.name;
    for (const LanesNotFinite& told : again) EXPECT_EQ(told.lanes, found.lanes);
    outbox.KeepOnly(LineageNumber(3));
    EXPECT_THAT(Told<LanesNotFinite>(outbox.TellAgain(kSealed)), IsEmpty()) << "it is voided";
  }
}

TEST(Outbox, SegmentsAreNumberedAndToldUntilAcknowledged) {
  Outbox outbox(Role::kServer);
  for (int64_t id : {1, 2, 3}) {
    const auto told = Told<SegmentWritten>({outbox.Add(SegmentWritten{})});
    ASSERT_EQ(told.size(), 1u);
    EXPECT_EQ(told[0].id, id);
  }
  outbox.Acknowledge(AckSegments{TermNumber(1), {1, 3, 9}});
  const auto again = Told<SegmentWritten>(outbox.TellAgain(kSealed));
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].id, 2);
}

}  // namespace
}  // namespace muster
