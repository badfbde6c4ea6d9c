#include "coordinator/state/recent_steps.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

StepRecord Record(int64_t step) {
  StepRecord record;
  record.step = Step(step);
  record.lane_holders = {{"worker-0", {1, 1}}};
  return record;
}

template <class Map>
std::vector<int64_t> Steps(const Map& map) {
  std::vector<int64_t> steps;
  for (const auto& [step, value] : map) steps.push_back(step.value());
  return steps;
}

TEST(RecentSteps, AreKeptWithoutLaneHolders) {
  RecentSteps recent;
  recent.Add(Record(4));
  EXPECT_TRUE(recent.records.at(Step(4)).lane_holders.empty());
}

// The fingerprint of state(base) is of a step before it, and stays.
TEST(RecentSteps, ARewindVoidsWhatComesAfterIt) {
  RecentSteps recent;
  for (const int64_t step : {3, 4, 5}) {
    recent.Add(Record(step));
    recent.fingerprints[Step(step)] = {};
  }
  recent.Void(Step(4));
  EXPECT_THAT(Steps(recent.records), testing::ElementsAre(3));
  EXPECT_THAT(Steps(recent.voided_records), testing::ElementsAre(4, 5));
  EXPECT_THAT(Steps(recent.fingerprints), testing::ElementsAre(3, 4));
  EXPECT_THAT(Steps(recent.voided_fingerprints), testing::ElementsAre(5));
}

TEST(RecentSteps, TheOldestAreForgottenButNoneThatIsNotRecordedYet) {
  const auto many = static_cast<int64_t>(kRecentSteps);
  RecentSteps recent;
  for (int64_t step = 0; step < many + 10; ++step) {
    recent.Add(Record(step));
    recent.fingerprints[Step(step)] = {};
  }
  recent.Trim(Step(4));
  EXPECT_EQ(recent.records.begin()->first, Step(4));
  EXPECT_EQ(recent.fingerprints.size(), kRecentSteps);
  recent.Trim(Step(many));
  EXPECT_EQ(recent.records.size(), kRecentSteps);
}

// After going back far, what was measured long ago is wanted, and later measures are there.
TEST(RecentSteps, OfForgottenStepsTheNewestMeasuresAreKept) {
  const auto many = static_cast<int64_t>(kRecentSteps + kRecentMeasures);
  RecentSteps recent;
  for (int64_t step = 0; step <= many; ++step) {
    StepRecord record;
    record.step = Step(step);
    record.measures = {{static_cast<double>(step), 1}};
    recent.Add(std::move(record));
    recent.Trim(Step(step));
  }
  EXPECT_EQ(recent.measures.size(), kRecentMeasures);
  EXPECT_EQ(recent.MeasuresOf(Step(0)), nullptr);
  for (const int64_t step : {int64_t{1}, many}) {
    ASSERT_NE(recent.MeasuresOf(Step(step)), nullptr) << step;
    EXPECT_EQ(recent.MeasuresOf(Step(step))->at(0).sum, static_cast<double>(step));
  }
}

// Of the steps from this one on, as many as are kept.
RecentSteps FactsFrom(int64_t first, const std::vector<Lineage>& lineages) {
  RecentSteps recent;
  for (size_t s = 0; s < kRecentFacts; ++s)
    recent.Add({LineageNumber(1), Step(first + static_cast<int64_t>(s)), {{1}}}, lineages);
  return recent;
}

TEST(RecentSteps, AMeasureThatIsAddedStaysThoughItIsTheOldest) {
  const std::vector<Lineage> lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  RecentSteps recent = FactsFrom(1000, lineages);
  recent.Add({LineageNumber(1), Step(100), {{2}}}, lineages);
  EXPECT_EQ(recent.facts.size(), kRecentFacts);
  EXPECT_EQ(recent.facts.count({LineageNumber(1), Step(100)}), 1u);
  EXPECT_EQ(recent.facts.count({LineageNumber(1), Step(1000)}), 0u);
}

// The state of step 1001 is voided, and the one before it may still be brought.
TEST(RecentSteps, MeasuresOfVoidedStatesGoBeforeOlderOnes) {
  std::vector<Lineage> lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};
  RecentSteps recent = FactsFrom(1000, lineages);
  lineages.push_back({LineageNumber(2), LineageNumber(1), Step(1000), "a rewind"});
  recent.Add({LineageNumber(2), Step(1003), {{2}}}, lineages);
  EXPECT_EQ(recent.facts.size(), kRecentFacts);
  EXPECT_EQ(recent.facts.count({LineageNumber(1), Step(1000)}), 1u);
  EXPECT_EQ(recent.facts.count({LineageNumber(1), Step(1001)}), 0u);
  EXPECT_EQ(recent.facts.count({LineageNumber(2), Step(1003)}), 1u);
}

}  // namespace
}  // namespace muster::coordinator
