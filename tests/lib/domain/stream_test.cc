#include "lib/domain/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace muster {
namespace {

using std::nullopt;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Incarnation kA{0, 1}, kB{0, 2};

TEST(KnownStep, IsKnownWithOneSampleMoreOrWithTheEnd) {
  struct Case {
    const char* what;
    uint64_t positions;
    std::optional<uint64_t> end;
    int64_t step;
    std::optional<StreamRange> range;
  };
  const StreamSteps kFour{.samples = 4};
  const Case kCases[] = {
      {"nothing has come", 0, nullopt, 0, nullopt},
      {"as many as it uses", 4, nullopt, 0, nullopt},
      {"one more", 5, nullopt, 0, StreamRange{0, 4}},
      {"the next one", 8, nullopt, 1, nullopt},
      {"the next one, with one more", 9, nullopt, 1, StreamRange{4, 4}},
      {"an end at once", 0, 0, 0, nullopt},
      {"one sample", 1, 1, 0, StreamRange{0, 1}},
      {"a full last step", 4, 4, 0, StreamRange{0, 4}},
      {"no step without samples", 4, 4, 1, nullopt},
      {"a short last step", 5, 5, 1, StreamRange{4, 1}},
      {"before the first", 5, nullopt, -1, nullopt},
      {"far beyond", kMostSamples, nullopt, INT64_MAX, nullopt},
  };
  for (const Case& c : kCases)
    EXPECT_EQ(KnownStep(kFour, {c.positions, c.end}, Step(c.step)), c.range) << c.what;
}

TEST(KnownStep, TheLastStepOfAJobWaitsForNoMore) {
  const StreamSteps kTwo{.samples = 4, .most = 2};
  EXPECT_EQ(KnownStep(kTwo, {.positions = 4}, Step(0)), nullopt);
  EXPECT_EQ(KnownStep(kTwo, {.positions = 7}, Step(1)), nullopt);
  EXPECT_EQ(KnownStep(kTwo, {.positions = 8}, Step(1)), (StreamRange{4, 4}));
  EXPECT_EQ(KnownStep(kTwo, {.positions = 100}, Step(2)), nullopt);
  EXPECT_EQ(KnownStep(kTwo, {.positions = 9, .end = 9}, Step(2)), nullopt);
}

TEST(KnownTotal, IsTheSmallerOfWhatTheStreamAndTheJobHave) {
  const StreamSteps kFour{.samples = 4}, kTwo{.samples = 4, .most = 2};
  EXPECT_EQ(KnownTotal(kFour, {.positions = 100}), nullopt);
  EXPECT_EQ(KnownTotal(kFour, {.positions = 0, .end = 0}), 0);
  EXPECT_EQ(KnownTotal(kFour, {.positions = 8, .end = 8}), 2);
  EXPECT_EQ(KnownTotal(kFour, {.positions = 9, .end = 9}), 3);
  EXPECT_EQ(KnownTotal(kTwo, {.positions = 7}), nullopt);
  EXPECT_EQ(KnownTotal(kTwo, {.positions = 8}), 2);
  EXPECT_EQ(KnownTotal(kTwo, {.positions = 3, .end = 3}), 1);
  EXPECT_EQ(KnownTotal(kTwo, {.positions = 9, .end = 9}), 2);
}

// Whoever knows a step finds the same, whatever he knows more.
TEST(KnownStep, MoreFactsChangeNothingOfWhatWasKnown) {
  for (uint64_t samples = 1; samples <= 5; ++samples)
    for (int64_t most = 0; most <= 4; ++most)
      for (uint64_t end = 0; end <= 14; ++end) {
        const StreamSteps steps{samples, most};
        const StreamKnown all{end, end};
        int64_t used = 0;
        for (int64_t s = 0; s < 16; ++s) {
          const auto of_all = KnownStep(steps, all, Step(s));
          EXPECT_EQ(of_all.has_value(), s < *KnownTotal(steps, all));
          used += of_all ? static_cast<int64_t>(of_all->count) : 0;
          for (uint64_t positions = 0; positions <= end; ++positions)
            if (const auto known = KnownStep(steps, {positions, nullopt}, Step(s))) {
              EXPECT_EQ(known, of_all);
              EXPECT_LE(known->first + known->count, positions);
            }
        }
        if (most == 0) {
          EXPECT_EQ(used, static_cast<int64_t>(end));
        }
      }
}

TEST(Spool, HasBoundsInPositions) {
  EXPECT_EQ(SpoolFileBytes(0, 3), 64u);
  EXPECT_EQ(SpoolFileBytes(5, 3), 64u + 35);
  EXPECT_EQ(SpoolFileBytes(kMostSamples, kMostStreamSampleBytes), uint64_t{1} << 60);
  EXPECT_EQ(SamplesOfSegment(uint64_t{16} << 30, 1020), ((uint64_t{1} << 28) - 64) / 1024);
  EXPECT_EQ(SamplesOfSegment(1, 1020), 1u);
  EXPECT_EQ(SamplesOfSegment(64 * 64, 3), 1u);

  const StreamSteps kFour{.samples = 4}, kTwo{.samples = 4, .most = 2};
  EXPECT_EQ(NeededPositions(kFour, Step(0)), 9u);
  EXPECT_EQ(NeededPositions(kFour, Step(10)), 49u);
  EXPECT_EQ(NeededPositions(kTwo, Step(0)), 8u);
  EXPECT_EQ(NeededPositions(kFour, Step(INT64_MAX - 2)), kMostSamples);

  // 1,000 bytes, of which one head is the next one's: 936 ÷ 7.
  EXPECT_EQ(RoomOfSpool(kFour, {}, 0, 1000, 3), 133u);
  const std::vector<SpoolSegment> facts = {{0, kA, 20, 10}, {1, kA, 30, 2}};
  EXPECT_EQ(RoomOfSpool(kFour, facts, 32, 1000, 3), 32 + (1000 - 3 * 64 - 12 * 7) / 7);
  EXPECT_EQ(RoomOfSpool(kFour, facts, 32, 100, 3), 32u);
  EXPECT_EQ(RoomOfSpool({.samples = 4, .most = 10}, facts, 32, 1000, 3), 40u);
  EXPECT_EQ(RoomOfSpool(kTwo, facts, 32, 1000, 3), 32u);
  EXPECT_TRUE(NeedsNoMore(kTwo, {.positions = 8}));
  EXPECT_FALSE(NeedsNoMore(kTwo, {.positions = 7}));
  EXPECT_TRUE(NeedsNoMore(kFour, {.positions = 7, .end = 7}));
}

TEST(AddFacts, GrowsTheLastAndFollowsWithoutAGap) {
  std::vector<SpoolSegment> facts;
  ASSERT_TRUE(AddFacts(facts, {}).ok());
  const std::vector<SpoolSegment> first = {{3, kA, 7, 2}, {3, kA, 7, 4}, {5, kB, 11, 1}};
  ASSERT_TRUE(AddFacts(facts, first).ok());
  EXPECT_THAT(facts, ElementsAre(SpoolSegment{3, kA, 7, 4}, SpoolSegment{5, kB, 11, 1}));
  // In each session all are told once more.
  const std::vector<SpoolSegment> again = {{3, kA, 7, 4}, {5, kB, 11, 6}};
  ASSERT_TRUE(AddFacts(facts, again).ok());
  EXPECT_EQ(facts, again);
}

TEST(AddFacts, WhatDoesNotGoOnSoIsRefusedAndChangesNothing) {
  const std::vector<SpoolSegment> before = {{3, kA, 7, 4}, {5, kB, 11, 6}};
  const SpoolSegment kWrong[] = {
      {6, kB, 18, 1},             // a gap
      {6, kB, 16, 1},             // twice the same
      {6, kB, 17, 0},             // nothing
      {5, kB, 11, 5},             // shorter
      {5, kA, 11, 7},             // of another
      {5, kB, 12, 7},             // from elsewhere
      {3, kA, 7, 5},              // one that is not the last
      {4, kA, 11, 6},             // one that was not there
      {2, kA, 0, 7},              //
      {-1, kA, 17, 1},            //
      {6, kB, 17, kMostSamples},  // more than there can be
  };
  for (const SpoolSegment& wrong : kWrong) {
    std::vector<SpoolSegment> facts = before;
    const std::vector<SpoolSegment> news = {{5, kB, 11, 6}, wrong};
    const absl::Status status = AddFacts(facts, news);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << wrong.number << " " << wrong.first;
    EXPECT_THAT(status.message(), HasSubstr("segment"));
    EXPECT_EQ(facts, before);
  }
}

TEST(AddFacts, AreBounded) {
  std::vector<SpoolSegment> facts;
  for (size_t n = 0; n < kMostSpoolSegments; ++n)
    facts.push_back({static_cast<int64_t>(n), kA, n, 1});
  const SpoolSegment longer{kMostSpoolSegments - 1, kA, kMostSpoolSegments - 1, 2};
  EXPECT_TRUE(AddFacts(facts, {&longer, 1}).ok());
  const SpoolSegment next{kMostSpoolSegments, kA, kMostSpoolSegments + 1, 1};
  EXPECT_FALSE(AddFacts(facts, {&next, 1}).ok());
}

TEST(LearnFacts, WhatWasTrimmedMeanwhileIsForgotten) {
  std::vector<SpoolSegment> facts = {{3, kA, 7, 4}, {5, kB, 11, 6}};
  // Those from 17 to 19 have come and gone while we were away.
  const std::vector<SpoolSegment> all = {{8, kB, 20, 2}, {9, kB, 22, 1}};
  ASSERT_TRUE(LearnFacts(facts, all).ok());
  EXPECT_EQ(facts, all);
  const SpoolSegment longer{9, kB, 22, 5};
  ASSERT_TRUE(LearnFacts(facts, {&longer, 1}).ok());
  EXPECT_THAT(facts, ElementsAre(all[0], longer));
  // A session tells only those that are left.
  ASSERT_TRUE(LearnFacts(facts, {&longer, 1}).ok());
  EXPECT_THAT(facts, ElementsAre(all[0], longer));
  ASSERT_TRUE(LearnFacts(facts, {}).ok());
  EXPECT_EQ(facts.size(), 2u);
}

TEST(LearnFacts, OtherwiseGoesOnAsAddFacts) {
  const std::vector<SpoolSegment> before = {{3, kA, 7, 4}, {5, kB, 11, 6}};
  const SpoolSegment kWrong[] = {{6, kB, 16, 1}, {5, kA, 11, 7}, {5, kB, 11, 5}, {4, kA, 18, 6}};
  for (const SpoolSegment& wrong : kWrong) {
    std::vector<SpoolSegment> facts = before;
    EXPECT_TRUE(absl::IsFailedPrecondition(LearnFacts(facts, {&wrong, 1}))) << wrong.first;
    EXPECT_EQ(facts, before);
  }
}

TEST(LearnFacts, TheOldestAreForgottenWhereTooManyWereTold) {
  std::vector<SpoolSegment> facts;
  constexpr auto kMany = static_cast<int64_t>(3 * kMostSpoolSegments);
  for (int64_t n = 0; n < kMany; ++n) {
    const SpoolSegment next{n, kA, static_cast<uint64_t>(n), 1};
    ASSERT_TRUE(LearnFacts(facts, {&next, 1}).ok()) << n;
  }
  ASSERT_EQ(facts.size(), kMostSpoolSegments);
  EXPECT_EQ(facts.back().number, kMany - 1);
  std::vector<SpoolSegment> all;  // as a session tells them
  for (int64_t n = kMany; n < kMany + 4096; ++n)
    all.push_back({n, kA, static_cast<uint64_t>(n), 1});
  ASSERT_TRUE(LearnFacts(facts, all).ok());
  EXPECT_EQ(facts, all);
}

TEST(TrimmedAt, AreThoseWhollyBelowButTheLast) {
  const std::vector<SpoolSegment> facts = {{0, kA, 0, 4}, {1, kA, 4, 4}, {2, kA, 8, 4}};
  EXPECT_THAT(TrimmedAt(facts, 3), IsEmpty());
  EXPECT_THAT(TrimmedAt(facts, 4), ElementsAre(facts[0]));
  EXPECT_THAT(TrimmedAt(facts, 9), ElementsAre(facts[0], facts[1]));
  EXPECT_THAT(TrimmedAt(facts, 100), ElementsAre(facts[0], facts[1]));
  EXPECT_THAT(TrimmedAt({}, 100), IsEmpty());
}

}  // namespace
}  // namespace muster
