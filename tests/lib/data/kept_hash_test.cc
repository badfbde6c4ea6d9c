#include "lib/data/kept_hash.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <set>

#include "absl/time/clock.h"
#include "lib/data/opened_data.h"
#include "tests/lib/data/opened_set.h"
#include "tests/lib/data/written_files.h"

namespace muster {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(KeptHash, EverythingThatMattersMakesAnotherKey) {
  struct Described {
    DataSpec data{.format = DataFormat::kCsv, .columns = {"a"}, .label = "b"};
    std::vector<FileStamp> files = {{"/d/x", "x", 10, 1, 5, 6}, {"/d/y", "y", 20, 2, 7, 8}};
    std::string versions = "libpng 1";
  };
  const std::function<void(Described&)> changes[] = {
      [](Described&) {},
      [](Described& d) { d.data.format = DataFormat::kNumpy; },
      [](Described& d) { d.data.columns = {}; },
      [](Described& d) {
        d.data.columns = {"a", ""};
      },
      [](Described& d) { d.data.keys = {"a"}; },
      [](Described& d) { d.data.classes = {"a"}; },
      [](Described& d) { d.data.label = "a"; },
      [](Described& d) { d.data.header = false; },
      [](Described& d) { d.data.delimiter = ";"; },
      [](Described& d) { d.data.shape = {3}; },
      [](Described& d) { d.data.max_bytes = 3; },
      [](Described& d) { d.versions = "libpng 2"; },
      [](Described& d) { d.files.pop_back(); },
      [](Described& d) { std::swap(d.files[0], d.files[1]); },
      [](Described& d) { d.files[0].path = "/e/x"; },
      [](Described& d) { d.files[0].below = "c/x"; },
      [](Described& d) { d.files[0].bytes = 11; },
      [](Described& d) { d.files[0].inode = 3; },
      [](Described& d) { d.files[0].modified = 4; },
      [](Described& d) { d.files[0].changed = 7; },
  };
  std::set<std::string> keys;
  for (const auto& change : changes) {
    Described described;
    change(described);
    const auto key = [&] {
      return KeptHashKey(described.data, described.files, described.versions);
    };
    EXPECT_EQ(key().size(), 64u);
    EXPECT_EQ(key(), key());
    keys.insert(key());
  }
  EXPECT_EQ(keys.size(), std::size(changes));
}

TEST(KeptHash, WhatDecidesNoStoredSampleMakesNone) {
  const std::vector<FileStamp> files = {{"/d/x", "x", 10, 1, 5, 6}};
  const std::string key = KeptHashKey({}, files, "");
  EXPECT_EQ(KeptHashKey({.paths = {"/d"}, .suffixes = {".x"}, .mean = {1}, .crop = 3}, files, ""),
            key);
  EXPECT_EQ(KeptHashKey({.verify = VerifyData::kQuick, .validation_share = 0.5}, files, ""), key);
}

TEST(KeptHash, AFileThatWasJustChangedMayChangeAgain) {
  const std::vector<FileStamp> files = {{"x", "", 1, 1, 5 * kSecond, 5 * kSecond},
                                        {"y", "", 1, 1, 5 * kSecond, 6 * kSecond}};
  EXPECT_TRUE(MayChangeUnseen(files, 7 * kSecond));
  EXPECT_TRUE(MayChangeUnseen(files, 0)) << "another machine's clock";
  EXPECT_FALSE(MayChangeUnseen(files, 9 * kSecond));
  EXPECT_FALSE(MayChangeUnseen({}, 0));
}

TEST(KeptHash, WhatIsNoHashIsNotTaken) {
  const Files files;
  const std::string hash(64, 'a'), folder = files.root() + "/new/hashes";
  EXPECT_EQ(FindKeptHash(folder, "k"), std::nullopt);
  ASSERT_EQ(KeepHash(folder, "k", hash, "2 files" + std::string(9000, '!')), absl::OkStatus());
  EXPECT_EQ(FindKeptHash(folder, "k"), hash);
  for (const std::string& content :
       {std::string(), hash, hash.substr(1) + "\n", hash + "a\n", std::string(64, 'A') + "\n",
        hash + "\n" + std::string(5000, 'x')}) {
    files.Write("new/hashes/k", content);
    EXPECT_EQ(FindKeptHash(folder, "k"), std::nullopt) << content.substr(0, 70);
  }
}

class GivenHash : public testing::Test {
 protected:
  GivenHash() : path_(files_.Write("d/x.npy", Npy("<i4", {2}, "12345678"))) {}

  // {hash, whether it was kept}
  std::pair<std::string, bool> Give(bool finds, int64_t after = 10 * kSecond,
                                    const std::string& decoder = "") {
    const DataSpec data{.paths = {files_.root() + "/d"}, .format = DataFormat::kNumpy};
    absl::StatusOr<OpenedData> opened = OpenStoredData(data);
    if (!opened.ok()) return {std::string(opened.status().message()), false};
    opened->stored.decoder = decoder;
    uint64_t last = 0, whole = 0;
    const auto was_kept = GiveHash(*opened, data,
                                   {.finds = finds,
                                    .keeps = true,
                                    .folder = files_.root() + "/hashes",
                                    .now = absl::GetCurrentTimeNanos() + after,
                                    .told = [&](uint64_t bytes, uint64_t all) {
                                      last = bytes;
                                      whole = all;
                                    }});
    EXPECT_TRUE(was_kept.ok()) << was_kept.status();
    EXPECT_EQ(last, whole);
    EXPECT_EQ(whole, *was_kept ? 0u : 8u);
    return {opened->stored.set->ContentHash(), *was_kept};
  }

