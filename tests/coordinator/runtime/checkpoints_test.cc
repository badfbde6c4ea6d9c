#include "coordinator/runtime/checkpoints.h"

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/checkpoint/kept_name.h"
#include "lib/storage/kv.h"
#include "tests/lib/checkpoint/support.h"
#include "tests/support/faulty_kv.h"

namespace muster::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CheckpointsTest : public DirTest {
 protected:
  std::unique_ptr<CheckpointFiles> FilesOf(const std::string& job) const {
    return CheckpointFilesIn(CheckpointDir(dir_, job));
  }
  // A checkpoint of the job, written by its members into `dir_`/JOB.
  ManifestFile SavedOf(const std::string& job, const std::string& cluster, uint64_t seed = 1) {
    EXPECT_TRUE(FilesOf(job)->MakeFolder().ok());
    auto manifest = Save(*FilesOf(job), UglyLayout(), MakeState(UglyLayout(), seed), 1,
                         static_cast<int64_t>(seed));
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    ManifestFile file{.cluster = cluster, .manifest = *std::move(manifest)};
    file.manifest.job = job;
    return file;
  }
  absl::Status Commit(const ManifestFile& file, bool replaces = false) {
    return CommitCheckpoint(catalogue_, file, *FilesOf(file.manifest.job), replaces, 7).status();
  }
  std::string PathOf(const ManifestFile& file) const {
    return FilesOf(file.manifest.job)
        ->PathOf(ManifestFileOf(file.manifest.lineage, file.manifest.step));
  }

  FaultyKv kv_{OpenMemory({kCatalogueFamily})};
  Catalogue catalogue_{kv_, "aa"};
};

TEST_F(CheckpointsTest, OfACommitThatIsRefusedNothingIsWritten) {
  ManifestFile file = SavedOf("a", "aa");
  ASSERT_TRUE(Commit(file).ok());
  const std::string before = ReadFile(PathOf(file));
  file.manifest.skipped += 1;
  const absl::Status refused = Commit(file);
  EXPECT_TRUE(absl::IsAlreadyExists(refused)) << refused;
  EXPECT_EQ(ReadFile(PathOf(file)), before) << "the file is that of the one that is committed";
  EXPECT_TRUE(Commit(file, /*replaces=*/true).ok());
  EXPECT_NE(ReadFile(PathOf(file)), before);
}

TEST_F(CheckpointsTest, AnotherClustersManifestFileIsNotOverwritten) {
  ManifestFile theirs = SavedOf("a", "bb");
  ASSERT_TRUE(WriteManifestFile(*FilesOf("a"), theirs).ok());
  const std::string before = ReadFile(PathOf(theirs));
  ManifestFile ours = theirs;
  ours.cluster = "aa";
  const absl::Status refused = Commit(ours);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("checkpoint of cluster bb"));
  EXPECT_EQ(ReadFile(PathOf(theirs)), before);
  EXPECT_THAT(*catalogue_.Jobs(), IsEmpty());
}

TEST_F(CheckpointsTest, ThoseOfJobsThatTheJournalDoesNotKnowGo) {
  const ManifestFile known = SavedOf("a", "aa");
  const ManifestFile unknown = SavedOf("b", "aa");
  const ManifestFile second = SavedOf("b", "aa", 2);
  const ManifestFile theirs = SavedOf("b", "bb", 3);
  for (const ManifestFile& file : {known, unknown, second}) ASSERT_TRUE(Commit(file).ok());
  ASSERT_TRUE(WriteManifestFile(*FilesOf("b"), theirs).ok());
  ASSERT_TRUE(DropUnknownJobs(catalogue_, {"a", "c"}, dir_).ok());
  EXPECT_THAT(*catalogue_.Jobs(), ElementsAre("a"));
  EXPECT_TRUE(std::filesystem::exists(PathOf(known)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(unknown)));
  EXPECT_FALSE(std::filesystem::exists(PathOf(second)));
  EXPECT_TRUE(std::filesystem::exists(PathOf(theirs))) << "it is of another cluster";
}

