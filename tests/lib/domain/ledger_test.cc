#include "lib/domain/ledger.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/domain/audit.h"
#include "tests/support/ancestry.h"

namespace muster {
namespace {

constexpr uint64_t kSamples = 10;

// 10 samples, 4 at a time: 3 steps an epoch, the third one short.
TrainingSpec CountingTraining() {
  TrainingSpec training;
  training.task = "counting";
  training.lanes = 2;
  training.batch = 4;
  training.epochs = 2;
  training.seed = 9;
  return training;
}

StepRecord RecordOf(int64_t lineage, int64_t step) {
  StepRecord r;
  r.lineage = LineageNumber(lineage);
  r.step = Step(step);
  r.view = ViewNumber(1);
  r.lane_holders = {{"worker-0", {1, 1}}, {"worker-1", {2, 2}}};
  r.samples = StepSamples(CountingTraining(), kSamples, r.step);
  r.weight = static_cast<int64_t>(r.samples.count);
  return r;
}

std::vector<StepRecord> Steps(int64_t lineage, int64_t from, int64_t to) {
  std::vector<StepRecord> records;
  for (int64_t s = from; s < to; ++s) records.push_back(RecordOf(lineage, s));
  return records;
}

std::vector<StepRecord> operator+(std::vector<StepRecord> a, const std::vector<StepRecord>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Lineage Of(int64_t number, int64_t parent, int64_t fork) {
  return {LineageNumber(number), LineageNumber(parent), Step(fork), "test"};
}

std::vector<std::pair<int64_t, int64_t>> LineageAndStep(const std::vector<StepRecord>& records) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const StepRecord& r : records) pairs.emplace_back(r.lineage.value(), r.step.value());
  return pairs;
}

using Pairs = std::vector<std::pair<int64_t, int64_t>>;

// ---- ancestry

TEST(Ancestry, OfOneLineageIsItsRecordsInStepOrder) {
  std::vector<StepRecord> records = Steps(1, 0, 4);
  std::swap(records[0], records[3]);
  const auto found = Ancestry({Of(1, 0, 0)}, records, LineageNumber(1), Step(3));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(LineageAndStep(*found), (Pairs{{1, 0}, {1, 1}, {1, 2}}));
}

TEST(Ancestry, FollowsForksBackAndLeavesVoidedStepsOut) {
  // 1: steps 0 … 5; rewound to 4: lineage 2 did 4 … 6; rewound to 2, before lineage 2 began:
  // lineage 3 from 1.
  const std::vector<StepRecord> records = Steps(1, 0, 6) + Steps(2, 4, 7) + Steps(3, 2, 5);
  const std::vector<Lineage> lineages = {Of(1, 0, 0), Of(2, 1, 4), Of(3, 1, 2)};
  const auto last = Ancestry(lineages, records, LineageNumber(3), Step(5));
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(LineageAndStep(*last), (Pairs{{1, 0}, {1, 1}, {3, 2}, {3, 3}, {3, 4}}));
  const auto second = Ancestry(lineages, records, LineageNumber(2), Step(7));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(LineageAndStep(*second),
            (Pairs{{1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 4}, {2, 5}, {2, 6}}));
}

// A child that forks below its parent's own fork takes those steps from the grandparent.
TEST(Ancestry, AForkBelowTheParentsForkReachesTheGrandparent) {
  const std::vector<StepRecord> records = Steps(1, 0, 6) + Steps(2, 4, 7) + Steps(3, 2, 4);
  const auto found =
      Ancestry({Of(1, 0, 0), Of(2, 1, 4), Of(3, 2, 2)}, records, LineageNumber(3), Step(4));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(LineageAndStep(*found), (Pairs{{1, 0}, {1, 1}, {3, 2}, {3, 3}}));
}

TEST(Ancestry, AStartFromTheBeginningHasNoParent) {
  const auto found = Ancestry({Of(1, 0, 0), Of(2, 0, 0)}, Steps(1, 0, 3) + Steps(2, 0, 2),
                              LineageNumber(2), Step(2));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(LineageAndStep(*found), (Pairs{{2, 0}, {2, 1}}));
}

TEST(History, NamesTheLineageOfEachStepOnce) {
  const Step end(std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(HistoryOf({}).empty());
  EXPECT_EQ(HistoryOf({Of(1, 0, 0)}), (std::vector<LineagePart>{{LineageNumber(1), Step(0), end}}));
  EXPECT_EQ(HistoryOf({Of(1, 0, 0), Of(2, 1, 5), Of(3, 2, 8)}),
            (std::vector<LineagePart>{{LineageNumber(1), Step(0), Step(5)},
                                      {LineageNumber(2), Step(5), Step(8)},
                                      {LineageNumber(3), Step(8), end}}));
  // To before the fork of the parent; to a sibling; and from the beginning.
  EXPECT_EQ(HistoryOf({Of(1, 0, 0), Of(2, 1, 5), Of(3, 2, 3)}),
            (std::vector<LineagePart>{{LineageNumber(1), Step(0), Step(3)},
                                      {LineageNumber(3), Step(3), end}}));
  EXPECT_EQ(HistoryOf({Of(1, 0, 0), Of(2, 1, 5), Of(3, 1, 4)}),
            (std::vector<LineagePart>{{LineageNumber(1), Step(0), Step(4)},
                                      {LineageNumber(3), Step(4), end}}));
  EXPECT_EQ(HistoryOf({Of(1, 0, 0), Of(2, 0, 0)}),
            (std::vector<LineagePart>{{LineageNumber(2), Step(0), end}}));
}

TEST(History, ACopyGoesOnWhereARewindLeftItsStepsOut) {
  const auto next = [](const std::vector<Lineage>& lineages, int64_t held, int64_t step) {
    return ContinueAt(HistoryOf(lineages), LineageNumber(held), Step(step)).value();
  };
  EXPECT_EQ(next({}, 0, 0), 0);
  EXPECT_EQ(next({Of(1, 0, 0)}, 1, 7), 7);
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 1, 5)}, 0, 7), 7) << "whoever reads page by page";
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 1, 5)}, 1, 7), 5);
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 1, 5)}, 1, 3), 3) << "the rewind was to a later step";
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 1, 5)}, 2, 7), 7);
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 1, 5), Of(3, 2, 3)}, 2, 7), 3);
  EXPECT_EQ(next({Of(1, 0, 0), Of(2, 0, 0)}, 1, 7), 0);
}

