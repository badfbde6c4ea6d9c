#include "coordinator/state/checkpoint_rounds.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::coordinator {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const MemberId kA{"worker-0", {1, 1}}, kB{"worker-1", {1, 2}};

SegmentWritten Written(int64_t step, const std::string& file, std::vector<int> chunks,
                       int64_t id = 1) {
  SegmentWritten written;
  written.id = id;
  written.lineage = LineageNumber(1);
  written.step = Step(step);
  written.segment.file = file;
  for (const int chunk : chunks)
    written.segment.entries.push_back({kValuesSlot, ChunkId(chunk), 0, 64, 0});
  return written;
}

Manifest ManifestAt(int64_t step, int64_t lineage = 1) {
  Manifest manifest;
  manifest.lineage = LineageNumber(lineage);
  manifest.step = Step(step);
  return manifest;
}

const std::vector<Lineage> kOneLineage = {{LineageNumber(1), LineageNumber(0), Step(0), "start"}};

TEST(CheckpointRounds, ARoundIsCompleteWithAllPartsAndItsRecords) {
  CheckpointRounds rounds({});
  EXPECT_TRUE(rounds.Offer(kA, Written(2, "a", {0})));
  EXPECT_TRUE(rounds.Offer(kA, Written(2, "a", {0})));
  EXPECT_FALSE(rounds.Begin(Step(2), 2)) << "chunk 1 is missing";
  EXPECT_TRUE(rounds.Offer(kB, Written(2, "b", {0, 1})));
  EXPECT_FALSE(rounds.Begin(Step(1), 2)) << "the record of step 1 is missing";
  const auto manifest = rounds.Begin(Step(2), 2);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->step, Step(2));
  ASSERT_EQ(manifest->segments.size(), 2u);
  EXPECT_EQ(manifest->segments[1].entries.size(), 1u) << "each chunk is taken once";
}

TEST(CheckpointRounds, OneThatIsWantedIsNotPassedOverForANewerOne) {
  CheckpointRounds rounds({});
  for (const int64_t step : {2, 3, 4, 5})
    EXPECT_TRUE(rounds.Offer(kA, Written(step, absl::StrCat("a-", step), {0}, step)));
  const auto wanted = [](Step step) { return step.value() % 2 == 0; };
  std::vector<int64_t> committed;
  while (const std::optional<Manifest> next = rounds.Begin(Step(5), 1, wanted)) {
    committed.push_back(next->step.value());
    rounds.Commit(ManifestAt(committed.back()), kOneLineage, 3);
  }
  EXPECT_THAT(committed, ElementsAre(2, 4, 5));
}

// Time helps a slow disk, and not one that is full: when there is room, the next round is tried.
TEST(CheckpointRounds, AreRarerAsLongAsTheyAreGivenUpForASlowDisk) {
  struct Told {
    int64_t step;
    bool disk_is_slow;
  };
  struct Case {
    std::string what;
    std::vector<Told> told;
    int64_t spacing;
  };
  const std::vector<Case> cases = {
      {"nothing is given up", {}, 1},
      {"a slow disk", {{2, true}}, 2},
      {"two members told of the same round", {{2, true}, {2, true}}, 2},
      {"two rounds", {{2, true}, {4, true}}, 4},
      {"not for ever",
       {{2, true}, {3, true}, {4, true}, {5, true}, {6, true}, {7, true}, {8, true}, {9, true}},
       64},
      {"a full disk", {{2, false}, {3, false}, {4, false}}, 1},
      {"a full disk beside a slow one", {{2, false}, {2, true}, {2, false}}, 2},
      {"a full disk after a slow one", {{2, true}, {3, false}, {4, false}}, 2},
  };
  for (const Case& c : cases) {
    CheckpointRounds rounds({});
    for (const Told& told : c.told) rounds.GiveUp(Step(told.step), told.disk_is_slow);
    EXPECT_EQ(rounds.spacing(), c.spacing) << c.what;
    rounds.Commit(ManifestAt(60), kOneLineage, 3);
    EXPECT_EQ(rounds.spacing(), 1) << c.what;
  }
}

TEST(CheckpointRounds, TheNewestThatIsFiniteIsKeptBesideTheNewest) {
  CheckpointRounds rounds({});
  for (const int64_t step : {1, 2, 3}) {
    Manifest manifest = ManifestAt(step);
    manifest.segments.resize(1);
    manifest.segments[0].finite = step < 2;
    rounds.Commit(manifest, kOneLineage, 1);
  }
  ASSERT_EQ(rounds.committed().size(), 2u);
  EXPECT_EQ(rounds.committed()[0].step, Step(1));
  EXPECT_EQ(rounds.committed()[1].step, Step(3));
}