// Killed while it copied, or after the catalogue had lost the manifests and before the files went.
TEST_F(CheckpointsTest, FilesWithoutAManifestOfJobsThatTheJournalDoesNotKnowGo) {
  const ManifestFile copied = SavedOf("b", "aa"), removed = SavedOf("c", "aa");
  const ManifestFile known = SavedOf("a", "aa"), theirs = SavedOf("b", "bb", 3);
  for (const ManifestFile& file : {copied, known, theirs})
    ASSERT_TRUE(WriteManifestFile(*FilesOf(file.manifest.job), file).ok());
  ASSERT_TRUE(catalogue_.Begin("a").ok());
  ASSERT_TRUE(catalogue_.Begin("b").ok());
  ASSERT_TRUE(Commit(removed).ok());
  int asked = 0;
  Catalogue killed(kv_, "aa",
                   [&] { return ++asked == 1 ? absl::OkStatus() : absl::AbortedError("killed"); });
  EXPECT_TRUE(absl::IsAborted(killed.RemoveAll("c", *FilesOf("c"))));
  EXPECT_THAT(*catalogue_.Jobs(), IsEmpty());
  EXPECT_TRUE(std::filesystem::exists(PathOf(removed)));
  ASSERT_TRUE(DropUnknownJobs(catalogue_, {"a"}, dir_).ok());
  EXPECT_FALSE(std::filesystem::exists(PathOf(copied))) << "what was copied stays for ever";
  EXPECT_FALSE(std::filesystem::exists(PathOf(removed))) << "what was not removed stays for ever";
  EXPECT_TRUE(std::filesystem::exists(PathOf(known)));
  EXPECT_TRUE(std::filesystem::exists(PathOf(theirs))) << "it is of another cluster";
  EXPECT_THAT(*catalogue_.Unfinished(), ElementsAre("a"));
  ASSERT_TRUE(Commit(known).ok());
  EXPECT_THAT(*catalogue_.Unfinished(), IsEmpty()) << "now its manifest names its files";
}

TEST_F(CheckpointsTest, OnesThatCannotBeDroppedKeepTheStartFromBeingDone) {
  ASSERT_TRUE(Commit(SavedOf("b", "aa")).ok());
  Catalogue replaced(kv_, "aa", [] { return absl::AbortedError("replaced"); });
  EXPECT_TRUE(absl::IsAborted(DropUnknownJobs(replaced, {}, dir_)));
  EXPECT_THAT(*catalogue_.Jobs(), Contains("b"));
  // What is read first, what is unfinished, what is read of the job, the write.
  for (const int64_t call : {0, 1, 2, 3}) {
    kv_.FailCall(call, absl::UnavailableError("Input/output error"));
    EXPECT_TRUE(absl::IsUnavailable(DropUnknownJobs(catalogue_, {}, dir_))) << call;
    EXPECT_THAT(*catalogue_.Jobs(), Contains("b")) << call;
  }
  EXPECT_TRUE(DropUnknownJobs(catalogue_, {}, dir_).ok());
  EXPECT_THAT(*catalogue_.Jobs(), IsEmpty());
}

// Killed after a prune has said what is to go, and before the row went.
TEST_F(CheckpointsTest, WhatWasToGoAndIsThereTakesANameAfterTheNextStart) {
  const ManifestFile file = SavedOf("a", "aa"), other = SavedOf("b", "aa", 2);
  ASSERT_TRUE(Commit(file).ok());
  ASSERT_TRUE(Commit(other).ok());
  const Manifest& old = file.manifest;
  const auto name = [&] { return KeepCheckpoint(*FilesOf("a"), old.lineage, old.step, "mine"); };
  const auto cut_short = [&](const ManifestFile& of) {
    int asked = 0;
    Catalogue killed(
        kv_, "aa", [&] { return ++asked == 1 ? absl::OkStatus() : absl::AbortedError("killed"); });
    const Manifest& m = of.manifest;
    EXPECT_TRUE(
        absl::IsAborted(killed.RemoveUnnamed(m.job, m.lineage, m.step, *FilesOf(m.job)).status()));
  };
  cut_short(file);
  cut_short(other);
  EXPECT_TRUE(absl::IsNotFound(name()));
  Catalogue replaced(kv_, "aa", [] { return absl::AbortedError("replaced"); });
  DropStaleMarks(replaced, "aa", dir_);
  EXPECT_TRUE(absl::IsNotFound(name())) << "whoever was replaced changes nothing";
  DropStaleMarks(catalogue_, "bb", dir_);
  EXPECT_TRUE(absl::IsNotFound(name())) << "it is another cluster's";
  DropStaleMarks(catalogue_, "aa", dir_);
  EXPECT_TRUE(name().ok()) << name();
  EXPECT_TRUE(KeepCheckpoint(*FilesOf("b"), other.manifest.lineage, other.manifest.step, "x").ok())
      << "of each job";
  EXPECT_THAT(*catalogue_.Jobs(), ElementsAre("a", "b"));
}

}  // namespace
}  // namespace muster::coordinator