TEST(Ancestry, OfStateZeroIsEmpty) {
  const auto found = Ancestry({}, {}, LineageNumber(1), Step(0));
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(found->empty());
}

TEST(Ancestry, NamesWhatIsMissing) {
  std::vector<StepRecord> gap = Steps(1, 0, 4);
  gap.erase(gap.begin() + 2);
  const auto missing = Ancestry({Of(1, 0, 0)}, gap, LineageNumber(1), Step(4));
  EXPECT_EQ(missing.status(), absl::DataLossError("step 2 of lineage 1 has no record"));
  const auto unknown = Ancestry({Of(2, 1, 2)}, Steps(2, 2, 4), LineageNumber(2), Step(4));
  EXPECT_EQ(unknown.status(), absl::DataLossError("lineage 1 is not in the journal"));
  const auto nowhere = Ancestry({Of(2, 0, 2)}, Steps(2, 2, 4), LineageNumber(2), Step(4));
  EXPECT_EQ(nowhere.status(), absl::DataLossError("step 1 is on no lineage"));
}

// ---- audit

std::string ConclusionOf(const std::vector<StepRecord>& ancestry,
                         const TrainingSpec& training = CountingTraining()) {
  const AuditReport report = Audit(training, kSamples, ancestry);
  EXPECT_FALSE(report.ok);
  return report.conclusion;
}

TEST(Audit, ProvesFullEpochs) {
  const AuditReport report = Audit(CountingTraining(), kSamples, Steps(1, 0, 6));
  EXPECT_TRUE(report.ok);
  EXPECT_EQ(report.conclusion,
            "each of 10 samples is in the final state exactly once in each of 2 full epochs; 6 "
            "steps, each lane once");
  EXPECT_EQ(report.steps, 6);
  EXPECT_EQ(report.full_epochs, 2);
  EXPECT_EQ(report.samples, 20u);
  EXPECT_EQ(report.lanes, 12);
}

TEST(Audit, OfAStreamSaysHowFarItIs) {
  TrainingSpec training = CountingTraining();
  training.epochs = 1;
  training.stream = StreamFrom::kFolder;
  std::vector<StepRecord> records = Steps(1, 0, 2);
  AuditReport report = Audit(training, kMostSamples, records);
  EXPECT_TRUE(report.ok);
  EXPECT_EQ(report.conclusion,
            "each of the first 8 samples of the stream is in the final state exactly once, in the "
            "order in which they came, and there may be more; 2 steps, each lane once");
  records = Steps(1, 0, 3);  // the last of them has two
  report = Audit(training, kSamples, records);
  EXPECT_TRUE(report.ok);
  EXPECT_EQ(report.conclusion,
            "each of all 10 samples of the stream is in the final state exactly once, in the order "
            "in which they came; 3 steps, each lane once");
  EXPECT_EQ(report.full_epochs, 1);
  records[1].samples.first = 5;
  EXPECT_EQ(
      Audit(training, kSamples, records).conclusion,
      "step 1 (lineage 1) used samples 5+4 of epoch 0, not the ones the specification gives it");
}

