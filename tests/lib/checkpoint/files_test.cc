// What CheckpointFiles promises, of each that implements it; and what becomes of checkpoints when a
// call of it fails.
#include "lib/checkpoint/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/checkpoint/manifest_file.h"
#include "lib/storage/kv.h"
#include "tests/lib/checkpoint/support.h"
#include "tests/support/memory_files.h"

namespace muster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

CheckpointFiles::Write Writes(const std::string& bytes) {
  return [bytes](Appender& out) {
    return out.Append({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  };
}

absl::StatusOr<std::string> Read(const CheckpointFiles& files, const std::string& file) {
  const auto in = files.Open(file);
  if (!in.ok()) return in.status();
  std::string bytes((*in)->size(), '\0');
  const absl::Status read = (*in)->ReadAt(0, bytes.data(), bytes.size());
  if (!read.ok()) return read;
  return bytes;
}

// By name, and whether each is a folder.
std::map<std::string, bool> Listed(const CheckpointFiles& files, const std::string& folder) {
  std::map<std::string, bool> found;
  const absl::Status listed = files.List(folder, [&](const CheckpointFiles::Entry& entry) {
    EXPECT_TRUE(found.emplace(entry.name, entry.is_folder).second) << entry.name << " twice";
    return true;
  });
  EXPECT_TRUE(listed.ok() || absl::IsNotFound(listed)) << listed;
  return found;
}

enum class Place { kFolder, kMemory };

class FilesTest : public DirTest, public testing::WithParamInterface<Place> {
 protected:
  void SetUp() override {
    // A parameter's test has a '/' in its name.
    dir_ = testing::TempDir() + "/FilesTest." + std::to_string(getpid());
    std::filesystem::remove_all(dir_);
    if (GetParam() == Place::kFolder) files_ = CheckpointFilesIn(dir_);
    if (GetParam() == Place::kMemory) files_ = std::make_unique<MemoryFiles>();
  }
};

TEST_P(FilesTest, AFileIsThereWholeOrNotAtAll) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  const absl::Status made = files_->Create("one/file", [&](Appender& out) {
    EXPECT_TRUE(absl::IsNotFound(files_->Open("one/file").status())) << "it is not written yet";
    return Writes("bytes")(out);
  });
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_EQ(*Read(*files_, "one/file"), "bytes");
  EXPECT_THAT(Listed(*files_, ""), ElementsAre(Pair("one", true)));
  EXPECT_THAT(Listed(*files_, "one"), ElementsAre(Pair("file", false)));
  const absl::Status failed = files_->Create("one/other", [&](Appender& out) {
    EXPECT_TRUE(Writes("bytes")(out).ok());
    return absl::AbortedError("no more");
  });
  EXPECT_TRUE(absl::IsAborted(failed)) << failed;
  EXPECT_THAT(Listed(*files_, "one"), ElementsAre(Pair("file", false))) << "nothing of it stays";
}

TEST_P(FilesTest, OnlyReplaceTakesThePlaceOfAFile) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  ASSERT_TRUE(files_->Create("one/file", Writes("first")).ok());
  const absl::Status again = files_->Create("one/file", Writes("second"));
  EXPECT_TRUE(absl::IsAlreadyExists(again)) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr(files_->PathOf("one/file")));
  EXPECT_EQ(*Read(*files_, "one/file"), "first");
  const auto open = files_->Open("one/file");
  ASSERT_TRUE(open.ok()) << open.status();
  ASSERT_TRUE(files_->Replace("one/file", "the second").ok());
  EXPECT_EQ(*Read(*files_, "one/file"), "the second");
  std::string old((*open)->size(), '\0');
  if ((*open)->ReadAt(0, old.data(), old.size()).ok()) {
    EXPECT_EQ(old, "first") << "a mixture";
  }
  ASSERT_TRUE(files_->Replace("two/new", "new").ok());
  EXPECT_EQ(*Read(*files_, "two/new"), "new");
  EXPECT_THAT(Listed(*files_, ""), ElementsAre(Pair("one", true), Pair("two", true)));
}

