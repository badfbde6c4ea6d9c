#include "lib/checkpoint/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/checkpoint/kept_name.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/checkpoint/measure_file.h"
#include "tests/lib/checkpoint/support.h"
#include "tests/support/faulty_kv.h"
#include "tests/support/memory_files.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CatalogueTest : public DirTest {
 protected:
  Manifest SaveAt(int64_t lineage, int64_t step) {
    auto manifest =
        Save(*files_, layout_, MakeState(layout_, static_cast<uint64_t>(step)), lineage, step);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    return *manifest;
  }
  Manifest CommitAt(int64_t lineage, int64_t step) {
    const Manifest manifest = SaveAt(lineage, step);
    const absl::Status status = catalogue_.Commit(manifest);
    EXPECT_TRUE(status.ok()) << status;
    return manifest;
  }
  // "lineage:step" of each listed one.
  std::vector<std::string> Listed(const std::string& job = kJob) {
    const auto listing = catalogue_.List(job);
    EXPECT_TRUE(listing.ok()) << listing.status();
    EXPECT_THAT(listing->damaged, ElementsAre());
    std::vector<std::string> names;
    for (const Manifest& m : listing->manifests)
      names.push_back(absl::StrCat(m.lineage.value(), ":", m.step.value()));
    return names;
  }

  const Layout layout_ = UglyLayout();
  FaultyKv kv_{OpenMemory({kCatalogueFamily})};
  Catalogue catalogue_{kv_};
};

TEST_F(CatalogueTest, ListsWhatIsCommittedOldestFirst) {
  CommitAt(2, 7);
  CommitAt(1, 100);
  CommitAt(1, 9);
  SaveAt(3, 1);
  EXPECT_THAT(Listed(), ElementsAre("1:9", "1:100", "2:7"));
}

TEST_F(CatalogueTest, JobsDoNotMix) {
  Manifest manifest = CommitAt(1, 1);
  for (const char* job : {"a", "a/1", "ab", "1:a"}) {
    manifest.job = job;
    ASSERT_TRUE(catalogue_.Commit(manifest).ok());
  }
  EXPECT_THAT(Listed("a"), ElementsAre("1:1"));
  EXPECT_THAT(Listed("a/1"), ElementsAre("1:1"));
  EXPECT_THAT(Listed("nobody"), ElementsAre());
}

TEST_F(CatalogueTest, CommittingAgainIsHarmlessAndSomethingElseIsRefused) {
  Manifest manifest = CommitAt(1, 1);
  EXPECT_TRUE(catalogue_.Commit(manifest).ok());
  manifest.fingerprint = "00ff";
  EXPECT_TRUE(absl::IsAlreadyExists(catalogue_.Commit(manifest)));
  EXPECT_EQ(catalogue_.List(kJob)->manifests.back().fingerprint, "");
  EXPECT_TRUE(catalogue_.Commit(manifest, /*replaces=*/true).ok());
  EXPECT_EQ(catalogue_.List(kJob)->manifests.back().fingerprint, "00ff");
  EXPECT_THAT(Listed(), ElementsAre("1:1"));
}

TEST_F(CatalogueTest, WhatIsNotCompleteIsRefused) {
  const Manifest good = SaveAt(1, 1);
  const auto refused = [&](const std::function<void(Manifest&)>& spoil) {
    Manifest bad = good;
    spoil(bad);
    const absl::Status status = catalogue_.Commit(bad);
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE(absl::IsInternal(status)) << status;
  };
  refused([](Manifest& m) { m.segments.pop_back(); });
  refused([](Manifest& m) { m.segments[0].entries.pop_back(); });
  refused([](Manifest& m) { m.segments[0].entries[0].chunk = ChunkId(1000); });
  refused([](Manifest& m) { m.segments[0].entries[0] = m.segments[1].entries[0]; });
  refused([](Manifest& m) { m.segments[0].file = "../../etc/passwd"; });
  refused([](Manifest& m) { m.tensors.clear(); });
  refused([](Manifest& m) { m.job.clear(); });
  refused([](Manifest& m) { m.slots = 3; });
  EXPECT_THAT(Listed(), ElementsAre());
}

