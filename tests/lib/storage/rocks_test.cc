// What only a store on a disk can suffer: restarts, a second process, kills, damage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "lib/base/whole_file.h"
#include "lib/storage/kv.h"
#include "tests/support/child.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
const std::vector<std::string> kFamilies = {"journal", "ledger", "catalogue"};

class RocksTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/rocks_test_" +
           testing::UnitTest::GetInstance()->current_test_info()->name() + std::to_string(getpid());
    std::replace(dir_.begin() + static_cast<int64_t>(testing::TempDir().size()) + 1, dir_.end(),
                 '/', '-');
    TearDown();
  }
  void TearDown() override {
    fs::remove_all(dir_);
    fs::remove_all(MarksOf(dir_));
  }
  std::string dir_;
};

std::unique_ptr<Kv> Open(const std::string& dir) {
  auto kv = OpenRocks(dir, kFamilies);
  EXPECT_TRUE(kv.ok()) << kv.status();
  return kv.ok() ? *std::move(kv) : nullptr;
}

absl::Status Put(Kv& kv, const std::string& key, const std::string& value) {
  Batch batch;
  batch.Put("journal", key, value);
  batch.Put("ledger", key, value);
  return kv.Write(batch);
}

std::string MarkFile(const std::string& dir) { return MarksOf(dir) + "/sequence"; }

// The store's newest file with that ending.
fs::path FileWith(const std::string& dir, const std::string& ending) {
  fs::path found;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().string();
    if (name.ends_with(ending) && fs::file_size(entry) > 0 && name > found.string())
      found = entry.path();
  }
  return found;
}

void FlipByte(const fs::path& file, int64_t at) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(at);
  const int byte = stream.get();
  stream.seekp(at);
  stream.put(static_cast<char>(byte ^ 0x40));
  ASSERT_TRUE(stream.good());
}

TEST_F(RocksTest, KeepsWhatWasWritten) {
  ASSERT_TRUE(Put(*Open(dir_), "a", "1").ok());
  EXPECT_EQ(*Open(dir_)->Get("ledger", "a"), "1");
}

TEST_F(RocksTest, OpensWithMoreOrFewerFamilies) {
  ASSERT_TRUE(Put(*Open(dir_), "a", "1").ok());
  auto fewer = OpenRocks(dir_, {"journal"});
  ASSERT_TRUE(fewer.ok()) << fewer.status();
  fewer->reset();
  auto more = OpenRocks(dir_, {"journal", "ledger", "catalogue", "future"});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_EQ(*(*more)->Get("ledger", "a"), "1");
  EXPECT_TRUE(absl::IsNotFound((*more)->Get("future", "a").status()));
}

// Names, sizes and content of all that lies in a store and beside it.
std::map<std::string, std::string> Everything(const std::string& dir) {
  std::map<std::string, std::string> found;
  for (const std::string& folder : {dir, MarksOf(dir)})
    for (const auto& entry : fs::directory_iterator(folder))
      found[entry.path().string()] = ReadWholeFile(entry.path().string()).value_or("?");
  return found;
}

TEST_F(RocksTest, WhoOnlyReadsChangesNothing) {
  EXPECT_TRUE(absl::IsNotFound(OpenRocksToRead(dir_, kFamilies).status()));
  EXPECT_FALSE(fs::exists(dir_));
  ASSERT_TRUE(Put(*Open(dir_), "a", "1").ok());
  ASSERT_TRUE(Put(*Open(dir_), "b", "2").ok());
  const auto before = Everything(dir_);
  {
    const auto kv = OpenRocksToRead(dir_, kFamilies);
    ASSERT_TRUE(kv.ok()) << kv.status();
    EXPECT_EQ(*(*kv)->Get("ledger", "a"), "1");
    EXPECT_EQ(ScanAll(**kv, "journal")->size(), 2u);
    EXPECT_TRUE(absl::IsFailedPrecondition(Put(**kv, "c", "3")));
  }
  EXPECT_EQ(Everything(dir_), before);
  EXPECT_EQ(*Open(dir_)->Get("journal", "b"), "2") << "it opens as ever";
}

TEST_F(RocksTest, ASecondOpenInTheSameProcessIsRefused) {
  const auto kv = Open(dir_);
  const auto second = OpenRocks(dir_, kFamilies);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status())) << second.status();
}

TEST_F(RocksTest, ADirectoryThatCannotBeMadeIsNamed) {
  const auto kv = OpenRocks("/proc/nowhere/store", kFamilies);
  ASSERT_FALSE(kv.ok());
  EXPECT_NE(kv.status().message().find("/proc/nowhere/store"), absl::string_view::npos)
      << kv.status();
}