  const Files files_;
  const std::string path_;
};

TEST_F(GivenHash, IsTheKeptOneWhereNothingHasChanged) {
  const auto [hash, first_was_kept] = Give(true);
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_FALSE(first_was_kept);
  EXPECT_EQ(Give(true), std::pair(hash, true));
  EXPECT_EQ(Give(false), std::pair(hash, false)) << "all is read where that is asked for";
}

TEST_F(GivenHash, NoticesAFileOfTheSameSizeAndTimeOfModification) {
  const std::string hash = Give(true).first;
  struct stat before {};
  ASSERT_EQ(stat(path_.c_str(), &before), 0);
  files_.Write("d/x.npy", Npy("<i4", {2}, "1234567!"));
  const timespec times[] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  const auto [other, was_kept] = Give(true);
  EXPECT_NE(other, hash);
  EXPECT_FALSE(was_kept);
}

// What was read for it can be compared with a copy that took the file's place; of a kept one
// nothing was read.
TEST_F(GivenHash, OfAKeptOneAFileThatMayHaveBeenReplacedIsNotReadOn) {
  const DataSpec data{.paths = {path_}, .format = DataFormat::kNumpy};
  const auto given = [&](bool was_kept) {
    absl::StatusOr<OpenedData> opened = OpenStoredData(data);
    EXPECT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(GiveHash(*opened, data,
                       {.finds = was_kept,
                        .keeps = true,
                        .folder = files_.root() + "/hashes",
                        .now = absl::GetCurrentTimeNanos() + 10 * kSecond})
                  .value_or(!was_kept),
              was_kept);
    return *std::move(opened);
  };
  const OpenedData computed = given(false), kept = given(true);
  const auto read = [](const OpenedData& opened) {
    return opened.stored.set->Read(0, std::vector<uint64_t>{1}).status();
  };
  EXPECT_TRUE(read(computed).ok() && read(kept).ok());
  namespace fs = std::filesystem;
  fs::copy_file(path_, path_ + ".new");
  fs::last_write_time(path_ + ".new", fs::last_write_time(path_));
  fs::rename(path_ + ".new", path_);
  EXPECT_TRUE(read(computed).ok()) << read(computed);
  EXPECT_TRUE(absl::IsDataLoss(read(kept))) << read(kept);
  EXPECT_THAT(std::string(read(kept).message()),
              testing::HasSubstr(path_ + ": it may have been replaced since the job began"));
}

TEST_F(GivenHash, IsNotKeptOfAFileThatMayChangeUnseen) {
  Give(true, 0);
  EXPECT_FALSE(Give(true, 0).second);
}

TEST_F(GivenHash, IsNotTheKeptOneOfAnotherDecoder) {
  for (const std::string decoder : {"", "libhdf5 1", "libhdf5 2"}) {
    EXPECT_FALSE(Give(true, 10 * kSecond, decoder).second) << decoder;
    EXPECT_TRUE(Give(true, 10 * kSecond, decoder).second) << decoder;
  }
}

// The numbers of its names are those of other files.
TEST_F(GivenHash, OfFilesToMeasureWithIsNotTheKeptOneOfOtherNames) {
  const std::string trained = files_.Write("train.csv", "x,y\n1,b\n1,c\n");
  const DataSpec data{.paths = {files_.Write("v.csv", "x,y\n1,c\n")},
                      .format = DataFormat::kCsv,
                      .label = "y",
                      .classes = {"y"}};
  const auto give = [&] {
    absl::StatusOr<OpenedData> opened = OpenStoredData(data, {trained});
    EXPECT_TRUE(opened.ok()) << opened.status();
    const auto was_kept = GiveHash(*opened, data,
                                   {.finds = true,
                                    .keeps = true,
                                    .folder = files_.root() + "/hashes",
                                    .now = absl::GetCurrentTimeNanos() + 10 * kSecond});
    EXPECT_TRUE(was_kept.ok()) << was_kept.status();
    return std::pair(opened->stored.set->ContentHash(), *was_kept);
  };
  const std::string hash = give().first;
  EXPECT_EQ(give(), std::pair(hash, true));
  files_.Write("train.csv", "x,y\n1,a\n1,b\n1,c\n");
  const auto [other, was_kept] = give();
  EXPECT_NE(other, hash);
  EXPECT_FALSE(was_kept);
}

TEST_F(GivenHash, NoticesAFileMoreAndOneLess) {
  const std::string hash = Give(true).first;
  const std::string more = files_.Write("d/y.npy", Npy("<i4", {2}, "12345678"));
  std::filesystem::remove(path_);
  EXPECT_NE(Give(true).first, hash);
  EXPECT_FALSE(Give(true).first == hash);
}

}  // namespace
}  // namespace muster