TEST_F(CatalogueTest, AFailedCommitIsNotThereAndMayBeTriedAgain) {
  CommitAt(1, 1);
  const Manifest second = SaveAt(1, 2);
  kv_.FailCall(1, absl::ResourceExhaustedError("disk full"));  // 0: the look whether it is there
  EXPECT_TRUE(absl::IsResourceExhausted(catalogue_.Commit(second)));
  EXPECT_THAT(Listed(), ElementsAre("1:1"));
  EXPECT_TRUE(catalogue_.Commit(second).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:1", "1:2"));
}

TEST_F(CatalogueTest, PruneKeepsTheNewestOfTheAncestry) {
  CommitAt(1, 10);
  CommitAt(1, 20);
  CommitAt(1, 30);  // voided by the fork at 20
  CommitAt(2, 25);
  const Allowed ancestry = [](LineageNumber l, Step s) {
    return l == LineageNumber(2) || s <= Step(20);
  };
  EXPECT_TRUE(absl::IsInvalidArgument(catalogue_.Prune(kJob, ancestry, 0, *files_)));
  ASSERT_TRUE(catalogue_.Prune(kJob, ancestry, 2, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "2:25"));
  EXPECT_THAT(FilesUnder(dir_),
              ElementsAre("lineage-1-step-20/w0.segment", "lineage-1-step-20/w1.segment",
                          "lineage-2-step-25/w0.segment", "lineage-2-step-25/w1.segment"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-30"));
  ASSERT_TRUE(catalogue_.Prune(kJob, ancestry, 5, *files_).ok());
  EXPECT_EQ(Listed().size(), 2u);
}

TEST_F(CatalogueTest, PruneKeepsEachSoManieth) {
  for (const int64_t step : {10, 15, 20, 25, 30}) CommitAt(1, step);
  const Allowed all = [](LineageNumber, Step) { return true; };
  ASSERT_TRUE(catalogue_.Prune(kJob, all, {1, 10}, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:10", "1:20", "1:30"));
  ASSERT_TRUE(catalogue_.Prune(kJob, all, {1, 20}, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "1:30"));
}

TEST_F(CatalogueTest, PruneKeepsOneOfEachSuchStep) {
  for (const int64_t step : {8, 16}) CommitAt(1, step);
  for (const int64_t step : {16, 24}) CommitAt(2, step);  // it went on from 16, and saved it again
  const Allowed all = [](LineageNumber, Step) { return true; };
  ASSERT_TRUE(catalogue_.Prune(kJob, all, {1, 0, 8}, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:8", "2:16", "2:24"));
}

// Also where the job went back and left it out.
TEST_F(CatalogueTest, PruneKeepsWhatHasANameUntilTheJobGoes) {
  CommitAt(1, 10);
  CommitAt(1, 20);
  CommitAt(1, 30);
  CommitAt(2, 15);
  for (const int64_t step : {20, 30})
    ASSERT_TRUE(
        WriteKeptName(*files_, LineageNumber(1), Step(step), absl::StrCat("at-", step)).ok());
  const Allowed ancestry = [](LineageNumber l, Step s) {
    return l == LineageNumber(2) || s <= Step(10);
  };
  ASSERT_TRUE(catalogue_.Prune(kJob, ancestry, 1, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "1:30", "2:15"));
  ASSERT_TRUE(catalogue_.RemoveOrphans(*files_, kJob, LineageNumber(3), Step(1)).ok());
  EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(20)).value(), "at-20");
  ASSERT_TRUE(catalogue_.Remove(kJob, LineageNumber(1), Step(20), *files_).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-20"));
  ASSERT_TRUE(catalogue_.RemoveAll(kJob, *files_).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_)) << "nothing is left of it";
}

// A person names a checkpoint while its job removes it as an old one, by another process.
class NameMeanwhileTest : public CatalogueTest {
 protected:
  void Begin() {
    ASSERT_TRUE(catalogue_.RemoveAll(kJob, *files_).ok());
    ASSERT_TRUE(files_->MakeFolder().ok());
    for (const int64_t step : {10, 20}) {
      const Manifest manifest = CommitAt(1, step);
      ASSERT_TRUE(WriteManifestFile(*files_, {"aa", manifest, {}, {}}).ok());
    }
  }
  absl::Status Prune(CheckpointFiles& files) {
    return catalogue_.Prune(
        kJob, [](LineageNumber, Step) { return true; }, 1, files);
  }
  absl::Status Keep(CheckpointFiles& files) {
    return KeepCheckpoint(files, LineageNumber(1), Step(10), "mine");
  }
  // Whoever was told that it is kept has all of it.
  void ExpectKeptOrGone(const absl::Status& kept) {
    if (!kept.ok()) {
      EXPECT_TRUE(absl::IsNotFound(kept)) << kept;
      ASSERT_TRUE(Prune(*files_).ok());
      EXPECT_THAT(Listed(), ElementsAre("1:20"));
      EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-10"));
      return;
    }
    EXPECT_THAT(Listed(), ElementsAre("1:10", "1:20"));
    const auto manifest = ReadManifestFile(*files_, ManifestFileOf(LineageNumber(1), Step(10)));
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_TRUE(LoadWhole(*files_, manifest->manifest, layout_).ok());
    EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(10)).value(), "mine");
    EXPECT_TRUE(Prune(*files_).ok());
    EXPECT_THAT(Listed(), ElementsAre("1:10", "1:20")) << "it stays";
  }
};

TEST_F(NameMeanwhileTest, ANameGivenAmidAPruneKeepsOrIsRefused) {
  int64_t call = 0;
  int kept_ones = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("a name comes before call ", call));
    Begin();
    absl::Status kept = absl::NotFoundError("nobody asked");
    OvertakenFiles files(*files_, call, [&] { kept = Keep(*files_); });
    ASSERT_TRUE(Prune(files).ok());
    reached = files.overtaken();
    if (reached && kept.ok()) ++kept_ones;
    ExpectKeptOrGone(kept);
  }
  EXPECT_GT(kept_ones, 0);
  EXPECT_GT(call, kept_ones + 4) << "some came too late";
}

TEST_F(NameMeanwhileTest, APruneAmidNamingLeavesItWholeOrTellsOfIt) {
  int64_t call = 0;
  int kept_ones = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("a prune comes before call ", call));
    Begin();
    OvertakenFiles files(*files_, call, [&] { EXPECT_TRUE(Prune(*files_).ok()); });
    const absl::Status kept = Keep(files);
    reached = files.overtaken();
    if (kept.ok()) ++kept_ones;
    ExpectKeptOrGone(kept);
  }
  EXPECT_GT(kept_ones, 1);
  EXPECT_GT(call, kept_ones) << "one comes before the name is written";
}