TEST(Audit, AnUnfinishedEpochMayLackSamples) {
  const AuditReport report = Audit(CountingTraining(), kSamples, Steps(1, 0, 4));
  EXPECT_TRUE(report.ok) << report.conclusion;
  EXPECT_EQ(report.full_epochs, 1);
  EXPECT_EQ(report.samples, 14u);
  EXPECT_EQ(report.conclusion,
            "each of 10 samples is in the final state exactly once in the one full epoch; 4 "
            "steps, each lane once");
  EXPECT_EQ(Audit(CountingTraining(), kSamples, Steps(1, 0, 1)).conclusion,
            "each of 10 samples is in the final state at most once: no epoch is full yet; 1 step, "
            "each lane once");
}

TEST(Audit, CountsSamplesOfSkippedStepsApart) {
  std::vector<StepRecord> records = Steps(1, 0, 6);
  records[1].skipped = true;
  records[1].loss = NAN;
  const AuditReport report = Audit(CountingTraining(), kSamples, records);
  EXPECT_TRUE(report.ok) << report.conclusion;
  EXPECT_EQ(report.samples, 16u);
  EXPECT_EQ(report.skipped_samples, 4u);
  EXPECT_EQ(report.skipped_steps, 1);
  EXPECT_EQ(report.steps, 6);
  EXPECT_EQ(report.conclusion,
            "each of 10 samples was used exactly once in each of 2 full epochs; 6 steps, each lane "
            "once; 1 step was not finite and left the state as it was: 4 uses of samples are not "
            "in the final state");
}

TEST(Audit, CountsSamplesThatWereLeftOutApart) {
  TrainingSpec training = CountingTraining();
  std::vector<StepRecord> records = Steps(1, 0, 6);
  records[1].left_out = {0, 3};
  records[1].weight = 2;
  EXPECT_THAT(ConclusionOf(records, training), testing::HasSubstr("data.on_bad_sample is stop"));
  training.data.on_bad_sample = OnBadSample::kSkip;
  const AuditReport report = Audit(training, kSamples, records);
  EXPECT_TRUE(report.ok) << report.conclusion;
  EXPECT_EQ(report.samples, 18u);
  EXPECT_EQ(report.left_out_samples, 2u);
  EXPECT_EQ(report.conclusion,
            "each of 10 samples was used or left out exactly once in each of 2 full epochs; 6 "
            "steps, each lane once; 2 uses of samples that cannot be read were left out, and the "
            "ledger names them");
  records[1].weight = 3;
  EXPECT_THAT(ConclusionOf(records, training), testing::HasSubstr("has weight 3 for 2 samples"));
}

TEST(Audit, AcrossARewindFollowsTheRecordsThatCount) {
  const auto ancestry = Ancestry({Of(1, 0, 0), Of(2, 1, 2)}, Steps(1, 0, 5) + Steps(2, 2, 6),
                                 LineageNumber(2), Step(6));
  ASSERT_TRUE(ancestry.ok());
  EXPECT_TRUE(Audit(CountingTraining(), kSamples, *ancestry).ok);
}

TEST(Audit, NamesTheStepBehindWhichRecordsAreMissing) {
  Auditor auditor(CountingTraining(), kSamples);
  for (const StepRecord& record : Steps(1, 0, 4)) EXPECT_TRUE(auditor.Add(record));
  const AuditReport report = std::move(auditor).Conclude(Step(5));
  EXPECT_FALSE(report.ok);
  EXPECT_EQ(report.conclusion, "step 4 has no record");
}

// Somebody else vouches for what is below.
TEST(Audit, OfAnAdoptedJobBeginsAtItsFirstRecord) {
  const std::vector<StepRecord> all = Steps(1, 0, 6);
  for (size_t first = 1; first <= all.size(); ++first) {
    Auditor auditor(CountingTraining(), kSamples, Step(static_cast<int64_t>(first)));
    for (size_t i = first; i < all.size(); ++i) EXPECT_TRUE(auditor.Add(all[i]));
    const AuditReport report = std::move(auditor).Conclude(Step(6));
    EXPECT_TRUE(report.ok) << first << ": " << report.conclusion;
    EXPECT_EQ(report.steps, 6);
  }
  Auditor skips(CountingTraining(), kSamples, Step(2));
  EXPECT_FALSE(skips.Add(all[3])) << "step 2 has no record";
}

