#include "lib/checkpoint/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/lib/checkpoint/state_digest.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

using testing::HasSubstr;

class LoadTest : public DirTest {
 protected:
  Manifest SaveStep(int64_t step, size_t writers = 2) {
    auto manifest = Save(*files_, layout_, StateOf(step), 1, step, writers);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  State StateOf(int64_t step) const { return MakeState(layout_, static_cast<uint64_t>(step)); }
  void Damage(const Segment& segment, size_t at) { FlipBits(dir_ + "/" + segment.file, at, 0x10); }

  const Layout layout_ = UglyLayout();
};

TEST_F(LoadTest, TheUglyModelIsUglyEnough) {
  ASSERT_GT(layout_.parameter_chunk_count(), 3);
  ASSERT_GT(layout_.chunk_count(), layout_.parameter_chunk_count());
  ASSERT_NE(layout_.chunk(ChunkId(layout_.parameter_chunk_count() - 1)).count * 4, kUglyChunkBytes);
}

TEST_F(LoadTest, LoadsWhatWasSavedWhoeverWroteWhat) {
  for (size_t writers : {1, 2, 3, 5}) {
    const auto step = static_cast<int64_t>(writers);
    const auto loaded = LoadWhole(*files_, SaveStep(step, writers), layout_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(*loaded, StateOf(step));
  }
}

TEST_F(LoadTest, AMissingFileIsDamageAndNamed) {
  const Manifest manifest = SaveStep(10);
  std::filesystem::remove(dir_ + "/" + manifest.segments[1].file);
  for (const absl::Status& status :
       {LoadWhole(*files_, manifest, layout_).status(), Digest(*files_, manifest).status()}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(manifest.segments[1].file));
  }
}

TEST_F(LoadTest, AnotherModelIsNoDamage) {
  const Manifest manifest = SaveStep(10);
  auto tensors = UglyTensors();
  tensors[0].name = "renamed";
  const Layout other = *Layout::Make(tensors, kUglyChunkBytes);
  const auto loaded = LoadWhole(*files_, manifest, other);
  EXPECT_TRUE(absl::IsFailedPrecondition(loaded.status())) << loaded.status();
}

TEST_F(LoadTest, AnOwnerReadsItsPartsAndNeedsNoOtherFile) {
  const Manifest manifest = SaveStep(10);
  std::filesystem::remove(dir_ + "/" + manifest.segments[1].file);
  State state = EmptyState(layout_);
  std::vector<PartDest> parts;
  for (const PartDest& part : PartsOf<PartDest>(layout_, state)) {
    for (const SegmentEntry& entry : manifest.segments[0].entries) {
      if (entry.slot == part.slot && entry.chunk == part.chunk) parts.push_back(part);
    }
  }
  size_t told = 0;
  const absl::Status status = LoadParts(*files_, manifest, layout_, parts, [&] { ++told; });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(told, parts.size());
  const State wanted = StateOf(10);
  for (const PartDest& part : parts) {
    const auto& source = wanted.slots[static_cast<size_t>(part.slot)];
    const auto at = static_cast<size_t>(layout_.chunk(part.chunk).offset);
    EXPECT_EQ(part.values, absl::MakeConstSpan(source).subspan(at, part.values.size()));
  }
  parts.push_back(parts[0]);
  EXPECT_TRUE(absl::IsInvalidArgument(LoadParts(*files_, manifest, layout_, parts)));
  EXPECT_TRUE(absl::IsInvalidArgument(
      LoadParts(*files_, manifest, layout_, {{kSlots + 1, ChunkId(0), parts[0].values}})));
}

// Wherever the owner of the chunk or the digest reads it, the damage is told of in one way.
TEST_F(LoadTest, AFlippedBitInAnyChunkIsFoundAndNamed) {
  const Manifest manifest = SaveStep(10, 3);
  const State saved = StateOf(10);
  std::mt19937 random(5);
  for (const Segment& segment : manifest.segments) {
    for (const SegmentEntry& entry : segment.entries) {
      for (const uint64_t byte : {uint64_t{0}, entry.bytes - 1, random() % entry.bytes}) {
        Damage(segment, entry.offset_in_file + byte);
        for (const absl::Status& status :
             {LoadWhole(*files_, manifest, layout_).status(), Digest(*files_, manifest).status()}) {
          EXPECT_TRUE(absl::IsDataLoss(status)) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr(segment.file));
          EXPECT_THAT(
              std::string(status.message()),
              HasSubstr(absl::StrCat("slot ", entry.slot, ", chunk ", entry.chunk.value(), ":")));
        }
        Damage(segment, entry.offset_in_file + byte);  // flipped back
      }
    }
  }
  EXPECT_EQ(*LoadWhole(*files_, manifest, layout_), saved);
  EXPECT_EQ(*Digest(*files_, manifest), StateDigest(layout_, saved.slots));
}

TEST_F(LoadTest, RandomDamageNeverLoadsWrongData) {
  const Manifest manifest = SaveStep(20);
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const Segment& segment = manifest.segments[random() % 2];
    const std::string path = dir_ + "/" + segment.file;
    const std::string good = ReadFile(path);
    std::string bad = good;
    for (auto hits = 1 + random() % 3; hits > 0; --hits)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    WriteFile(path, bad);
    const auto loaded = LoadWhole(*files_, manifest, layout_);
    if (bad == good) {
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(*loaded, StateOf(20)) << "round " << round;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(loaded.status())) << "round " << round << loaded.status();
    }
    WriteFile(path, good);
  }
}

}  // namespace
}  // namespace muster