TEST_P(FilesTest, WhatIsRemovedIsNotListed) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  for (const char* file : {"one/a", "one/b", "c"})
    ASSERT_TRUE(files_->Create(file, Writes(file)).ok());
  EXPECT_THAT(Listed(*files_, ""), ElementsAre(Pair("c", false), Pair("one", true)));
  ASSERT_TRUE(files_->Remove("one/a").ok());
  EXPECT_TRUE(files_->Remove("one/a").ok()) << "it is gone";
  EXPECT_TRUE(files_->Remove("two/a").ok()) << "it never was there";
  EXPECT_THAT(Listed(*files_, "one"), ElementsAre(Pair("b", false)));
  files_->RemoveFolder("one");
  EXPECT_EQ(*Read(*files_, "one/b"), "one/b") << "the folder is not empty";
  ASSERT_TRUE(files_->Remove("one/b").ok());
  files_->RemoveFolder("one");
  EXPECT_THAT(Listed(*files_, ""), ElementsAre(Pair("c", false)));
  EXPECT_THAT(Listed(*files_, "one"), IsEmpty());
  int visited = 0;
  ASSERT_TRUE(files_->Create("d", Writes("d")).ok());
  EXPECT_TRUE(files_->List("", [&](const CheckpointFiles::Entry&) { return ++visited < 1; }).ok());
  EXPECT_EQ(visited, 1) << "who has seen enough is asked no more";
}

TEST_P(FilesTest, WithoutTheFolderOfTheJobNothingIsWritten) {
  const auto refused = [&] {
    EXPECT_TRUE(absl::IsNotFound(files_->Create("one/file", Writes("x"))));
    EXPECT_TRUE(absl::IsNotFound(files_->Create("file", Writes("x"))));
    EXPECT_TRUE(absl::IsNotFound(files_->Replace("one/file", "x")));
    EXPECT_THAT(Listed(*files_, ""), IsEmpty());
  };
  refused();
  ASSERT_TRUE(files_->MakeFolder().ok());
  ASSERT_TRUE(files_->MakeFolder().ok());
  ASSERT_TRUE(files_->Create("file", Writes("x")).ok());
  files_->RemoveFolder("");
  EXPECT_EQ(*Read(*files_, "file"), "x") << "the folder is not empty";
  ASSERT_TRUE(files_->Remove("file").ok());
  files_->RemoveFolder("");
  refused();
}

TEST_P(FilesTest, WhatIsNotThereIsNamed) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  const absl::Status absent = files_->Open("one/file").status();
  EXPECT_TRUE(absl::IsNotFound(absent)) << absent;
  EXPECT_THAT(std::string(absent.message()), HasSubstr(files_->PathOf("one/file")));
  ASSERT_TRUE(files_->Create("file", Writes("12345")).ok());
  const auto in = files_->Open("file");
  ASSERT_TRUE(in.ok()) << in.status();
  std::string bytes(3, '\0');
  EXPECT_TRUE((*in)->ReadAt(2, bytes.data(), 3).ok());
  EXPECT_EQ(bytes, "345");
  const absl::Status beyond = (*in)->ReadAt(3, bytes.data(), 3);
  EXPECT_TRUE(absl::IsDataLoss(beyond)) << beyond;
  EXPECT_THAT(std::string(beyond.message()), HasSubstr(files_->PathOf("file")));
}

TEST_P(FilesTest, AnOpenFileOutlivesThoseThatOpenedIt) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  ASSERT_TRUE(files_->Create("file", Writes("12345")).ok());
  const auto in = files_->Open("file");
  ASSERT_TRUE(in.ok()) << in.status();
  files_ = nullptr;
  std::string bytes(5, '\0');
  EXPECT_TRUE((*in)->ReadAt(0, bytes.data(), 5).ok());
  EXPECT_EQ(bytes, "12345");
}

INSTANTIATE_TEST_SUITE_P(Everywhere, FilesTest, testing::Values(Place::kFolder, Place::kMemory),
                         [](const auto& at) {
                           return at.param == Place::kFolder ? "Folder" : "Memory";
                         });

// A folder of a file system holds what no other place can.
using PosixFilesTest = DirTest;

TEST_F(PosixFilesTest, ALinkIsNeitherReadNorTakenForAFolder) {
  WriteFile(dir_ + "/elsewhere/file", "of somebody else");
  std::filesystem::create_symlink(dir_ + "/elsewhere/file", dir_ + "/link");
  std::filesystem::create_directory_symlink(dir_ + "/elsewhere", dir_ + "/folder-link");
  const absl::Status link = files_->Open("link").status();
  EXPECT_TRUE(absl::IsDataLoss(link)) << link;
  EXPECT_THAT(std::string(link.message()), HasSubstr("is a symbolic link"));
  EXPECT_THAT(Listed(*files_, ""), ElementsAre(Pair("elsewhere", true), Pair("folder-link", false),
                                               Pair("link", false)));
}