// What was acknowledged is missing at the end of the log, where it looks as if it had never been
// written.
class LostLog : public RocksTest {
 protected:
  void SetUp() override {
    RocksTest::SetUp();
    ASSERT_TRUE(Put(*Open(dir_), "a", std::string(200, 'v')).ok());
    const auto kv = Open(dir_);
    for (const char* key : {"b", "c", "d"}) ASSERT_TRUE(Put(*kv, key, std::string(200, 'v')).ok());
  }
  void ExpectLost(const std::string& words) {
    EXPECT_TRUE(absl::IsDataLoss(OpenRocksToRead(dir_, kFamilies).status()))
        << "who only reads is told, too";
    // Again and again, until somebody has done something.
    for (int start = 0; start < 2; ++start) {
      const auto kv = OpenRocks(dir_, kFamilies);
      ASSERT_TRUE(absl::IsDataLoss(kv.status())) << "not said: " << words << "; " << kv.status();
      EXPECT_THAT(std::string(kv.status().message()),
                  AllOf(HasSubstr(dir_), HasSubstr(words), HasSubstr("Bring back")));
    }
  }
};

TEST_F(LostLog, ADeletedFileIsNoticed) {
  fs::remove(FileWith(dir_, ".log"));
  ExpectLost("changes were written");
}

TEST_F(LostLog, AFileThatIsCutBetweenTwoChangesIsNoticed) {
  const fs::path log = FileWith(dir_, ".log");
  fs::resize_file(log, fs::file_size(log) / 3);  // "b" stays
  ExpectLost("changes were written");
}

TEST_F(LostLog, AFileThatIsEmptyIsNoticed) {
  fs::resize_file(FileWith(dir_, ".log"), 0);
  ExpectLost("changes were written");
}

TEST_F(LostLog, AnOlderCopyOfTheStoreIsNoticed) {
  const std::string copy = dir_ + ".copy";
  fs::copy(dir_, copy, fs::copy_options::recursive);
  ASSERT_TRUE(Put(*Open(dir_), "e", "1").ok());
  fs::remove_all(dir_);
  fs::rename(copy, dir_);
  ExpectLost("changes were written");
}

TEST_F(LostLog, AStoreThatIsGoneIsNotMadeAnew) {
  fs::remove_all(dir_);
  ExpectLost("its file CURRENT is missing");
}

TEST_F(LostLog, WithoutCurrentNoStoreIsMadeOverTheOldOne) {
  fs::remove(dir_ + "/CURRENT");
  const auto files = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(dir_))
      names.insert(entry.path().filename().string());
    return names;
  };
  const std::set<std::string> before = files();
  ExpectLost("its file CURRENT is missing");
  EXPECT_EQ(files(), before) << "what is left may still be of use";
  fs::remove_all(MarksOf(dir_));
  ExpectLost("its file CURRENT is missing");
  EXPECT_EQ(files(), before);
  EXPECT_THAT(std::string(OpenRocks(dir_, kFamilies).status().message()),
              testing::Not(HasSubstr("delete")))
      << "a copy may still be found";
}

struct Damage {
  const char* name;
  const char* file;  // how its name begins, or ends
  void (*happens)(const fs::path&);
};

class DamagedStore : public LostLog, public testing::WithParamInterface<Damage> {
 protected:
  fs::path Find(const std::string& part) {
    for (const auto& entry : fs::directory_iterator(dir_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(part) || name.ends_with(part)) return entry.path();
    }
    return {};
  }
};

void Remove(const fs::path& file) { fs::remove(file); }
void Empty(const fs::path& file) { fs::resize_file(file, 0); }
void Halve(const fs::path& file) { fs::resize_file(file, fs::file_size(file) / 2); }
void Overwrite(const fs::path& file) { std::ofstream(file) << "garbage"; }

void Lengthen(const fs::path& file) { fs::resize_file(file, uintmax_t{1} << 30); }
void MakePipe(const fs::path& file) {
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
}
void MakeLink(const fs::path& file) {
  const fs::path elsewhere = file.parent_path() / "lost" / file.filename();
  fs::create_directory(elsewhere.parent_path());
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
}

TEST_P(DamagedStore, IsSaidWithItsFolderAndWhatToDo) {
  { const auto kv = Open(dir_); }  // turns the log into a table
  const fs::path file = Find(GetParam().file);
  ASSERT_FALSE(file.empty());
  GetParam().happens(file);
  for (int start = 0; start < 2; ++start) {
    const auto kv = OpenRocks(dir_, kFamilies);
    ASSERT_TRUE(absl::IsDataLoss(kv.status())) << kv.status();
    EXPECT_THAT(std::string(kv.status().message()),
                AllOf(HasSubstr(dir_), HasSubstr("Bring back")));
  }
  EXPECT_TRUE(absl::IsDataLoss(OpenRocksToRead(dir_, kFamilies).status()));
}