TEST_F(NameMeanwhileTest, WhatIsBeingRemovedTakesNoNameAndAnotherNameNeedsNoLook) {
  Begin();
  ASSERT_TRUE(Keep(*files_).ok());
  WriteFile(absl::StrCat(dir_, "/", GoingFileOf(LineageNumber(1), Step(10))), "");
  ASSERT_TRUE(KeepCheckpoint(*files_, LineageNumber(1), Step(10), "other").ok());
  EXPECT_EQ(ReadKeptName(*files_, LineageNumber(1), Step(10)).value(), "other");
  ASSERT_TRUE(files_->Remove(KeptFileOf(LineageNumber(1), Step(10))).ok());
  const absl::Status late = Keep(*files_);
  EXPECT_TRUE(absl::IsNotFound(late)) << late;
  EXPECT_THAT(std::string(late.message()), HasSubstr("of step 10 is being removed"));
  EXPECT_FALSE(IsKept(*files_, LineageNumber(1), Step(10)).value());
}

TEST_F(CatalogueTest, WhatIsGoneIsNotMadeAnew) {
  CommitAt(1, 10);
  EXPECT_TRUE(catalogue_.Has(kJob, LineageNumber(1), Step(10)).value());
  EXPECT_TRUE(catalogue_.RemoveUnnamed(kJob, LineageNumber(1), Step(10), *files_).value());
  EXPECT_FALSE(catalogue_.Has(kJob, LineageNumber(1), Step(10)).value());
  EXPECT_TRUE(catalogue_.RemoveUnnamed(kJob, LineageNumber(1), Step(10), *files_).value());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-10"));
  ASSERT_TRUE(catalogue_.Commit(SaveAt(1, 20)).ok());
  ASSERT_TRUE(WriteKeptName(*files_, LineageNumber(1), Step(20), "mine").ok());
  EXPECT_FALSE(catalogue_.RemoveUnnamed(kJob, LineageNumber(1), Step(20), *files_).value());
  EXPECT_TRUE(catalogue_.Has(kJob, LineageNumber(1), Step(20)).value());
}