// It advised another directory, where nobody wants to write.
TEST_F(PosixFilesTest, AFolderThatMayNotBeReadIsNoQuestionOfWriting) {
  ASSERT_TRUE(files_->MakeFolder().ok());
  ASSERT_EQ(chmod(dir_.c_str(), 0), 0);
  const bool reads_all = geteuid() == 0;
  ASSERT_TRUE(!reads_all || seteuid(65534) == 0);
  const absl::Status refused = files_->List("", [](const CheckpointFiles::Entry&) { return true; });
  ASSERT_TRUE(!reads_all || seteuid(0) == 0);
  ASSERT_EQ(chmod(dir_.c_str(), 0755), 0);
  EXPECT_EQ(refused,
            absl::PermissionDeniedError(absl::StrCat(
                "'", dir_, "' may not be read by this user: give the command as the one who may")));
}

TEST_F(PosixFilesTest, WhatACrashLeftIsListedAndCanBeRemoved) {
  WriteFile(dir_ + "/one/file.writing", "half");
  EXPECT_THAT(Listed(*files_, "one"), ElementsAre(Pair("file.writing", false)));
  ASSERT_TRUE(files_->Create("one/file", Writes("whole")).ok()) << "it is in nobody's way";
  ASSERT_TRUE(files_->Remove("one/file.writing").ok());
  EXPECT_THAT(Listed(*files_, "one"), ElementsAre(Pair("file", false)));
}

// Each call of the place fails once, wherever a round stands then.
class FailingFilesTest : public testing::Test {
 protected:
  // A checkpoint with its manifest, as members and the coordinator make it, the one before it
  // pruned, and what is left of other rounds swept away.
  absl::Status SaveAt(int64_t step, const char* attempt) {
    MUSTER_RETURN_IF_ERROR(failing_.MakeFolder());
    const State state = MakeState(layout_, static_cast<uint64_t>(step));
    const SegmentMeta meta{kJob, LineageNumber(1), Step(step), "aa"};
    MUSTER_ASSIGN_OR_RETURN(
        Segment segment, WriteSegment(failing_, SegmentFile(meta.lineage, meta.step, attempt), meta,
                                      PartsOf<PartView>(layout_, state)));
    const Manifest manifest = MakeManifest(meta.lineage, meta.step, {std::move(segment)});
    MUSTER_RETURN_IF_ERROR(WriteManifestFile(failing_, {"aa", manifest, {}, {}}));
    MUSTER_RETURN_IF_ERROR(catalogue_->Commit(manifest));
    MUSTER_RETURN_IF_ERROR(catalogue_->Prune(
        kJob, [](LineageNumber, Step) { return true; }, 1, failing_));
    return catalogue_->RemoveOrphans(failing_, kJob, meta.lineage, meta.step);
  }
  // What is left of an aborted round of our own, and a checkpoint of another cluster.
  void PutWhatOthersLeft() {
    const std::vector<float> values(8, 1.0f);
    for (const char* cluster : {"aa", "bb"}) {
      const SegmentMeta meta{kJob, LineageNumber(1), Step(1), cluster};
      ASSERT_TRUE(WriteSegment(memory_, SegmentFile(meta.lineage, meta.step, cluster), meta,
                               {{0, ChunkId(0), values}})
                      .ok());
    }
    const Manifest theirs = MakeManifest(LineageNumber(1), Step(1), {});
    ASSERT_TRUE(WriteManifestFile(memory_, {"bb", theirs, {}, {}}).ok());
  }
  void Begin() {
    memory_.content.clear();
    ASSERT_TRUE(memory_.MakeFolder().ok());
    kv_ = OpenMemory({kCatalogueFamily});
    catalogue_.emplace(*kv_, "aa");
    PutWhatOthersLeft();
  }
  void ExpectTheirsAreThere() {
    EXPECT_TRUE(memory_.content.contains("lineage-1-step-1/bb.segment"));
    EXPECT_TRUE(memory_.content.contains("lineage-1-step-1/checkpoint.manifest"));
  }
  // The step of the newest one, after a look at all.
  int64_t NewestOfThoseThatLoad() {
    const auto listing = catalogue_->List(kJob);
    EXPECT_TRUE(listing.ok() && listing->damaged.empty());
    int64_t newest = 0;
    for (const Manifest& manifest : listing->manifests) {
      newest = manifest.step.value();
      const auto loaded = LoadWhole(memory_, manifest, layout_);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      if (loaded.ok()) {
        EXPECT_EQ(*loaded, MakeState(layout_, static_cast<uint64_t>(newest)));
      }
      const std::string file = ManifestFileOf(manifest.lineage, manifest.step);
      EXPECT_TRUE(ReadManifestFile(memory_, file).ok()) << "a committed one has its file";
    }
    return newest;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : memory_.content) names.push_back(name);
    return names;
  }

  const Layout layout_ = UglyLayout();
  MemoryFiles memory_;
  FaultyFiles failing_{memory_};
  std::unique_ptr<Kv> kv_;
  std::optional<Catalogue> catalogue_;
};