INSTANTIATE_TEST_SUITE_P(
    Rocks, DamagedStore,
    testing::Values(
        Damage{"manifest_deleted", "MANIFEST", Remove}, Damage{"manifest_empty", "MANIFEST", Empty},
        Damage{"manifest_cut", "MANIFEST", Halve},
        Damage{"manifest_garbage", "MANIFEST", Overwrite},
        Damage{"current_deleted", "CURRENT", Remove}, Damage{"current_empty", "CURRENT", Empty},
        Damage{"current_garbage", "CURRENT", Overwrite}, Damage{"table_deleted", ".sst", Remove},
        Damage{"table_empty", ".sst", Empty}, Damage{"table_cut", ".sst", Halve},
        Damage{"manifest_long", "MANIFEST", Lengthen},
        Damage{"manifest_pipe", "MANIFEST", MakePipe}, Damage{"current_long", "CURRENT", Lengthen},
        Damage{"current_pipe", "CURRENT", MakePipe}, Damage{"log_long", ".log", Lengthen},
        Damage{"log_pipe", ".log", MakePipe}, Damage{"table_link", ".sst", MakeLink}),
    [](const auto& test) { return std::string(test.param.name); });

// The store opens with our options, and only notes them there.
TEST_F(RocksTest, WhatItNotedOfItsOptionsIsNotNeeded) {
  ASSERT_TRUE(Put(*Open(dir_), "a", "1").ok());
  for (const auto& entry : fs::directory_iterator(dir_))
    if (entry.path().filename().string().starts_with("OPTIONS"))
      std::ofstream(entry.path()) << "garbage";
  EXPECT_EQ(Open(dir_)->Get("journal", "a").value(), "1");
}

TEST_F(LostLog, WhoDeletesTheMarksGoesOnFromWhatIsThere) {
  fs::remove(FileWith(dir_, ".log"));
  ExpectLost(MarksOf(dir_));
  fs::remove_all(MarksOf(dir_));
  {
    const auto kv = Open(dir_);
    ASSERT_NE(kv, nullptr);
    EXPECT_TRUE(kv->Get("journal", "a").ok());
    ASSERT_TRUE(Put(*kv, "e", "1").ok());
  }
  fs::remove(FileWith(dir_, ".log"));
  ExpectLost("changes were written");
}

TEST_F(LostLog, MarksThatCannotBeReadAreSaid) {
  ASSERT_TRUE(ReplaceFile(MarkFile(dir_), "garbage").ok());
  ExpectLost(MarkFile(dir_));
}

// The middle one of three: the store counts on from the last, so that only RocksDB's own account of
// complete files shows it.
TEST_F(RocksTest, AFileFromTheMiddleOfTheLogIsMissed) {
  const std::string large(3 << 20, 'v');
  fs::path middle;
  {
    const auto kv = Open(dir_);
    Batch first;
    first.Put("ledger", "a", large);  // keeps every file of the log: its family is never full
    ASSERT_TRUE(kv->Write(first).ok());
    for (int i = 0; i < 7; ++i) {
      Batch batch;
      batch.Put("journal", std::to_string(i), large);
      ASSERT_TRUE(kv->Write(batch).ok());
      if (i == 4) middle = FileWith(dir_, ".log");
    }
    ASSERT_NE(FileWith(dir_, ".log"), middle);
  }
  ASSERT_TRUE(fs::exists(middle));
  for (const bool cut : {true, false}) {
    if (cut)
      fs::resize_file(middle, fs::file_size(middle) / 2);
    else
      fs::remove(middle);
    const auto kv = OpenRocks(dir_, kFamilies);
    EXPECT_TRUE(absl::IsDataLoss(kv.status())) << kv.status();
    EXPECT_THAT(std::string(kv.status().message()), HasSubstr("WAL"));
    EXPECT_THAT(std::string(kv.status().message()), HasSubstr("Bring back"));
  }
}

// A limit of file sizes stands for a disk that refuses a write for another reason than its space.
TEST_F(RocksTest, AfterARefusedWriteTheStoreTakesNoneUntilItIsOpenedAnew) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  {
    const auto kv = Open(dir_);
    ASSERT_TRUE(Put(*kv, "a", "1").ok());
    const rlimit little{fs::file_size(FileWith(dir_, ".log")) + 100, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    const absl::Status refused = Put(*kv, "b", std::string(5000, 'v'));
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    const absl::Status still = Put(*kv, "c", "1");
    EXPECT_TRUE(absl::IsUnavailable(still)) << still;
    EXPECT_EQ(*kv->Get("journal", "a"), "1");
  }
  const auto kv = Open(dir_);
  ASSERT_NE(kv, nullptr);
  EXPECT_EQ(*kv->Get("ledger", "a"), "1");
  EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", "b").status()));
  EXPECT_TRUE(Put(*kv, "c", "1").ok());
}

