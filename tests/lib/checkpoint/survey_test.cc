// What lies in a folder of checkpoints: whole ones, halves, damage, names; and how one goes.
#include "lib/checkpoint/survey.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SurveyTest : public DirTest {
 protected:
  Manifest SaveAt(int64_t lineage, int64_t step) {
    auto manifest =
        Save(*files_, layout_, MakeState(layout_, static_cast<uint64_t>(step)), lineage, step);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_TRUE(WriteManifestFile(*files_, {"cluster", *manifest, {}, {}}).ok());
    return *manifest;
  }
  // "lineage:step" of each, with why it is not complete.
  std::vector<std::string> Surveyed() {
    const auto found = SurveyCheckpoints(*files_);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> told;
    for (const SurveyedCheckpoint& one : found.value())
      told.push_back(absl::StrCat(one.lineage.value(), ":", one.step.value(),
                                  one.is_complete() ? "" : " ", one.why_not));
    return told;
  }
  std::string PathOf(int64_t lineage, int64_t step, const std::string& file) const {
    return absl::StrCat(dir_, "/", CheckpointFolder(LineageNumber(lineage), Step(step)), "/", file);
  }

  const Layout layout_ = UglyLayout();
};

TEST_F(SurveyTest, TellsInOrderWhatIsWholeAndWhatIsNot) {
  SaveAt(2, 7);
  SaveAt(1, 100);
  SaveAt(1, 9);
  std::filesystem::remove(PathOf(1, 9, kManifestFile));
  SaveAt(2, 8);
  std::filesystem::remove(PathOf(2, 8, "w1.segment"));
  SaveAt(2, 9);
  std::filesystem::resize_file(PathOf(2, 9, "w0.segment"), 100);
  SaveAt(2, 10);
  WriteFile(PathOf(2, 10, kManifestFile), "nothing of the kind");
  std::filesystem::create_directories(dir_ + "/notes");
  EXPECT_THAT(Surveyed(),
              ElementsAre("1:9 it has no manifest", "1:100", "2:7", testing::StartsWith("2:8 "),
                          HasSubstr("has 100 bytes, and had "), HasSubstr("checkpoint.manifest'")));
}

TEST_F(SurveyTest, AManifestOfAnotherPlaceIsNone) {
  SaveAt(1, 1);
  std::filesystem::create_directories(PathOf(1, 2, ""));
  std::filesystem::copy_file(PathOf(1, 1, kManifestFile), PathOf(1, 2, kManifestFile));
  EXPECT_THAT(Surveyed(), ElementsAre("1:1", HasSubstr("is that of lineage 1, step 1")));
}

TEST_F(SurveyTest, BytesAreThoseOfTheFiles) {
  const Manifest manifest = SaveAt(1, 1);
  const auto found = SurveyCheckpoints(*files_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->front().bytes,
            manifest.total_bytes + std::filesystem::file_size(PathOf(1, 1, kManifestFile)));
}

// Any bit of any chunk.
TEST_F(SurveyTest, VerifyFindsWhatTheLengthDoesNotTell) {
  const Manifest manifest = SaveAt(1, 1);
  uint64_t last = 0;
  const auto count = [&](uint64_t bytes) { last = bytes; };
  ASSERT_TRUE(VerifyCheckpoint(*files_, manifest, count).ok());
  uint64_t all = 0;
  for (const Segment& segment : manifest.segments)
    for (const SegmentEntry& entry : segment.entries) all += entry.bytes;
  EXPECT_EQ(last, all);
  for (const Segment& segment : manifest.segments) {
    for (const SegmentEntry& entry : segment.entries) {
      const size_t at = entry.offset_in_file + entry.bytes - 1;
      FlipBits(dir_ + "/" + segment.file, at, 4);
      EXPECT_THAT(Surveyed(), ElementsAre("1:1"));
      const absl::Status damaged = VerifyCheckpoint(*files_, manifest, count);
      EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
      EXPECT_THAT(std::string(damaged.message()), HasSubstr(segment.file));
      FlipBits(dir_ + "/" + segment.file, at, 4);
    }
  }
}