TEST(CheckpointRounds, OneAtATimeAndTheNewestFirst) {
  CheckpointRounds rounds({});
  for (const int64_t step : {1, 2, 3}) rounds.Offer(kA, Written(step, "a", {0}, step));
  EXPECT_EQ(rounds.Begin(Step(2), 1)->step, Step(2));
  EXPECT_TRUE(rounds.committing());
  EXPECT_FALSE(rounds.Begin(Step(9), 1));
  EXPECT_THAT(rounds.Commit(ManifestAt(2), kOneLineage, 3),
              ElementsAre(SegmentToAcknowledge{kA, 1}, SegmentToAcknowledge{kA, 2}));
  EXPECT_TRUE(rounds.IsNewest(LineageNumber(1), Step(2)));
  EXPECT_FALSE(rounds.Offer(kB, Written(2, "b", {0}))) << "a checkpoint as new is there";
  EXPECT_EQ(rounds.Begin(Step(9), 1)->step, Step(3));
}

// Those that no rewind can use any more take no place from those that one can.
TEST(CheckpointRounds, KeepsTheNewestManifestsOnTheAncestry) {
  struct Case {
    std::string what;
    std::vector<Lineage> lineages;
    std::vector<Manifest> before;
    Manifest committed;
    int32_t keep;
    std::vector<Manifest> left;
  };
  const std::vector<Lineage> back_to_4 = {kOneLineage[0],
                                          {LineageNumber(2), LineageNumber(1), Step(4), "rewind"}};
  const std::vector<Case> cases = {
      {"one lineage",
       kOneLineage,
       {ManifestAt(1), ManifestAt(2)},
       ManifestAt(3),
       2,
       {ManifestAt(2), ManifestAt(3)}},
      {"more room than there are",
       kOneLineage,
       {ManifestAt(1)},
       ManifestAt(3),
       5,
       {ManifestAt(1), ManifestAt(3)}},
      {"after a rewind",
       back_to_4,
       {ManifestAt(2), ManifestAt(4), ManifestAt(6), ManifestAt(8)},
       ManifestAt(5, 2),
       2,
       {ManifestAt(4), ManifestAt(5, 2)}},
      {"after a rewind, with room for all that counts",
       back_to_4,
       {ManifestAt(2), ManifestAt(4), ManifestAt(6)},
       ManifestAt(9, 2),
       4,
       {ManifestAt(2), ManifestAt(4), ManifestAt(9, 2)}},
  };
  for (const Case& c : cases) {
    CheckpointRounds rounds(c.before);
    rounds.Commit(c.committed, c.lineages, c.keep);
    EXPECT_EQ(rounds.committed(), c.left) << c.what;
  }
}

TEST(CheckpointRounds, APostponedRoundWaitsUntilItIsTriedAgain) {
  CheckpointRounds rounds({});
  rounds.Offer(kA, Written(1, "a", {0}));
  ASSERT_TRUE(rounds.Begin(Step(1), 1));
  rounds.Postpone(Step(1));
  EXPECT_FALSE(rounds.committing());
  EXPECT_FALSE(rounds.Begin(Step(1), 1));
  rounds.TryAgain();
  EXPECT_TRUE(rounds.Begin(Step(1), 1));
}

TEST(CheckpointRounds, WhatIsDroppedIsSettled) {
  CheckpointRounds rounds({});
  rounds.Offer(kA, Written(1, "a", {0}, 4));
  rounds.Offer(kB, Written(2, "b", {0}, 5));
  EXPECT_THAT(rounds.Drop(Step(7)), IsEmpty());
  EXPECT_THAT(rounds.Drop(Step(1)), ElementsAre(SegmentToAcknowledge{kA, 4}));
  EXPECT_THAT(rounds.DropAll(), ElementsAre(SegmentToAcknowledge{kB, 5}));
  EXPECT_FALSE(rounds.HasRound(Step(2)));
}

// What one member skips, others write all the same: it would be kept for ever.
TEST(CheckpointRounds, WhatWasGivenUpIsNotCollectedUntilAnotherViewBegins) {
  CheckpointRounds rounds({});
  rounds.Offer(kA, Written(2, "a", {0}, 4));
  EXPECT_THAT(rounds.GiveUp(Step(2), false), ElementsAre(SegmentToAcknowledge{kA, 4}));
  EXPECT_FALSE(rounds.Offer(kB, Written(2, "b", {1}, 5)));
  EXPECT_FALSE(rounds.HasRound(Step(2)));
  EXPECT_TRUE(rounds.Offer(kB, Written(1, "b", {1}, 6))) << "an earlier one is still under way";
  rounds.Renew();
  EXPECT_TRUE(rounds.Offer(kB, Written(2, "c", {1}, 7)));
}

