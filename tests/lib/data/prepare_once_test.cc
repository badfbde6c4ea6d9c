#include "lib/data/prepare_once.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/file_lock.h"
#include "lib/base/whole_file.h"
#include "lib/data/prepared_name.h"
#include "lib/data/so_far_file.h"
#include "tests/lib/data/halfway.h"
#include "tests/lib/data/opened_set.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

using Progress = std::function<void(double, const std::string&)>;

std::vector<std::string> Listed(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class PrepareOnceTest : public testing::Test {
 protected:
  PrepareOnceTest() : folders_(files_.root() + "/cache/prepared") {}

  PrepareOnceOptions Options(const std::string& name = "a") {
    PrepareOnceOptions options;
    options.folders = folders_;
    options.name = name;
    options.about = "a test";
    options.make = [this](const std::string& files, const Progress&) {
      ++made_;
      std::ofstream(files + "/x") << "made of bytes";
      fs::create_directory(files + "/below");
      std::ofstream(files + "/below/y") << "more";
      return absl::OkStatus();
    };
    return options;
  }
  // A kept hash is taken where no file has changed; so late that none could change unseen.
  PrepareOnceOptions Trusting() {
    PrepareOnceOptions options = Options();
    options.verifies = false;
    options.now += int64_t{3600} * 1'000'000'000;
    return options;
  }
  PreparedPtr Prepared(const PrepareOnceOptions& options) {
    absl::StatusOr<PreparedPtr> prepared = PrepareOnce(options);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? *std::move(prepared) : nullptr;
  }

  const Files files_;
  const std::string folders_;
  int made_ = 0;
};

TEST_F(PrepareOnceTest, IsMadeOnceAndFoundFromThenOn) {
  const PreparedPtr first = Prepared(Options()), second = Prepared(Options());
  EXPECT_EQ(made_, 1);
  EXPECT_FALSE(first->was_there());
  EXPECT_TRUE(second->was_there());
  EXPECT_EQ(first->hash(), second->hash());
  EXPECT_EQ(first->files(), second->files());
  EXPECT_EQ(*ReadWholeFile(second->files() + "/below/y"), "more");
  EXPECT_THAT(Listed(folders_), ElementsAre("a", "a.lock"));
  Prepared(Options("b"));
  EXPECT_EQ(made_, 2) << "another name is other work";
}

TEST_F(PrepareOnceTest, TheHashIsOfNamesAndBytesAndOfNothingElse) {
  std::set<std::string> hashes;
  const auto add = [&](const std::string& name, const std::string& file,
                       const std::string& content) {
    PrepareOnceOptions options = Options(name);
    options.make = [&](const std::string& files, const Progress&) {
      fs::create_directories(fs::path(files + "/" + file).parent_path());
      std::ofstream(files + "/" + file) << content;
      return absl::OkStatus();
    };
    hashes.insert(Prepared(options)->hash());
    return hashes.size();
  };
  EXPECT_EQ(add("a", "x", "1"), 1u);
  EXPECT_EQ(add("b", "x", "1"), 1u) << "made at another time and place";
  EXPECT_EQ(add("c", "x", "2"), 2u);
  EXPECT_EQ(add("d", "y", "1"), 3u);
  EXPECT_EQ(add("e", "x/y", "1"), 4u);
  EXPECT_EQ(add("f", "x", ""), 5u);
}

TEST_F(PrepareOnceTest, WhatFailsLeavesNothingBehindAndIsTriedAnew) {
  PrepareOnceOptions options = Options();
  struct Row {
    const char* what;
    std::function<absl::Status(const std::string& files)> make;
    absl::StatusCode code;
    const char* says;
  };
  const Row rows[] = {
      {"an error",
       [](const std::string& files) {
         std::ofstream(files + "/half") << "of it";
         return absl::DataLossError("rows.csv: line 7 is none");
       },
       absl::StatusCode::kDataLoss, "rows.csv: line 7 is none"},
      {"nothing", [](const std::string&) { return absl::OkStatus(); },
       absl::StatusCode::kFailedPrecondition, "it has left its folder empty"},
      {"folders alone",
       [](const std::string& files) {
         fs::create_directories(files + "/a/b");
         return absl::OkStatus();
       },
       absl::StatusCode::kFailedPrecondition, "it has left its folder empty"},
      {"a link",
       [](const std::string& files) {
         fs::create_symlink("/etc", files + "/etc");
         return absl::OkStatus();
       },
       absl::StatusCode::kFailedPrecondition, "'etc' is neither a file nor a folder"},
      {"no bottom",
       [](const std::string& files) {
         std::string at = files;
         for (int i = 0; i < 70; ++i) fs::create_directory(at += "/d");
         return absl::OkStatus();
       },
       absl::StatusCode::kFailedPrecondition, "folders deep"},
  };
  for (const Row& row : rows) {
    options.make = [&](const std::string& files, const Progress&) { return row.make(files); };
    const auto prepared = PrepareOnce(options);
    EXPECT_EQ(prepared.status().code(), row.code) << row.what << ": " << prepared.status();
    EXPECT_THAT(std::string(prepared.status().message()), HasSubstr(row.says)) << row.what;
    EXPECT_THAT(Listed(folders_), IsEmpty()) << row.what;
  }
  EXPECT_NE(Prepared(Options()), nullptr);
}

TEST_F(PrepareOnceTest, AFileInThePlaceOfTheCacheIsNamed) {
  PrepareOnceOptions options = Options();
  options.folders = files_.Write("file", "") + "/prepared";
  const auto prepared = PrepareOnce(options);
  EXPECT_FALSE(prepared.ok());
  EXPECT_THAT(std::string(prepared.status().message()), HasSubstr("make directory '"));
}

TEST_F(PrepareOnceTest, WhatHasChangedSinceIsMadeAnew) {
  const std::string file = Prepared(Options())->files() + "/x";
  std::ofstream(file, std::ios::app) << "!";
  EXPECT_FALSE(Prepared(Options())->was_there());
  EXPECT_EQ(*ReadWholeFile(file), "made of bytes");
  fs::remove(folders_ + "/a/hash");
  EXPECT_FALSE(Prepared(Trusting())->was_there());
  EXPECT_EQ(made_, 3);
}

// Another hash in its place tells whether bytes were read.
TEST_F(PrepareOnceTest, AKeptHashIsTakenOnceFilesCannotChangeUnseenAnyMore) {
  const std::string hash = Prepared(Options())->hash(), kept = folders_ + "/a/hash";
  const auto keep_another = [&] { std::ofstream(kept) << std::string(64, 'f') << "\n\n"; };
  PrepareOnceOptions at_once = Options();
  at_once.verifies = false;
  EXPECT_TRUE(Prepared(at_once)->was_there());
  keep_another();
  EXPECT_FALSE(Prepared(at_once)->was_there()) << "it might have changed unseen";
  EXPECT_EQ(made_, 2);
  EXPECT_TRUE(Prepared(Trusting())->was_there()) << "all is read once more, and kept";
  keep_another();
  EXPECT_EQ(Prepared(Trusting())->hash(), std::string(64, 'f')) << "nothing is read";
  EXPECT_EQ(Prepared(Options())->hash(), hash) << "all is read";
  EXPECT_EQ(made_, 3);
}

TEST_F(PrepareOnceTest, AnyFileThatHasChangedIsReadAgainAlsoWhereBytesAreTrusted) {
  struct Row {
    const char* what;
    std::function<void(const std::string& files)> change;
    bool other_bytes = true;
  };
  const auto set_back = [](const std::string& file, const FileStamp& to) {
    const timespec time{.tv_sec = to.modified / 1'000'000'000,
                        .tv_nsec = to.modified % 1'000'000'000};
    const timespec times[] = {time, time};
    ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  const Row rows[] = {
      {"cut off", [](const std::string& files) { fs::resize_file(files + "/x", 4); }},
      {"other bytes, as many, at the same time",
       [&](const std::string& files) {
         const std::string file = files + "/x";
         const FileStamp before = *StampOf(file, "x");
         // The clock of a file system ticks.
         while (StampOf(file, "x")->changed == before.changed) {
           std::ofstream(file) << "bytes of made";
           set_back(file, before);
         }
       }},
      {"another file in its place",
       [&](const std::string& files) {
         const FileStamp before = *StampOf(files + "/x", "x");
         std::ofstream(files + "/z") << "bytes of made";
         set_back(files + "/z", before);
         fs::rename(files + "/z", files + "/x");
       }},
      {"deleted", [](const std::string& files) { fs::remove(files + "/below/y"); }},
      {"one more", [](const std::string& files) { std::ofstream(files + "/below/z") << "z"; }},
      {"one more folder", [](const std::string& files) { fs::create_directory(files + "/z"); }},
      {"a link", [](const std::string& files) { fs::create_symlink("x", files + "/z"); }},
      {"the same bytes, written again",
       [](const std::string& files) {
         std::ofstream(files + "/z") << "made of bytes";
         fs::rename(files + "/z", files + "/x");
       },
       false},
  };
  const std::string hash = Prepared(Trusting())->hash();
  for (const Row& row : rows) {
    // What the system says of its files is kept from here on.
    ASSERT_TRUE(Prepared(Trusting())->was_there()) << row.what;
    row.change(folders_ + "/a/files");
    const PreparedPtr after = Prepared(Trusting());
    EXPECT_EQ(after->was_there(), !row.other_bytes) << row.what;
    EXPECT_EQ(after->hash(), hash) << row.what;
  }
}

TEST_F(PrepareOnceTest, WhatHasChangedAndIsInUseIsNotTakenAway) {
  const PreparedPtr used = Prepared(Options());
  std::ofstream(used->files() + "/x", std::ios::app) << "!";
  const auto again = PrepareOnce(Options());
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("has changed since, and is in use"));
  EXPECT_TRUE(fs::exists(used->files() + "/x"));
}

// A process that prepares, has half of it, says so, and goes on no more.
class PreparesHalf : public Halfway {
 public:
  explicit PreparesHalf(PrepareOnceOptions options)
      : Halfway([&](const std::function<void()>& stop) {
          options.make = [&](const std::string& files, const Progress& progress) -> absl::Status {
            std::ofstream(files + "/half") << "of it";
            progress(0.5, "half\tof \x1b[31mit");
            stop();
            return absl::OkStatus();
          };
          PrepareOnce(options).IgnoreError();
        }) {}
};

TEST_F(PrepareOnceTest, WhoeverWaitsSeesHowFarItIsAndBeginsAfreshWhereTheMakerIsKilled) {
  PreparesHalf maker(Options());
  const pid_t pid = maker.pid();
  EXPECT_TRUE(fs::exists(folders_ + "/a.making/files/half"));
  EXPECT_FALSE(fs::exists(folders_ + "/a"));
  PrepareOnceOptions waits = Options();
  std::vector<PreparedSoFar> told;
  waits.told = [&](const PreparedSoFar& so_far) {
    if (!so_far.is_ours) told.push_back(so_far);
    maker.Kill();
  };
  const PreparedPtr prepared = Prepared(waits);
  ASSERT_NE(prepared, nullptr);
  EXPECT_EQ(made_, 1);
  EXPECT_FALSE(prepared->was_there());
  ASSERT_FALSE(told.empty());
  EXPECT_EQ(told.front(), (PreparedSoFar{0.5, "half\tof \\x1b[31mit", pid, /*is_ours=*/false}));
  EXPECT_THAT(Listed(prepared->files()), ElementsAre("below", "x"))
      << "nothing is left of the half";
  EXPECT_THAT(Listed(folders_), ElementsAre("a", "a.lock"));
}

TEST_F(PrepareOnceTest, OneThatHasMadeItSaysNothingAnyMoreAndOneThatIsGoneIsNotNamed) {
  const PreparedPtr used = Prepared(Options());
  EXPECT_EQ(HeardAt(folders_ + "/a.lock"), (PreparedSoFar{.is_ours = false}));
  PreparesHalf maker(Options("b"));
  EXPECT_EQ(HeardAt(folders_ + "/b.lock").maker, maker.pid());
  maker.Kill();
  EXPECT_EQ(HeardAt(folders_ + "/b.lock").maker, 0);
}

TEST_F(PrepareOnceTest, WhoeverMakesItAnewSaysSoBeforeItTakesTheOldOneAway) {
  std::ofstream(Prepared(Options())->files() + "/x", std::ios::app) << "!";
  PrepareOnceOptions options = Options();
  bool was_told = false;
  options.told = [&](const PreparedSoFar&) {
    if (std::exchange(was_told, true)) return;
    EXPECT_EQ(HeardAt(folders_ + "/a.lock").maker, getpid());
    EXPECT_TRUE(fs::exists(folders_ + "/a/files/x"));
  };
  EXPECT_FALSE(Prepared(options)->was_there());
  EXPECT_TRUE(was_told);
}

TEST_F(PrepareOnceTest, OurOwnWorkIsToldFromItsBegin) {
  PrepareOnceOptions options = Options();
  std::vector<PreparedSoFar> told;
  options.told = [&](const PreparedSoFar& so_far) { told.push_back(so_far); };
  options.make = [](const std::string& files, const Progress& progress) {
    for (int i = 0; i < 100'000; ++i) progress(i == 0 ? 0.5 : std::nan(""), "much");
    std::ofstream(files + "/x") << "x";
    return absl::OkStatus();
  };
  EXPECT_NE(Prepared(options), nullptr);
  ASSERT_GE(told.size(), 2u);
  EXPECT_EQ(told[0], (PreparedSoFar{.maker = getpid()}));
  EXPECT_EQ(told[1], (PreparedSoFar{0.5, "much", getpid()}));
  EXPECT_LT(told.size(), 1000u) << "not each word is passed on";
}

TEST_F(PrepareOnceTest, WaitingEndsWhereItIsOfNoUse) {
  const PreparesHalf maker(Options());
  PrepareOnceOptions waits = Options();
  waits.may_wait = [] { return false; };
  EXPECT_EQ(PrepareOnce(waits).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(made_, 0);
}

TEST_F(PrepareOnceTest, WhatAKilledMakerOfAnotherHasLeftGoesWithTheNextWork) {
  PreparesHalf maker(Options("other"));
  Prepared(Options("a"));
  EXPECT_TRUE(fs::exists(folders_ + "/other.making")) << "it is at work";
  maker.Kill();
  Prepared(Options("b"));
  EXPECT_THAT(Listed(folders_), ElementsAre("a", "a.lock", "b", "b.lock"));
}

// By the times of their locks.
TEST_F(PrepareOnceTest, ThoseThatWereNotUsedForLongestGoUnlessTheyAreUsedNow) {
  const PreparedPtr used_now = Prepared(Options("0"));
  for (const char* name : {"1", "2", "3"}) Prepared(Options(name));
  int64_t when = 1000;
  for (const char* name : {"0", "2", "1", "3"}) {
    const timespec time{.tv_sec = when++, .tv_nsec = 0};
    const timespec times[] = {time, time};
    utimensat(AT_FDCWD, (folders_ + "/" + name + ".lock").c_str(), times, 0);
  }
  PrepareOnceOptions options = Options("4");
  options.keeps = 3;
  Prepared(options);
  EXPECT_THAT(Listed(folders_),
              ElementsAre("0", "0.lock", "1", "1.lock", "3", "3.lock", "4", "4.lock"));
  EXPECT_TRUE(fs::exists(used_now->files() + "/x"));
}

TEST(PreparedSoFar, IsReadBackAndWhatIsNoLineTellsNothing) {
  for (const PreparedSoFar& so_far :
       {PreparedSoFar{0.25, "merge 2 of 8", 17, false}, PreparedSoFar{0, "", 1, false},
        PreparedSoFar{1, "a b  c", 1 << 30, false}})
    EXPECT_EQ(SoFarOf(SoFarLine(so_far)), so_far) << SoFarLine(so_far);
  EXPECT_LE(SoFarLine({1, std::string(5000, 'x'), std::numeric_limits<int64_t>::max()}).size(),
            kSoFarBytes);
  for (const std::string& line :
       {std::string(), std::string("\n"), std::string(kSoFarBytes, '\0'), std::string("1 2 x"),
        std::string("1 nan x"), std::string("-1 0.5 x"), std::string("x 0.5 x"),
        std::string("1 0.5"), std::string(5000, '7')})
    EXPECT_EQ(SoFarOf(line), (PreparedSoFar{.is_ours = false})) << line.substr(0, 20);
  EXPECT_EQ(SoFarOf("7 0.5 " + std::string(5000, 'x')).what.size(), 160u);
}

TEST(PreparedSoFar, IsToldToPeople) {
  EXPECT_EQ(TextOf({0.426, "merge 84 of 200"}),
            "prepares what its task asks for: 42 %, merge 84 of 200");
  EXPECT_EQ(TextOf({1, ""}), "prepares what its task asks for: 100 %");
  EXPECT_EQ(TextOf({0.5, "half", 7, false}),
            "waits for process 7, which prepares the same: 50 %, half");
  EXPECT_EQ(TextOf({.is_ours = false}), "waits for another process, which prepares the same: 0 %");
}

TEST(PreparedName, IsOfAllThatMayMatter) {
  const std::function<void(PreparedOf&)> changes[] = {
      [](PreparedOf&) {},
      [](PreparedOf& of) { of.version = "2"; },
      [](PreparedOf& of) { of.task = "b"; },
      [](PreparedOf& of) { of.plugin = "b"; },
      [](PreparedOf& of) { of.content = "b"; },
      [](PreparedOf& of) { of.parameters["p"] = 2; },
      [](PreparedOf& of) { of.parameters["p"] = true; },
      [](PreparedOf& of) { of.parameters["p"] = "1"; },
      [](PreparedOf& of) { of.parameters["p"] = std::vector<double>{1}; },
      [](PreparedOf& of) { of.parameters["p"] = std::vector<std::string>{"1"}; },
      [](PreparedOf& of) { of.parameters["q"] = 1; },
      [](PreparedOf& of) { of.parameters.clear(); },
      [](PreparedOf& of) { of.data.format = DataFormat::kCsv; },
      [](PreparedOf& of) { of.data.max_bytes = 1; },
      [](PreparedOf& of) { of.data.samples = 1; },
      [](PreparedOf& of) { of.data.columns = {"a"}; },
      [](PreparedOf& of) { of.data.keys = {"a"}; },
      [](PreparedOf& of) { of.data.label = "a"; },
      [](PreparedOf& of) { of.data.classes = {"a"}; },
      [](PreparedOf& of) { of.data.header = false; },
      [](PreparedOf& of) { of.data.delimiter = ";"; },
      [](PreparedOf& of) { of.data.shape = {1}; },
      [](PreparedOf& of) {
        of.data.image_size = {1, 1};
      },
      [](PreparedOf& of) { of.data.fit = ImageFit::kStretch; },
      [](PreparedOf& of) { of.data.channels = 1; },
      [](PreparedOf& of) { of.data.mean = {1}; },
      [](PreparedOf& of) { of.data.deviation = {1}; },
      [](PreparedOf& of) { of.data.crop = 1; },
      [](PreparedOf& of) { of.data.flip = true; },
      [](PreparedOf& of) { of.data.validation_share = 0.5; },
      [](PreparedOf& of) { of.data.split_seed = 1; },
  };
  std::set<std::string> names;
  for (const auto& change : changes) {
    PreparedOf of{"1", "a", "a", {{"p", 1}}, {}, "a"};
    change(of);
    EXPECT_TRUE(names.insert(PreparedName(of)).second) << names.size();
  }
  PreparedOf of{"1", "a", "a", {{"p", 1}}, {}, "a"};
  of.data.paths = {"/elsewhere"};
  of.data.suffixes = {".x"};
  of.data.verify = VerifyData::kQuick;
  of.data.unreadable = Unreadable::kSkip;
  of.data.on_bad_sample = OnBadSample::kSkip;
  EXPECT_FALSE(names.insert(PreparedName(of)).second);
}

const auto kGoesOn = [](uint64_t, uint64_t) { return absl::OkStatus(); };

std::string ContentOf(const DataSpec& data) {
  const absl::StatusOr<DataContent> content = ContentOfData(data, "", kGoesOn);
  EXPECT_TRUE(content.ok()) << content.status();
  return content.ok() ? content->hash : "";
}

TEST(DataContent, IsOfBytesAndNamesWhereverTheyLie) {
  const Files files;
  for (const char* folder : {"a/", "b/"}) {
    files.Write(absl::StrCat(folder, "x"), "one");
    files.Write(absl::StrCat(folder, "y"), "two");
  }
  const std::string a = files.root() + "/a", b = files.root() + "/b";
  EXPECT_EQ(ContentOf({}), "");
  EXPECT_EQ(ContentOf({.paths = {a}}), ContentOf({.paths = {b}}));
  EXPECT_NE(ContentOf({.paths = {a}}), ContentOf({.paths = {a, b}}));
  EXPECT_NE(ContentOf({.paths = {a + "/x"}}), ContentOf({.paths = {a}}));
  files.Write("b/y", "twO");
  EXPECT_NE(ContentOf({.paths = {a}}), ContentOf({.paths = {b}}));
  // As much of it as a task sees.
  EXPECT_EQ(ContentOf({.paths = {a}, .max_bytes = 3}), ContentOf({.paths = {b}, .max_bytes = 3}));
  const DataSpec csv{.paths = {files.Write("rows.csv", "1,2\n3,4\n")},
                     .format = DataFormat::kCsv,
                     .header = false};
  const absl::StatusOr<DataContent> rows = ContentOfData(csv, "", kGoesOn);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->hash, Opened(csv)->ContentHash());
  EXPECT_EQ(rows->files.size(), 1u);
}

TEST(DataContent, IsKeptAndEndsWhereItIsToldTo) {
  const Files files;
  const std::string text = files.Write("x", "one"), kept = files.root() + "/hashes";
  const timespec times[] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, text.c_str(), times, 0), 0);
  const DataSpec data{.paths = {text}};
  const absl::StatusOr<DataContent> content = ContentOfData(data, "", kGoesOn);
  ASSERT_TRUE(content.ok()) << content.status();
  // As if computed long after the file was written.
  ASSERT_TRUE(KeepHash(kept, KeptHashKey(data, content->files, "files of text, one by one"),
                       std::string(64, '7'), "kept")
                  .ok());
  const auto ends = [](uint64_t bytes, uint64_t all) {
    return absl::CancelledError(absl::StrCat(bytes, " of ", all));
  };
  EXPECT_EQ(ContentOfData(data, kept, ends)->hash, std::string(64, '7'));
  EXPECT_EQ(ContentOfData(data, "", ends).status(), absl::CancelledError("3 of 3"));
}

TEST(DataContent, AFileThatChangesMeanwhileIsNoticed) {
  const Files files;
  const std::string text = files.Write("x", "one");
  const absl::StatusOr<DataContent> content = ContentOfData({.paths = {text}}, "", kGoesOn);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(CheckUnchanged(content->files).ok());
  files.Write("x", "longer");
  const absl::Status changed = CheckUnchanged(content->files);
  EXPECT_TRUE(absl::IsDataLoss(changed));
  EXPECT_THAT(std::string(changed.message()), HasSubstr(text + " has changed while"));
}

}  // namespace
}  // namespace muster