// How good one is stands beside it; what has another measure, or none, is not the best, and what is
// not finite is not.
TEST_F(CatalogueTest, PruneKeepsTheBest) {
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    Manifest manifest = SaveAt(1, step);
    if (step == 40) manifest.segments.back().finite = false;
    ASSERT_TRUE(catalogue_.Commit(manifest).ok());
  }
  const auto measure = [&](int64_t step, const std::string& name, double value) {
    ASSERT_TRUE(
        WriteMeasure(*files_, LineageNumber(1), Step(step), StateMeasure{name, value}).ok());
  };
  measure(10, "validation.accuracy", 0.25);
  measure(20, "validation.loss", 0.5);
  measure(30, "validation.loss", 0.75);
  measure(40, "validation.loss", 0.125);
  const Allowed all = [](LineageNumber, Step) { return true; };
  ASSERT_TRUE(catalogue_.Prune(kJob, all, 3, *files_, {"validation.loss", true}).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "1:30", "1:40", "1:50"));
  ASSERT_TRUE(catalogue_.Prune(kJob, all, 1, *files_, {"validation.loss", true}).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "1:50"));
  ASSERT_TRUE(catalogue_.RemoveOrphans(*files_, kJob, LineageNumber(3), Step(1)).ok());
  EXPECT_EQ(ReadMeasure(*files_, LineageNumber(1), Step(20)).value(),
            (StateMeasure{"validation.loss", 0.5}))
      << "it is no orphan";
  ASSERT_TRUE(catalogue_.Prune(kJob, all, 1, *files_, {"validation.accuracy", false}).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:50"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-20"));
}