TEST_F(SurveyTest, ANameIsKeptBesideTheManifestUntilAnotherTakesItsPlace) {
  SaveAt(1, 1);
  EXPECT_TRUE(absl::IsNotFound(ReadKeptName(*files_, LineageNumber(1), Step(1)).status()));
  EXPECT_FALSE(IsKept(*files_, LineageNumber(1), Step(1)).value());
  for (const char* name : {"first", "best-of-all", "v2"}) {
    ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(1), name).ok());
    EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(1)).value(), name);
    EXPECT_TRUE(IsKept(*files_, LineageNumber(1), Step(1)).value());
    EXPECT_EQ(SurveyCheckpoints(*files_)->front().name, name);
  }
  for (const char* name : {"", "12", "Best", "a b", "../x", "-a", "a@b", "latest", "never"})
    EXPECT_TRUE(absl::IsInvalidArgument(WriteKeptName(*files_, LineageNumber(1), Step(1), name)))
        << name;
  WriteFile(PathOf(1, 1, kKeptFile), "latest\n");
  EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(1)).value(), "latest")
      << "it was given before nobody could give it";
  ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(1), "loss-10").ok());
  FlipBits(PathOf(1, 1, kKeptFile), std::string("loss-").size(), 1);  // a name, and not that one
  EXPECT_TRUE(absl::IsDataLoss(ReadKeptName(*files_, LineageNumber(1), Step(1)).status()));
  const std::string longest(63, 'x');
  ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(1), longest).ok());
  EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(1)).value(), longest);
  WriteFile(PathOf(1, 1, kKeptFile), std::string(1000, 'x'));
  EXPECT_TRUE(absl::IsDataLoss(ReadKeptName(*files_, LineageNumber(1), Step(1)).status()));
  EXPECT_TRUE(IsKept(*files_, LineageNumber(1), Step(1)).value());
}

TEST_F(SurveyTest, WhatStandsBesideAManifestAndCannotBeReadIsTold) {
  SaveAt(1, 1);
  SaveAt(1, 2);
  WriteFile(PathOf(1, 2, kKeptFile), "two words\n");
  WriteFile(PathOf(1, 2, kMeasureFile), "validation.loss much\n");
  const auto found = SurveyCheckpoints(*files_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->front().name_read.ok() && found->front().measure_read.ok()) << "it has none";
  const SurveyedCheckpoint& torn = found->back();
  EXPECT_TRUE(torn.is_complete()) << "its state is whole";
  EXPECT_EQ(torn.name, "");
  EXPECT_FALSE(torn.measure);
  EXPECT_TRUE(absl::IsDataLoss(torn.name_read)) << torn.name_read;
  EXPECT_THAT(std::string(torn.name_read.message()), HasSubstr(PathOf(1, 2, kKeptFile)));
  EXPECT_TRUE(absl::IsDataLoss(torn.measure_read)) << torn.measure_read;
  EXPECT_THAT(std::string(torn.measure_read.message()), HasSubstr(PathOf(1, 2, kMeasureFile)));
}

TEST_F(SurveyTest, DeletingLeavesNothingAndWhatIsNotOurs) {
  SaveAt(1, 1);
  SaveAt(1, 2);
  ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(1), "a").ok());
  WriteFile(PathOf(1, 2, "notes.txt"), "mine");
  ASSERT_TRUE(DeleteCheckpoint(*files_, LineageNumber(1), Step(1)).ok());
  EXPECT_THAT(Surveyed(), ElementsAre("1:2"));
  EXPECT_FALSE(std::filesystem::exists(PathOf(1, 1, "")));
  ASSERT_TRUE(DeleteCheckpoint(*files_, LineageNumber(1), Step(2)).ok());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre("lineage-1-step-2/notes.txt"));
  EXPECT_TRUE(DeleteCheckpoint(*files_, LineageNumber(7), Step(7)).ok()) << "there is none";
}

// What a kill amid it leaves is told, and goes with the next call.
TEST_F(SurveyTest, WhatIsHalfDeletedIsNoCheckpoint) {
  SaveAt(1, 1);
  std::filesystem::remove(PathOf(1, 1, kManifestFile));
  std::filesystem::remove(PathOf(1, 1, "w0.segment"));
  EXPECT_THAT(Surveyed(), ElementsAre("1:1 it has no manifest"));
  ASSERT_TRUE(DeleteCheckpoint(*files_, LineageNumber(1), Step(1)).ok());
  EXPECT_THAT(Surveyed(), IsEmpty());
}

}  // namespace
}  // namespace muster
