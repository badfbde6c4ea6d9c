#include "coordinator/state/stream_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

const Incarnation kFirst{1, 7}, kSecond{2, 7};

Spooled Told(int64_t segment, uint64_t first, uint64_t count, bool end = false) {
  return {.segment = segment,
          .first = first,
          .count = count,
          .place = {.file = "f", .sample = first + count},
          .end = end};
}

void ExpectTaken(StreamFacts& facts, const Spooled& told, Incarnation reader, bool is_new = true) {
  const absl::StatusOr<bool> taken = facts.Take(told, reader);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(*taken, is_new);
}

void ExpectRefused(StreamFacts& facts, const Spooled& told, Incarnation reader,
                   const std::string& why) {
  const StreamRows before = facts.rows();
  const absl::StatusOr<bool> taken = facts.Take(told, reader);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kFailedPrecondition) << why;
  EXPECT_THAT(taken.status().message(), HasSubstr(why));
  EXPECT_EQ(facts.rows(), before) << "after an error all is as it was";
}

TEST(StreamFacts, GrowBySegmentsOfOneReaderAndOfTheNext) {
  StreamFacts facts({});
  ExpectTaken(facts, Told(0, 0, 3), kFirst);
  ExpectTaken(facts, Told(0, 0, 5), kFirst);
  ExpectTaken(facts, Told(0, 0, 5), kFirst, /*is_new=*/false);
  ExpectTaken(facts, Told(1, 5, 2), kFirst);
  ExpectTaken(facts, Told(4, 7, 1), kSecond);  // numbers may be left out
  EXPECT_THAT(facts.segments(), SizeIs(3));
  EXPECT_EQ(facts.positions(), 8u);
  EXPECT_EQ(facts.next_segment(), 5);
  EXPECT_EQ(facts.rows().mark.place.sample, 8u);
  EXPECT_FALSE(facts.known().end);
}

TEST(StreamFacts, TakeNothingThatDoesNotGoOn) {
  StreamFacts facts({});
  ExpectRefused(facts, Told(0, 3, 1), kFirst, "none is known yet");
  ExpectRefused(facts, Told(0, 0, 0), kFirst, "neither samples nor an end");
  ExpectTaken(facts, Told(2, 0, 4), kFirst);
  ExpectRefused(facts, Told(2, 0, 6), kSecond, "not what was told before");  // another's segment
  ExpectRefused(facts, Told(3, 5, 1), kFirst, "does not follow");            // a gap
  ExpectRefused(facts, Told(3, 3, 2), kFirst, "does not follow");            // it overlaps
  ExpectRefused(facts, Told(1, 4, 1), kFirst, "not what was told before");   // an older number
  ExpectRefused(facts, Told(3, 4, kMostSamples), kFirst, "there can be none");
  ExpectTaken(facts, Told(3, 4, 1), kFirst);
  ExpectRefused(facts, Told(2, 0, 5), kFirst, "not what was told before");  // no longer its newest
}

TEST(StreamFacts, TheEndComesWithSamplesOrAloneAndStays) {
  for (const bool alone : {false, true}) {
    StreamFacts facts({});
    ExpectTaken(facts, Told(0, 0, 4), kFirst);
    ExpectRefused(facts, Told(0, 2, 0, true), kFirst, "ends at 2");
    const Spooled end = alone ? Told(1, 4, 0, true) : Told(0, 0, 6, true);
    ExpectTaken(facts, end, kFirst);
    const uint64_t n = alone ? 4 : 6;
    EXPECT_EQ(facts.known().end, n);
    ExpectTaken(facts, end, kFirst, /*is_new=*/false);
    ExpectRefused(facts, Told(1, n, 1), kFirst, "behind the end");
    ExpectRefused(facts, Told(0, 0, 3, true), kFirst, "ends at 3");
  }
}

TEST(StreamFacts, AnEmptyStreamEnds) {
  StreamFacts facts({});
  ExpectTaken(facts, Told(0, 0, 0, true), kFirst);
  EXPECT_EQ(facts.known().end, 0u);
}

TEST(StreamFacts, ThereIsAMostOfSegments) {
  StreamFacts facts({});
  for (uint64_t i = 0; i < kMostSpoolSegments; ++i)
    ASSERT_TRUE(facts.Take(Told(static_cast<int64_t>(i), i, 1), kFirst).ok());
  const int64_t next = facts.next_segment();
  const absl::StatusOr<bool> taken = facts.Take(Told(next, kMostSpoolSegments, 1), kFirst);
  EXPECT_EQ(taken.status().code(), absl::StatusCode::kResourceExhausted);
  ExpectTaken(facts, Told(next - 1, kMostSpoolSegments - 1, 9), kFirst);
  EXPECT_THAT(facts.Trim(10), SizeIs(10));
  ExpectTaken(facts, Told(next, facts.positions(), 1), kFirst);
}

TEST(StreamFacts, TrimLeavesWhatIsWantedAndTheLastSegment) {
  StreamFacts facts({});
  for (int64_t i = 0; i < 3; ++i)
    ExpectTaken(facts, Told(i, static_cast<uint64_t>(i) * 10, 10), kFirst);
  EXPECT_THAT(facts.Trim(9), SizeIs(0));
  EXPECT_THAT(facts.Trim(19), SizeIs(1));
  EXPECT_EQ(facts.trimmed(), 10u);
  EXPECT_THAT(facts.Trim(1000), SizeIs(1));
  EXPECT_EQ(facts.trimmed(), 20u);
  EXPECT_EQ(facts.positions(), 30u);
  ExpectTaken(facts, Told(2, 20, 12), kFirst);
}

}  // namespace
}  // namespace muster::coordinator
