#include "coordinator/state/step_ledger.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

StepRecord Record(int64_t step, double loss = 8) {
  StepRecord record;
  record.lineage = LineageNumber(1);
  record.step = Step(step);
  record.weight = 4;
  record.loss = loss;
  record.lane_holders = {{"w0", {1, 1}}};
  return record;
}

StepRecord WithPart(int64_t step, uint64_t lo, bool whole) {
  StepRecord record = Record(step);
  record.fingerprint = FingerprintPart{1, lo, whole};
  return record;
}

std::optional<View> TwoOwners() {
  View view;
  view.owner_of = {0, 1, 0};
  return view;
}

std::vector<int64_t> PersistedSteps(const std::vector<Action>& actions) {
  std::vector<int64_t> steps;
  for (const Action& action : actions)
    if (const auto* records = std::get_if<PersistRecords>(&action))
      for (const StepRecord& record : records->records) {
        EXPECT_FALSE(record.fingerprint) << "it stands apart";
        steps.push_back(record.step.value());
      }
  return steps;
}

std::vector<FingerprintPart> PersistedFingerprints(const std::vector<Action>& actions) {
  std::vector<FingerprintPart> values;
  for (const Action& action : actions)
    if (const auto* value = std::get_if<PersistFingerprint>(&action))
      values.push_back(value->value);
  return values;
}

std::vector<std::string> Said(const std::vector<Action>& actions) {
  std::vector<std::string> texts;
  for (const Action& action : actions)
    if (const auto* said = std::get_if<Announce>(&action); said != nullptr && !said->text.empty())
      texts.push_back(said->text);
  return texts;
}

TEST(StepLedger, PersistsEachRecordOnceAndCountsThoseWithoutAGap) {
  StepLedger ledger("job", true, Step(3), {}, {});
  EXPECT_THAT(PersistedSteps(ledger.Add("w0", {Record(4), Record(3)}, {})), ElementsAre(4, 3));
  EXPECT_EQ(ledger.recorded(), Step(5));
  EXPECT_THAT(PersistedSteps(ledger.Add("w1", {Record(3), Record(4)}, {})), IsEmpty());
  EXPECT_THAT(PersistedSteps(ledger.Add("w1", {Record(6)}, {})), ElementsAre(6));
  EXPECT_EQ(ledger.recorded(), Step(5)) << "step 5 is missing";
  EXPECT_THAT(PersistedSteps(ledger.Add("w1", {Record(5)}, {})), ElementsAre(5));
  EXPECT_EQ(ledger.recorded(), Step(7));
  EXPECT_EQ(ledger.loss(), 2);
}

TEST(StepLedger, LaneHoldersThatAreNotToldAreThoseOfTheView) {
  View view;
  view.number = ViewNumber(2);
  view.members = {ViewMember{{"w0", {1, 1}}}, ViewMember{{"w1", {2, 1}}}};
  view.first_step = Step(3);
  view.first_lanes = {{1, 1}};
  view.lanes = {{0, 1}};
  StepRecord third = Record(3), fourth = Record(4);
  for (StepRecord* record : {&third, &fourth}) {
    record->view = view.number;
    record->lane_holders = {};
  }
  StepLedger ledger("job", true, Step(3), {}, {});
  const std::vector<Action> actions = ledger.Add("w0", {third, fourth}, view);
  const auto* persisted = std::get_if<PersistRecords>(&actions.at(0));
  ASSERT_NE(persisted, nullptr);
  EXPECT_EQ(persisted->records.at(0).lane_holders,
            (LaneHolders{view.members[1].id, view.members[1].id}));
  EXPECT_EQ(persisted->records.at(1).lane_holders,
            (LaneHolders{view.members[0].id, view.members[1].id}));
}

TEST(StepLedger, SaysWhoDoesNotAgree) {
  StepLedger ledger("job", true, Step(0), {}, {});
  ledger.Add("w0", {Record(0)}, {});
  EXPECT_THAT(Said(ledger.Add("w1", {Record(0)}, {})), IsEmpty());
  EXPECT_THAT(
      Said(ledger.Add("w1", {Record(0, 12)}, {})),
      ElementsAre("records of step 0 disagree: w1 reports loss 12, the first report was 8"));
  ledger.Add("w0", {WithPart(1, 5, true)}, {});
  EXPECT_THAT(Said(ledger.Add("w1", {WithPart(1, 6, true)}, {})),
              ElementsAre(HasSubstr("fingerprints of step 2 differ: w1 has")));
}

// A server that owns only buffers knows its part of the fingerprint, and neither weight nor loss.
TEST(StepLedger, WhoDoesNotKnowTheWeightTellsOnlyItsFingerprint) {
  StepRecord of_buffers = WithPart(0, 7, false);
  of_buffers.weight = 0;
  of_buffers.loss = 0;
  of_buffers.without_weight = true;
  for (const bool first : {true, false})
    for (const bool reproducible : {true, false}) {
      StepLedger ledger("job", reproducible, Step(0), {}, {});
      std::vector<Action> all;
      for (const bool buffers : {first, !first}) {
        const StepRecord record = buffers ? of_buffers : WithPart(0, 5, false);
        for (const Action& action : ledger.Add(buffers ? "s1" : "s0", {record}, TwoOwners()))
          all.push_back(action);
      }
      EXPECT_THAT(Said(all), IsEmpty());
      EXPECT_THAT(PersistedSteps(all), ElementsAre(0));
      EXPECT_THAT(PersistedFingerprints(all), ElementsAre(FingerprintPart{2, 12, true}));
      EXPECT_EQ(ledger.loss(), 2);
    }
}