TEST_F(FailingFilesTest, WhateverCallFailsTheNewestCheckpointLoadsAndTheNextRoundCleansUp) {
  int64_t call = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call, " fails"));
    Begin();
    ASSERT_TRUE(SaveAt(10, "first").ok());
    failing_.FailCall(call);
    const absl::Status saved = SaveAt(20, "second");
    reached = failing_.failed();
    EXPECT_EQ(saved.ok(), !reached) << saved;
    if (reached) {
      EXPECT_TRUE(absl::IsUnavailable(saved)) << saved;
    }
    failing_.FailCall(-1);
    EXPECT_GE(NewestOfThoseThatLoad(), saved.ok() ? 20 : 10);
    ExpectTheirsAreThere();
    const absl::Status next = SaveAt(30, "third");
    ASSERT_TRUE(next.ok()) << next;
    EXPECT_EQ(NewestOfThoseThatLoad(), 30);
    EXPECT_THAT(
        Files(),
        ElementsAre("lineage-1-step-1/bb.segment", "lineage-1-step-1/checkpoint.manifest",
                    "lineage-1-step-30/checkpoint.manifest", "lineage-1-step-30/third.segment"));
  }
  EXPECT_GT(call, 20) << "the calls were not counted";
}

TEST_F(FailingFilesTest, WhateverCallFailsAJobCanBeDeletedAfterwards) {
  int64_t call = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call, " fails"));
    Begin();
    ASSERT_TRUE(SaveAt(10, "first").ok());
    failing_.FailCall(call);
    const absl::Status removed = catalogue_->RemoveAll(kJob, failing_);
    reached = failing_.failed();
    EXPECT_EQ(removed.ok(), !reached) << removed;
    failing_.FailCall(-1);
    ExpectTheirsAreThere();
    EXPECT_EQ(catalogue_->Unfinished()->contains(kJob), reached) << "nobody would try it again";
    ASSERT_TRUE(catalogue_->RemoveAll(kJob, failing_).ok());
    EXPECT_THAT(Files(),
                ElementsAre("lineage-1-step-1/bb.segment", "lineage-1-step-1/checkpoint.manifest"));
  }
  EXPECT_GT(call, 5) << "the calls were not counted";
}

TEST_F(FailingFilesTest, WhateverCallFailsLoadingSaysSo) {
  Begin();
  ASSERT_TRUE(SaveAt(10, "first").ok());
  const Manifest manifest = catalogue_->List(kJob)->manifests.back();
  int64_t call = 0;
  for (bool reached = true; reached; ++call) {
    SCOPED_TRACE(absl::StrCat("call ", call, " fails"));
    failing_.FailCall(call);
    const auto loaded = LoadWhole(failing_, manifest, layout_);
    reached = failing_.failed();
    failing_.FailCall(call);
    const auto digest = Digest(failing_, manifest);
    EXPECT_EQ(loaded.ok(), !reached) << loaded.status();
    EXPECT_EQ(digest.ok(), !failing_.failed()) << digest.status();
    if (reached) {
      EXPECT_TRUE(absl::IsUnavailable(loaded.status())) << "that is no damage";
    }
  }
  EXPECT_GT(call, 5) << "the calls were not counted";
}

}  // namespace
}  // namespace muster
