#include "lib/checkpoint/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Allowed kAny = [](LineageNumber, Step) { return true; };

class LoadTest : public DirTest {
 protected:
  Manifest Commit(int64_t lineage, int64_t step, size_t writers = 2) {
    auto manifest = Save(dir_, layout_, StateOf(step), lineage, step, writers);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const absl::Status status = catalogue_.Commit(*manifest);
    EXPECT_TRUE(status.ok()) << status;
    return *manifest;
  }
  State StateOf(int64_t step) const { return MakeState(layout_, static_cast<uint64_t>(step)); }
  absl::StatusOr<Loaded> Load(State& state, const Allowed& allowed = kAny) {
    return LoadNewest(catalogue_, dir_, kJob, allowed, layout_, state.Spans());
  }
  void Damage(const Segment& segment, size_t at) { FlipBits(dir_ + "/" + segment.file, at, 0x10); }

  const Layout layout_ = UglyLayout();
  const std::unique_ptr<Kv> kv_ = OpenMemory({kCatalogueFamily});
  Catalogue catalogue_{*kv_};
};

TEST_F(LoadTest, TheUglyModelIsUglyEnough) {
  ASSERT_GT(layout_.parameter_chunk_count(), 3);
  ASSERT_GT(layout_.chunk_count(), layout_.parameter_chunk_count());
  ASSERT_NE(layout_.chunk(ChunkId(layout_.parameter_chunk_count() - 1)).count * 4, kUglyChunkBytes);
}

TEST_F(LoadTest, LoadsTheNewestWhoeverWroteWhat) {
  Commit(1, 10, 1);
  Commit(1, 20, 3);
  State state = EmptyState(layout_);
  const auto loaded = Load(state);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->manifest.step, Step(20));
  EXPECT_THAT(loaded->skipped, ElementsAre());
  EXPECT_EQ(state, StateOf(20));
}

TEST_F(LoadTest, OnlyTheAncestryCounts) {
  Commit(1, 10);
  Commit(1, 30);  // voided by the fork at 20
  Commit(2, 25);
  State state = EmptyState(layout_);
  const auto loaded = Load(state, [](LineageNumber lineage, Step step) {
    return lineage == LineageNumber(1) && step <= Step(20);
  });
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(state, StateOf(10));
  ASSERT_TRUE(Load(state).ok());
  EXPECT_EQ(state, StateOf(25));
}

TEST_F(LoadTest, ADamagedOneIsNamedAndTheOneBeforeIsUsed) {
  Commit(1, 10);
  const Manifest second = Commit(1, 20);
  const Manifest third = Commit(1, 30);
  Damage(second.segments[1], second.segments[1].entries[2].offset_in_file);
  std::filesystem::remove(dir_ + "/" + third.segments[0].file);
  State state = EmptyState(layout_);
  const auto loaded = Load(state);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->manifest.step, Step(10));
  const SegmentEntry& entry = second.segments[1].entries[2];
  EXPECT_THAT(loaded->skipped,
              ElementsAre(testing::AllOf(HasSubstr("step 30"), HasSubstr(third.segments[0].file)),
                          testing::AllOf(HasSubstr("step 20"), HasSubstr(second.segments[1].file),
                                         HasSubstr(absl::StrCat("slot ", entry.slot, ", chunk ",
                                                                entry.chunk.value())))));
  EXPECT_EQ(state, StateOf(10));
}

TEST_F(LoadTest, NoneAndNoneWholeAreDifferentErrors) {
  State state = EmptyState(layout_);
  EXPECT_TRUE(absl::IsNotFound(Load(state).status()));
  const Manifest only = Commit(1, 10);
  Damage(only.segments[0], 100);
  const auto loaded = Load(state);
  EXPECT_TRUE(absl::IsDataLoss(loaded.status())) << loaded.status();
  EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(only.segments[0].file));
}

TEST_F(LoadTest, AnotherModelOrOptimizerIsAnErrorAndNoFallBack) {
  Commit(1, 10);
  State fewer = EmptyState(layout_, 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(Load(fewer).status())) << Load(fewer).status();
  auto tensors = UglyTensors();
  tensors[0].name = "renamed";
  const Layout other = *Layout::Make(tensors, kUglyChunkBytes);
  State state = EmptyState(other);
  const auto loaded = LoadNewest(catalogue_, dir_, kJob, kAny, other, state.Spans());
  EXPECT_TRUE(absl::IsFailedPrecondition(loaded.status())) << loaded.status();
}

TEST_F(LoadTest, AnOwnerReadsItsShareAndNeedsNoOtherFile) {
  const Manifest manifest = Commit(1, 10, 2);
  std::filesystem::remove(dir_ + "/" + manifest.segments[1].file);
  State state = EmptyState(layout_);
  std::vector<PartDest> share;
  for (const PartDest& part : PartDests(layout_, state.Spans())) {
    for (const SegmentEntry& entry : manifest.segments[0].entries) {
      if (entry.slot == part.slot && entry.chunk == part.chunk) share.push_back(part);
    }
  }
  size_t told = 0;
  const absl::Status status = LoadParts(dir_, manifest, layout_, share, [&] { ++told; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(told, share.size());
  const State wanted = StateOf(10);
  for (const PartDest& part : share) {
    const auto& source = wanted.slots[static_cast<size_t>(part.slot)];
    const auto at = static_cast<size_t>(layout_.chunk(part.chunk).offset);
    EXPECT_EQ(part.values, absl::MakeConstSpan(source).subspan(at, part.values.size()));
  }
  share.push_back(share[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(LoadParts(dir_, manifest, layout_, share)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      LoadParts(dir_, manifest, layout_, {{kSlots + 1, ChunkId(0), share[0].values}})));
}

TEST_F(LoadTest, AFlippedBitInAnyChunkIsFoundAndNamed) {
  const Manifest manifest = Commit(1, 10, 3);
  ASSERT_TRUE(Verify(dir_, manifest).ok());
  std::mt19937 random(5);
  for (const Segment& segment : manifest.segments) {
    for (const SegmentEntry& entry : segment.entries) {
      for (const uint64_t byte : {uint64_t{0}, entry.bytes - 1, random() % entry.bytes}) {
        Damage(segment, entry.offset_in_file + byte);
        const absl::Status status = Verify(dir_, manifest);
        EXPECT_TRUE(absl::IsDataLoss(status)) << status;
        EXPECT_THAT(std::string(status.message()), HasSubstr(segment.file));
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat("slot ", entry.slot, ", chunk ", entry.chunk.value())));
        EXPECT_TRUE(absl::IsDataLoss(Digest(dir_, manifest).status()));
        Damage(segment, entry.offset_in_file + byte);  // flipped back
      }
    }
  }
  EXPECT_TRUE(Verify(dir_, manifest).ok());
}

TEST_F(LoadTest, RandomDamageNeverLoadsWrongData) {
  Commit(1, 10);
  const Manifest newest = Commit(1, 20);
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const Segment& segment = newest.segments[random() % 2];
    const std::string path = dir_ + "/" + segment.file;
    const std::string good = ReadFile(path);
    std::string bad = good;
    for (auto hits = 1 + random() % 3; hits > 0; --hits)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    WriteFile(path, bad);
    State state = EmptyState(layout_);
    const auto loaded = Load(state);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(state, StateOf(bad == good ? 20 : 10)) << "round " << round;
    EXPECT_EQ(loaded->skipped.size(), bad == good ? 0u : 1u);
    WriteFile(path, good);
  }
}

}  // namespace
}  // namespace muster