// Nobody knows how good it is, so it may be the best.
TEST_F(CatalogueTest, PruneKeepsWhatHasAMeasureThatCannotBeRead) {
  for (const int64_t step : {10, 20, 30, 40, 50}) {
    Manifest manifest = SaveAt(1, step);
    if (step == 40) manifest.segments.back().finite = false;
    ASSERT_TRUE(catalogue_.Commit(manifest).ok());
    if (step == 30) continue;  // it was never measured
    const StateMeasure measure{"validation.loss", 1.0 / static_cast<double>(step)};
    ASSERT_TRUE(WriteMeasure(*files_, LineageNumber(1), Step(step), measure).ok());
  }
  for (const int64_t step : {10, 40})
    WriteFile(absl::StrCat(dir_, "/lineage-1-step-", step, "/checkpoint.measure"), "torn");
  const Allowed all = [](LineageNumber, Step) { return true; };
  const BestRule rule{"validation.loss", true};
  const absl::Status told = catalogue_.Prune(kJob, all, 1, *files_, rule);
  EXPECT_TRUE(absl::IsDataLoss(told)) << told;
  EXPECT_THAT(std::string(told.message()),
              HasSubstr("lineage-1-step-10/checkpoint.measure' holds no measure"));
  EXPECT_THAT(Listed(), ElementsAre("1:10", "1:50")) << "what is not finite is not the best";
  // Once somebody has brought it back, or has let it go, it counts for what it is.
  ASSERT_TRUE(files_->Remove(MeasureFileOf(LineageNumber(1), Step(10))).ok());
  EXPECT_TRUE(catalogue_.Prune(kJob, all, 1, *files_, rule).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:50"));
}

TEST_F(CatalogueTest, PruneKeepsWhatHasANameThatCannotBeRead) {
  CommitAt(1, 10);
  CommitAt(1, 20);
  WriteFile(dir_ + "/lineage-1-step-10/checkpoint.kept", std::string(300, '\0'));
  const Allowed all = [](LineageNumber, Step) { return true; };
  ASSERT_TRUE(catalogue_.Prune(kJob, all, 1, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:10", "1:20"));
}

TEST_F(CatalogueTest, AMeasureIsReadAsItWasWrittenOrNotAtAll) {
  CommitAt(1, 10);
  const LineageNumber lineage(1);
  EXPECT_TRUE(absl::IsNotFound(ReadMeasure(*files_, lineage, Step(10)).status()));
  const std::string path = absl::StrCat(dir_, "/lineage-1-step-10/checkpoint.measure");
  for (const double value : {0.1, -3e300, 1.0 / 3, 0.0}) {
    ASSERT_TRUE(WriteMeasure(*files_, lineage, Step(10), {"validation.loss", value}).ok());
    EXPECT_EQ(ReadMeasure(*files_, lineage, Step(10)).value().value, value);
  }
  WriteFile(path, "validation.loss 0.25\n");
  EXPECT_EQ(ReadMeasure(*files_, lineage, Step(10)).value().value, 0.25)
      << "those of before have no checksum";
  for (const std::string& text :
       {std::string(), std::string("validation.loss\n"), std::string("validation.loss nan\n"),
        std::string("validation.loss 1e999\n"), std::string("loss 1\n"),
        std::string("validation.loss 0.25"), std::string("validation.loss 1 2\n"),
        std::string("validation.loss 0.25 crc32c:00000000\n"),
        "validation.loss 1" + std::string(300, '0') + "\n"}) {
    WriteFile(path, text);
    EXPECT_TRUE(absl::IsDataLoss(ReadMeasure(*files_, lineage, Step(10)).status())) << text;
  }
}

// A job that diverges must not push out what there is to go back to.
TEST_F(CatalogueTest, PruneKeepsTheNewestThatIsFiniteToo) {
  for (const int64_t step : {10, 20, 30, 40}) {
    Manifest manifest = SaveAt(1, step);
    if (step > 20) manifest.segments.back().finite = false;
    ASSERT_TRUE(catalogue_.Commit(manifest).ok());
  }
  const Allowed all = [](LineageNumber, Step) { return true; };
  ASSERT_TRUE(catalogue_.Prune(kJob, all, 1, *files_).ok());
  EXPECT_THAT(Listed(), ElementsAre("1:20", "1:40"));
}

TEST_F(CatalogueTest, FilesGoOnlyAfterTheirManifestIsGoneForGood) {
  const Manifest first = CommitAt(1, 1);
  const auto files = FilesUnder(dir_);
  kv_.FailCall(1, absl::UnavailableError("no disk"));
  EXPECT_TRUE(absl::IsUnavailable(catalogue_.Remove(kJob, first.lineage, first.step, *files_)));
  EXPECT_EQ(FilesUnder(dir_), files);
  EXPECT_THAT(Listed(), ElementsAre("1:1"));
  EXPECT_TRUE(catalogue_.Remove(kJob, first.lineage, first.step, *files_).ok());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre());
  EXPECT_TRUE(catalogue_.Remove(kJob, first.lineage, first.step, *files_).ok());
}

TEST_F(CatalogueTest, OrphansGoAndNothingElse) {
  CommitAt(1, 10);
  SaveAt(1, 15);
  SaveAt(1, 20);
  SaveAt(2, 15);  // a lineage that has begun since
  WriteFile(dir_ + "/lineage-1-step-10/w9.segment", "left by a writer of an aborted round");
  WriteFile(dir_ + "/lineage-1-step-10/w8.segment.writing", "left by a crash");
  WriteFile(dir_ + "/lineage-1-step-15/notes.txt", "somebody's own");
  WriteFile(dir_ + "/lineage-01-step-5/w0.segment", "not a name of ours");
  WriteFile(dir_ + "/mine/w0.segment", "somebody's own");
  WriteFile(dir_ + "/w0.segment", "somebody's own");
  ASSERT_TRUE(catalogue_.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(20)).ok());
  EXPECT_THAT(FilesUnder(dir_),
              ElementsAre("lineage-01-step-5/w0.segment", "lineage-1-step-10/w0.segment",
                          "lineage-1-step-10/w1.segment", "lineage-1-step-15/notes.txt",
                          "lineage-1-step-20/w0.segment", "lineage-1-step-20/w1.segment",
                          "lineage-2-step-15/w0.segment", "lineage-2-step-15/w1.segment",
                          "mine/w0.segment", "w0.segment"));
  EXPECT_TRUE(
      catalogue_
          .RemoveOrphans(*CheckpointFilesIn(dir_ + "/absent"), kJob, LineageNumber(1), Step(20))
          .ok());
}

// Two clusters whose jobs have the same id share a folder: to each the other's segments look like
// orphans.
TEST_F(CatalogueTest, SegmentsOfAnotherClusterStay) {
  const std::vector<float> values(8, 1.0f);
  for (const char* cluster : {"aa", "bb"})
    ASSERT_TRUE(WriteSegment(*files_, SegmentFile(LineageNumber(1), Step(10), cluster),
                             {kJob, LineageNumber(1), Step(10), cluster}, {{0, ChunkId(0), values}})
                    .ok());
  Catalogue of_aa(kv_, "aa");
  ASSERT_TRUE(of_aa.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(20)).ok());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre("lineage-1-step-10/bb.segment"));
  ASSERT_TRUE(of_aa.RemoveAll(kJob, *files_).ok());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre("lineage-1-step-10/bb.segment"));
  ASSERT_TRUE(Catalogue(kv_, "bb").RemoveAll(kJob, *files_).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_));
}