TEST(CheckpointRounds, UsesTheNewestSoundOneOnTheAncestry) {
  const std::vector<Lineage> lineages = {{LineageNumber(1), LineageNumber(0), Step(0), "start"},
                                         {LineageNumber(2), LineageNumber(1), Step(4), "rewind"}};
  CheckpointRounds rounds({ManifestAt(2), ManifestAt(4), ManifestAt(6), ManifestAt(5, 2)});
  EXPECT_EQ(rounds.Usable(lineages, std::nullopt)->step, Step(5));
  EXPECT_EQ(rounds.Usable(lineages, Step(2))->step, Step(2));
  EXPECT_FALSE(rounds.Usable(lineages, Step(6))) << "lineage 1 counts up to step 4";
  EXPECT_FALSE(rounds.passed_over());
  rounds.PassOver(ManifestAt(5, 2));
  EXPECT_TRUE(rounds.passed_over());
  EXPECT_EQ(rounds.Usable(lineages, std::nullopt)->step, Step(4));
}

// The last checkpoint could not be read back, and the members hold its state.
TEST(CheckpointRounds, OneThatCannotBeReadIsReplaced) {
  CheckpointRounds rounds({ManifestAt(2), ManifestAt(4)});
  EXPECT_TRUE(rounds.IsNewest(LineageNumber(1), Step(4)));
  EXPECT_FALSE(rounds.Offer(kA, Written(4, "a", {0}))) << "it is there";
  rounds.PassOver(ManifestAt(4));
  EXPECT_FALSE(rounds.IsNewest(LineageNumber(1), Step(4)));
  EXPECT_EQ(rounds.Usable(kOneLineage, std::nullopt)->step, Step(2));
  EXPECT_FALSE(rounds.Offer(kA, Written(3, "c", {0}))) << "older ones are of no use";
  EXPECT_TRUE(rounds.Offer(kA, Written(4, "b", {0})));
  ASSERT_TRUE(rounds.Begin(Step(4), 1));
  rounds.Commit(ManifestAt(4), kOneLineage, 3);
  EXPECT_TRUE(rounds.IsNewest(LineageNumber(1), Step(4)));
  EXPECT_FALSE(rounds.IsPassedOver(LineageNumber(1), Step(4)));
  EXPECT_THAT(rounds.committed(), ElementsAre(ManifestAt(2), ManifestAt(4)));
}

TEST(LastCheckpoint, IsTriedAgainWithGrowingPausesAndNotForEver) {
  LastCheckpoint last({seconds(1), seconds(4), 4});
  Time now{};
  for (const int pause : {1, 2, 4, 4}) {
    EXPECT_TRUE(last.Fail(false, now));
    EXPECT_TRUE(last.Fail(false, now)) << "another member's part of the same";
    EXPECT_FALSE(last.RetryIsDue(now + seconds(pause) - Duration(1))) << pause;
    now += seconds(pause);
    EXPECT_TRUE(last.RetryIsDue(now)) << pause;
    EXPECT_FALSE(last.RetryIsDue(now)) << "once";
  }
  EXPECT_FALSE(last.Fail(false, now));
  EXPECT_EQ(last.failures(), 5);
}

TEST(LastCheckpoint, WhatAMemberLostMustBeWrittenAgain) {
  LastCheckpoint last({seconds(1), seconds(4), 4});
  EXPECT_TRUE(last.Fail(false, Time{}));
  EXPECT_FALSE(last.MustBeWritten());
  EXPECT_TRUE(last.Fail(true, Time{}));
  EXPECT_TRUE(last.MustBeWritten());
  EXPECT_FALSE(last.MustBeWritten()) << "once";
}

TEST(LastCheckpoint, KnowsSinceWhenItIsWaitedFor) {
  LastCheckpoint last({seconds(1), seconds(4), 4});
  EXPECT_EQ(last.WaitsSince(Time(seconds(3))), Time(seconds(3)));
  EXPECT_EQ(last.WaitsSince(Time(seconds(9))), Time(seconds(3)));
  last.WaitsNoMore();
  EXPECT_EQ(last.WaitsSince(Time(seconds(9))), Time(seconds(9)));
}

TEST(CheckpointRounds, EachSoManiethIsKeptBesideTheNewest) {
  CheckpointRounds rounds({ManifestAt(4), ManifestAt(6), ManifestAt(8)});
  rounds.Commit(ManifestAt(10), kOneLineage, {1, 4});
  EXPECT_EQ(rounds.committed(),
            (std::vector<Manifest>{ManifestAt(4), ManifestAt(8), ManifestAt(10)}));
}

}  // namespace
}  // namespace muster::coordinator
