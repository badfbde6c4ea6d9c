#include "lib/checkpoint/manifest_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/lib/checkpoint/support.h"

namespace muster {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ManifestFileTest : public DirTest {
 protected:
  ManifestFile Saved(int64_t lineage = 2, int64_t step = 7) {
    auto manifest = Save(*files_, UglyLayout(), MakeState(UglyLayout(), 1), lineage, step);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    ManifestFile file{.cluster = "00ff", .manifest = *std::move(manifest)};
    file.environment = {10, "made", UglyTensors(), {{"isa", "any"}, {"threads", "1"}}};
    file.lineages = {{LineageNumber(1), {}, Step(0), "start"},
                     {LineageNumber(2), LineageNumber(1), Step(3), "resumed"}};
    return file;
  }
  static std::string NameOf(const ManifestFile& file) {
    return ManifestFileOf(file.manifest.lineage, file.manifest.step);
  }
  std::string PathOf(const ManifestFile& file) const { return files_->PathOf(NameOf(file)); }
};

// As somebody's copy makes it: its bits are sound, and not those that are asked for.
TEST_F(ManifestFileTest, ThatOfAnotherCheckpointIsRefused) {
  const ManifestFile file = Saved();
  ASSERT_TRUE(WriteManifestFile(*files_, file).ok());
  const std::string elsewhere = ManifestFileOf(file.manifest.lineage, file.manifest.step + 10);
  ASSERT_TRUE(files_->Replace(elsewhere, EncodeManifestFile(file)).ok());
  const absl::Status read = ReadManifestFile(*files_, elsewhere).status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()), HasSubstr("is that of "));
}

TEST_F(ManifestFileTest, IsReadAsItWasWrittenBesideItsSegments) {
  const ManifestFile file = Saved();
  ASSERT_TRUE(WriteManifestFile(*files_, file).ok());
  EXPECT_THAT(FilesUnder(dir_),
              ElementsAre("lineage-2-step-7/checkpoint.manifest", "lineage-2-step-7/w0.segment",
                          "lineage-2-step-7/w1.segment"));
  const auto read = ReadManifestFile(*files_, NameOf(file));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, file);
}

TEST_F(ManifestFileTest, OfTheSameStateTheNewOneCounts) {
  ManifestFile file = Saved();
  ASSERT_TRUE(WriteManifestFile(*files_, file).ok());
  file.manifest.unix_seconds = 77;
  ASSERT_TRUE(WriteManifestFile(*files_, file).ok());
  EXPECT_EQ(ReadManifestFile(*files_, NameOf(file))->manifest.unix_seconds, 77);
}

TEST_F(ManifestFileTest, EveryCutAndEveryTurnedBitIsFound) {
  const ManifestFile file = Saved();
  const std::string bytes = EncodeManifestFile(file);
  ASSERT_TRUE(DecodeManifestFile(bytes).ok());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto cut = DecodeManifestFile(absl::string_view(bytes).substr(0, length));
    EXPECT_TRUE(absl::IsDataLoss(cut.status())) << length << " bytes: " << cut.status();
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodeManifestFile(bytes + "x").status()));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeManifestFile(bad).ok()) << "bit " << bit;
  }
}

// So a foreign one is told without the memory that the rest may take.
TEST_F(ManifestFileTest, ItsHeaderAloneTellsWhoseItIs) {
  const ManifestFile file = Saved();
  const std::string path = PathOf(file);
  const std::string bytes = EncodeManifestFile(file);
  constexpr size_t kHeader = 32 + 4;  // with the cluster's id
  for (const size_t length : {bytes.size(), kHeader + 1, kHeader}) {
    WriteFile(path, bytes.substr(0, length));
    const auto cluster = ReadManifestCluster(*files_, NameOf(file));
    ASSERT_TRUE(cluster.ok()) << length << ": " << cluster.status();
    EXPECT_EQ(*cluster, "00ff");
    EXPECT_EQ(ReadManifestFile(*files_, NameOf(file)).ok(), length == bytes.size());
  }
  for (size_t length = 0; length < kHeader; ++length) {
    const auto cut = DecodeManifestCluster(absl::string_view(bytes).substr(0, length));
    EXPECT_TRUE(absl::IsDataLoss(cut.status())) << length;
  }
  for (size_t bit = 0; bit < 8 * kHeader; ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeManifestCluster(bad).ok()) << "bit " << bit;
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(ReadManifestCluster(*files_, NameOf(file)).status()));
  std::filesystem::create_symlink("/etc/passwd", path);
  EXPECT_TRUE(absl::IsDataLoss(ReadManifestCluster(*files_, NameOf(file)).status()));
}

TEST_F(ManifestFileTest, OfAnotherVersionItSaysSoAndWhatToDo) {
  const ManifestFile file = Saved();
  std::string bytes = EncodeManifestFile(file);
  bytes[8] = 9;
  WriteFile(PathOf(file), bytes);
  const absl::Status read = ReadManifestFile(*files_, NameOf(file)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(read)) << read;
  EXPECT_THAT(std::string(read.message()),
              AllOf(HasSubstr(PathOf(file)), HasSubstr("version 9"), HasSubstr("use the one")));
}

TEST_F(ManifestFileTest, WhatIsNoneIsSaidWithItsNameAndWhatToDo) {
  const ManifestFile file = Saved();
  const std::string path = PathOf(file);
  EXPECT_TRUE(absl::IsNotFound(ReadManifestFile(*files_, NameOf(file)).status()));
  WriteFile(path, "a letter");
  const absl::Status read = ReadManifestFile(*files_, NameOf(file)).status();
  EXPECT_TRUE(absl::IsDataLoss(read)) << read;
  EXPECT_THAT(std::string(read.message()),
              AllOf(HasSubstr(path), HasSubstr("not the manifest"), HasSubstr("older checkpoint")));
}

// Whoever made it has a right checksum, too.
TEST_F(ManifestFileTest, NamesThatLeadElsewhereAreRefused) {
  const ManifestFile sound = Saved();
  const auto refused = [](const ManifestFile& file, const char* field) {
    const absl::Status read = DecodeManifestFile(EncodeManifestFile(file)).status();
    EXPECT_TRUE(absl::IsDataLoss(read)) << field << ": " << read;
    EXPECT_THAT(std::string(read.message()), HasSubstr(field));
  };
  for (const char* name : {"../w0.segment", "/etc/passwd", "a/b/c", "", ".owner"}) {
    ManifestFile file = sound;
    file.manifest.segments[0].file = name;
    refused(file, "file");
  }
  for (const char* job : {"", "../a", "a/b", "-a"}) {
    ManifestFile file = sound;
    file.manifest.job = job;
    refused(file, "job");
  }
  for (const std::string& cluster : {std::string(), std::string("a b"), std::string(65, 'a')}) {
    ManifestFile file = sound;
    file.cluster = cluster;
    refused(file, "cluster");
  }
}

}  // namespace
}  // namespace muster