TEST_F(CatalogueTest, TheFileOfAManifestGoesWithItsCheckpoint) {
  const auto write = [&](const Manifest& manifest, const std::string& cluster) {
    ASSERT_TRUE(WriteManifestFile(*files_, {cluster, manifest, {}, {}}).ok());
  };
  write(CommitAt(1, 10), "aa");
  write(CommitAt(1, 20), "aa");
  write(SaveAt(1, 5), "aa");
  write(SaveAt(1, 6), "bb");
  Catalogue of_aa(kv_, "aa");
  ASSERT_TRUE(of_aa.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(20)).ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-5"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/lineage-1-step-6/checkpoint.manifest"))
      << "it is of another cluster";
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/lineage-1-step-10/checkpoint.manifest"));
  ASSERT_TRUE(of_aa
                  .Prune(
                      kJob, [](LineageNumber, Step) { return true; }, 1, *files_)
                  .ok());
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/lineage-1-step-10"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/lineage-1-step-20/checkpoint.manifest"));
  ASSERT_TRUE(of_aa.RemoveAll(kJob, *files_).ok());
  EXPECT_THAT(FilesUnder(dir_), ElementsAre("lineage-1-step-6/checkpoint.manifest"));
}

// Two clusters had the folder: of one place each has a checkpoint.
TEST_F(CatalogueTest, AnotherClustersManifestFileStaysWhereOursGoes) {
  const Manifest manifest = CommitAt(1, 10);
  const std::string path = dir_ + "/" + ManifestFileOf(LineageNumber(1), Step(10));
  ASSERT_TRUE(WriteManifestFile(*files_, {"bb", manifest, {}, {}}).ok());
  std::filesystem::copy_file(path, path + ".writing");
  std::filesystem::resize_file(path + ".writing", 60);  // its header is there
  ASSERT_TRUE(WriteMeasure(*files_, LineageNumber(1), Step(10), {"validation.loss", 0.25}).ok());
  Catalogue of_aa(kv_, "aa");
  ASSERT_TRUE(of_aa.Remove(kJob, LineageNumber(1), Step(10), *files_).ok());
  const auto stay = ElementsAre("lineage-1-step-10/checkpoint.manifest",
                                "lineage-1-step-10/checkpoint.manifest.writing",
                                "lineage-1-step-10/checkpoint.measure");
  EXPECT_THAT(FilesUnder(dir_), stay);
  ASSERT_TRUE(of_aa.RemoveAll(kJob, *files_).ok());
  EXPECT_THAT(FilesUnder(dir_), stay);
}