// In free order each chunk rounds the loss in its own way.
TEST(StepLedger, InFreeOrderLossesOfServersMayDiffer) {
  StepLedger ledger("job", false, Step(0), {}, {});
  ledger.Add("s0", {Record(0, 8)}, {});
  EXPECT_THAT(Said(ledger.Add("s1", {Record(0, 8.000000001)}, {})), IsEmpty());
  StepRecord lighter = Record(0);
  lighter.weight = 3;
  EXPECT_THAT(Said(ledger.Add("s1", {lighter}, {})), ElementsAre(HasSubstr("disagree")));
}

TEST(StepLedger, PartsOfServersCountWhenAllAreThere) {
  StepLedger ledger("job", true, Step(0), {}, {});
  EXPECT_THAT(PersistedFingerprints(ledger.Add("s0", {WithPart(0, 5, false)}, TwoOwners())),
              IsEmpty());
  EXPECT_THAT(PersistedFingerprints(ledger.Add("s0", {WithPart(0, 5, false)}, TwoOwners())),
              IsEmpty())
      << "the same one again";
  EXPECT_THAT(PersistedFingerprints(ledger.Add("s1", {WithPart(0, 6, false)}, TwoOwners())),
              ElementsAre(FingerprintPart{2, 11, true}));
  EXPECT_EQ(ledger.FingerprintOf(Step(1)), (FingerprintPart{2, 11, true}));
  EXPECT_EQ(ledger.FingerprintOf(Step(2)), std::nullopt);
}

TEST(StepLedger, WhatARewindVoidedIsComparedWithWhatFollows) {
  for (const bool reproducible : {true, false}) {
    StepLedger ledger("job", reproducible, Step(0), {}, {});
    ledger.Add("w0", {Record(0), WithPart(1, 5, true), Record(2)}, {});
    ledger.Rewind(Step(1), {});
    EXPECT_EQ(ledger.recorded(), Step(1));
    EXPECT_EQ(ledger.FingerprintOf(Step(2)), std::nullopt);
    EXPECT_THAT(PersistedSteps(ledger.Add("w0", {WithPart(1, 5, true)}, {})), ElementsAre(1));
    const auto said = Said(ledger.Add("w0", {Record(2, 12)}, {}));
    if (reproducible) {
      EXPECT_THAT(said, ElementsAre("step 2 was done again and differs: loss 12 instead of 8"));
    } else {
      EXPECT_THAT(said, IsEmpty());
    }
  }
}

// ---- steps that were not finite

TEST(StepLedger, CountsSkippedStepsOfTheHistory) {
  StepLedger ledger("job", true, Step(0), {.skipped = 2}, {});
  StepRecord bad = Record(1, std::nan(""));
  bad.skipped = true;
  EXPECT_THAT(Said(ledger.Add("w0", {Record(0), bad, Record(2)}, {})),
              ElementsAre("step 1 is not finite (loss nan): nothing of it was applied"));
  EXPECT_EQ(ledger.tally().skipped, 3) << "two before";
  EXPECT_EQ(ledger.TallyBefore(Step(1)).skipped, 2);
  EXPECT_EQ(ledger.TallyBefore(Step(2)).skipped, 3);
  EXPECT_TRUE(ledger.WasSkipped(Step(1)));
  EXPECT_FALSE(ledger.WasSkipped(Step(2)));
  bad.loss = -bad.loss;
  EXPECT_THAT(Said(ledger.Add("w1", {bad}, {})), IsEmpty()) << "the same, whatever its bits";
  bad.skipped = false;
  EXPECT_THAT(Said(ledger.Add("w1", {bad}, {})),
              ElementsAre(HasSubstr("records of step 1 disagree")));
  ledger.Rewind(Step(1), {.skipped = 2});
  EXPECT_EQ(ledger.tally().skipped, 2);
}

TEST(StepLedger, NotesEachLaneThatIsNotFiniteOnce) {
  StepLedger ledger("job", true, Step(0), {}, {});
  EXPECT_THAT(ledger.NoteLanes(Step(1), {LaneId(2), LaneId(3)}), ElementsAre(LaneId(2), LaneId(3)));
  EXPECT_THAT(ledger.NoteLanes(Step(1), {LaneId(1), LaneId(3)}), ElementsAre(LaneId(1)));
  EXPECT_THAT(ledger.LanesNotFinite(Step(1)), ElementsAre(LaneId(1), LaneId(2), LaneId(3)));
  EXPECT_THAT(ledger.LanesNotFinite(Step(2)), IsEmpty());
}

}  // namespace
}  // namespace muster::coordinator