// The child: numbered batches, each reported when it is acknowledged, until it is killed.
int WriteForever(const std::string& dir) {
  auto kv = OpenRocks(dir, kFamilies);
  if (!kv.ok()) return 1;
  for (int i = 0;; ++i) {
    if (!Put(**kv, std::to_string(i), std::string(500, 'v')).ok()) return 1;
    Report(std::to_string(i));
  }
}

bool AwaitReports(Child& child, int wanted) {
  std::string line;
  for (int i = 0; i < wanted; ++i) {
    if (!child.ReadLine(line)) return false;
  }
  return true;
}

TEST_F(RocksTest, AStoreOpenInAnotherProcessIsRefusedByName) {
  Child child({"--write-forever", dir_});
  ASSERT_TRUE(AwaitReports(child, 1));
  const auto kv = OpenRocks(dir_, kFamilies);
  child.Kill();
  EXPECT_TRUE(absl::IsAlreadyExists(kv.status())) << kv.status();
  EXPECT_NE(kv.status().message().find(dir_), absl::string_view::npos) << kv.status();
  EXPECT_NE(Open(dir_), nullptr);
}

TEST_F(RocksTest, WhatWasAcknowledgedSurvivesSigkillAndTheRestIsAPrefix) {
  for (int reports : {1, 2, 17, 64}) {
    TearDown();
    Child child({"--write-forever", dir_});
    ASSERT_TRUE(AwaitReports(child, reports));
    child.Kill();
    const auto kv = Open(dir_);
    ASSERT_NE(kv, nullptr);
    int alive = 0;
    while (kv->Get("journal", std::to_string(alive)).ok()) ++alive;
    EXPECT_GE(alive, reports);
    EXPECT_EQ(ScanAll(*kv, "journal")->size(), static_cast<size_t>(alive));
    EXPECT_EQ(ScanAll(*kv, "ledger")->size(), static_cast<size_t>(alive));
  }
}

// As a machine leaves it that lost its power amid the twentieth write: the mark knows of nineteen.
TEST_F(RocksTest, ATornTailOfTheLogLosesOnlyTheTail) {
  std::string mark;
  {
    const auto kv = Open(dir_);
    for (int i = 0; i < 20; ++i) {
      mark = ReadWholeFile(MarkFile(dir_)).value();
      ASSERT_TRUE(Put(*kv, std::to_string(100 + i), std::string(200, 'v')).ok());
    }
  }
  ASSERT_TRUE(ReplaceFile(MarkFile(dir_), mark).ok());
  const fs::path log = FileWith(dir_, ".log");
  fs::resize_file(log, fs::file_size(log) - 100);
  const auto kv = Open(dir_);
  ASSERT_NE(kv, nullptr);
  EXPECT_TRUE(kv->Get("journal", "118").ok());
  EXPECT_TRUE(absl::IsNotFound(kv->Get("journal", "119").status()));
  EXPECT_TRUE(absl::IsNotFound(kv->Get("ledger", "119").status()));
}

TEST_F(RocksTest, DamageInsideTheLogIsDataLoss) {
  {
    const auto kv = Open(dir_);
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(Put(*kv, std::to_string(100 + i), std::string(200, 'v')).ok());
  }
  const fs::path log = FileWith(dir_, ".log");
  FlipByte(log, static_cast<int64_t>(fs::file_size(log) / 2));
  const auto kv = OpenRocks(dir_, kFamilies);
  EXPECT_TRUE(absl::IsDataLoss(kv.status())) << kv.status();
  EXPECT_NE(kv.status().message().find(dir_), absl::string_view::npos) << kv.status();
}

TEST_F(RocksTest, DamageInsideATableIsDataLoss) {
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(Put(*Open(dir_), std::to_string(i), std::string(4000, 'v')).ok());
  { const auto kv = Open(dir_); }  // every opening turns the log into a table
  const fs::path table = FileWith(dir_, ".sst");
  ASSERT_FALSE(table.empty());
  FlipByte(table, 20);
  auto kv = OpenRocks(dir_, kFamilies);
  absl::Status status = kv.status();
  if (status.ok()) status = ScanAll(**kv, "journal").status();
  if (status.ok()) status = ScanAll(**kv, "ledger").status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--write-forever") return muster::WriteForever(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