TEST_F(CatalogueTest, NothingBehindALinkIsDeleted) {
  CommitAt(1, 10);
  const std::string elsewhere = dir_ + "-elsewhere";
  std::filesystem::create_directories(elsewhere);
  WriteFile(elsewhere + "/w0.segment", "of somebody else");
  std::filesystem::create_directory_symlink(elsewhere, dir_ + "/lineage-1-step-3");
  ASSERT_TRUE(catalogue_.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(10)).ok());
  ASSERT_TRUE(catalogue_.RemoveAll(kJob, *files_).ok());
  EXPECT_THAT(FilesUnder(elsewhere), ElementsAre("w0.segment"));
  std::filesystem::remove_all(elsewhere);
}

TEST_F(CatalogueTest, NamesAllJobsThatItHolds) {
  EXPECT_THAT(*catalogue_.Jobs(), ElementsAre());
  Manifest manifest = CommitAt(1, 1);
  for (const char* job : {"a", "a/1", "1:a"}) {
    manifest.job = job;
    ASSERT_TRUE(catalogue_.Commit(manifest).ok());
  }
  Batch odd;
  for (const char* key : {"manifest/", "manifest/9:a/1", "manifest/x:a/1", "manifest/-1:a/1", "z"})
    odd.Put(kCatalogueFamily, key, "");
  odd.Put(kCatalogueFamily, "manifest/1:d/0000000000000001/0000000000000001", "damaged");
  ASSERT_TRUE(kv_.Write(odd).ok());
  EXPECT_THAT(*catalogue_.Jobs(), ElementsAre("1:a", "a", "a/1", "d", kJob));
}

TEST_F(CatalogueTest, WhoMayNotChangeItCommitsAndDeletesNothing) {
  CommitAt(1, 10);
  CommitAt(1, 20);
  SaveAt(1, 5);
  const Manifest other = SaveAt(1, 30);
  const auto files = FilesUnder(dir_);
  Catalogue replaced(kv_, "", [] { return absl::AbortedError("replaced"); });
  EXPECT_TRUE(absl::IsAborted(replaced.Commit(other)));
  EXPECT_TRUE(absl::IsAborted(replaced.Remove(kJob, LineageNumber(1), Step(10), *files_)));
  EXPECT_TRUE(absl::IsAborted(replaced.Prune(
      kJob, [](LineageNumber, Step) { return true; }, 1, *files_)));
  EXPECT_TRUE(absl::IsAborted(replaced.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(20))));
  EXPECT_TRUE(absl::IsAborted(replaced.RemoveAll(kJob, *files_)));
  EXPECT_THAT(Listed(), ElementsAre("1:10", "1:20"));
  EXPECT_EQ(FilesUnder(dir_), files);
}

TEST_F(CatalogueTest, EveryDamagedByteOfAManifestIsReportedAndProtectsTheFiles) {
  CommitAt(1, 10);
  SaveAt(1, 5);
  const auto pairs = ScanAll(kv_, kCatalogueFamily);
  ASSERT_EQ(pairs->size(), 1u);
  const auto& [key, value] = pairs->front();
  const auto put = [&](const std::string& k, const std::string& v) {
    Batch batch;
    batch.Put(kCatalogueFamily, k, v);
    ASSERT_TRUE(kv_.Write(batch).ok());
  };
  for (size_t at = 0; at < value.size(); ++at) {
    std::string bad = value;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    put(key, bad);
    const auto listing = catalogue_.List(kJob);
    ASSERT_TRUE(listing.ok()) << listing.status();
    EXPECT_EQ(listing->manifests.size(), 0u) << "byte " << at;
    EXPECT_THAT(listing->damaged, ElementsAre(HasSubstr(kJob)));
  }
  const auto files = FilesUnder(dir_);
  EXPECT_TRUE(
      absl::IsDataLoss(catalogue_.RemoveOrphans(*files_, kJob, LineageNumber(1), Step(100))));
  EXPECT_EQ(FilesUnder(dir_), files);
  std::string elsewhere = key;
  elsewhere.back() = '1';
  put(elsewhere, value);
  put(key, value);
  EXPECT_EQ(catalogue_.List(kJob)->manifests.size(), 1u);
  EXPECT_THAT(catalogue_.List(kJob)->damaged, ElementsAre(HasSubstr("another manifest")));
}

}  // namespace
}  // namespace muster