TEST(Audit, LooksNoFurtherOnceItIsStopped) {
  std::stop_source stop;
  Auditor auditor(CountingTraining(), kSamples);
  EXPECT_TRUE(auditor.Add(RecordOf(1, 0), stop.get_token()));
  stop.request_stop();
  EXPECT_FALSE(auditor.Add(RecordOf(1, 1), stop.get_token()));
}

TEST(Audit, SaysThatNoDataSetIsLikeThat) {
  for (const uint64_t samples : {uint64_t{0}, kMostSamples + 1}) {
    const AuditReport report = Audit(CountingTraining(), samples, Steps(1, 0, 1));
    EXPECT_FALSE(report.ok);
    EXPECT_EQ(report.conclusion,
              absl::StrCat("the job is told to have ", samples, " samples, which no data set has"));
  }
}

// A bitmap of these samples would take 128 GiB.
TEST(Audit, TakesNoMemoryForSamples) {
  StepRecord record = RecordOf(1, 0);
  record.samples = StepSamples(CountingTraining(), kMostSamples, Step(0));
  EXPECT_TRUE(Audit(CountingTraining(), kMostSamples, {record}).ok);
}

TEST(Audit, NamesAMissingStep) {
  std::vector<StepRecord> records = Steps(1, 0, 6);
  records.erase(records.begin() + 2);
  EXPECT_EQ(ConclusionOf(records), "step 2 has no record; the next one is of step 3 (lineage 1)");
}

TEST(Audit, NamesAStepThatCountsTwice) {
  EXPECT_EQ(ConclusionOf(Steps(1, 0, 2) + Steps(2, 1, 3)),
            "step 2 has no record; the next one is of step 1 (lineage 2)");
}

TEST(Audit, NamesWrongSamples) {
  std::vector<StepRecord> records = Steps(1, 0, 6);
  records[1].samples.first = 3;
  EXPECT_EQ(
      ConclusionOf(records),
      "step 1 (lineage 1) used samples 3+4 of epoch 0, not the ones the specification gives it");
  records = Steps(1, 0, 6);
  // The first epoch's again: used twice there, never in the second.
  records[3].samples = records[0].samples;
  EXPECT_EQ(
      ConclusionOf(records),
      "step 3 (lineage 1) used samples 0+4 of epoch 0, not the ones the specification gives it");
}

TEST(LaneHolders, AreTheSameWhenThoseOfEachLaneAre) {
  const MemberId a{"a", {1, 1}}, b{"b", {2, 2}};
  EXPECT_TRUE((LaneHolders{a, b, a}) == LaneHolders({b, a}, {1, 0, 1}));
  EXPECT_FALSE((LaneHolders{a, b}) == (LaneHolders{b, a}));
  EXPECT_FALSE((LaneHolders{a, a}) == (LaneHolders{a}));
  EXPECT_EQ((LaneHolders{a, a, a}).members().size(), 1u);
}

TEST(Audit, NamesALaneWithoutAHolder) {
  std::vector<StepRecord> records = Steps(1, 0, 6);
  const MemberId holder = records[4].lane_holders[0];
  records[4].lane_holders = {holder, {"", {2, 2}}};
  EXPECT_EQ(ConclusionOf(records), "step 4 (lineage 1): lane 1 has no holder");
  records[4].lane_holders = {holder};
  EXPECT_EQ(ConclusionOf(records), "step 4 (lineage 1) names holders of 1 lane instead of 2");
}

TEST(Audit, NamesAWrongWeight) {
  std::vector<StepRecord> records = Steps(1, 0, 6);
  records[2].weight = 4;  // the short step has 2
  EXPECT_EQ(ConclusionOf(records), "step 2 (lineage 1) has weight 4 for 2 samples");
  TrainingSpec tokens = CountingTraining();
  tokens.task = "code-lm";  // weights are tokens: as many as samples can have
  EXPECT_TRUE(Audit(tokens, kSamples, records).ok);
  records[2].weight = -1;
  EXPECT_EQ(ConclusionOf(records, tokens), "step 2 (lineage 1) has weight -1 for 2 samples");
  records[2].weight = 2 * kMostSampleWeight + 1;
  EXPECT_EQ(ConclusionOf(records, tokens), "step 2 (lineage 1) has weight 2097153 for 2 samples");
}

}  // namespace
}  // namespace muster
