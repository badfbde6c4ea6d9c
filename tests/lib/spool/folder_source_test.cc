#include "lib/spool/runtime/folder_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/lib/spool/spooled.h"

namespace muster {
namespace {

using testing::HasSubstr;

constexpr Duration kNoWait = Duration::zero();

// A source that is read from a place on, as text.
class Reading {
 public:
  explicit Reading(const std::string& folder, const StreamPlace& place = {}, uint64_t bytes = 3)
      : source_(MakeFolderSource(folder, bytes)) {
    EXPECT_TRUE(source_->Start(0, place).ok());
    place_ = place;
  }

  // Up to so many, as far as they are there.
  std::string Take(uint64_t most = 1000) {
    std::string samples;
    while (most > 0) {
      const absl::StatusOr<SamplesCame> came = source_->Take(most, kNoWait, samples);
      status_ = came.status();
      if (!came.ok()) break;
      place_ = came->place;
      most -= came->count;
      ended_ = came->end;
      if (came->count == 0) break;
    }
    return samples;
  }
  const absl::Status& status() const { return status_; }
  const StreamPlace& place() const { return place_; }
  bool ended() const { return ended_; }
  StreamSource& source() { return *source_; }

 private:
  const std::unique_ptr<StreamSource> source_;
  absl::Status status_;
  StreamPlace place_;
  bool ended_ = false;
};

TEST(FolderSource, TakesFilesInTheirOrderAndGoesOnFromAnyPlace) {
  const Folder folder;
  folder.Put("b", "DDDEEE");
  folder.Put("a", "AAABBBCCC");
  folder.Put("c", "");
  folder.Put(".hidden", "xx");
  folder.Put("d", "FFF");
  folder.Put("END", "");
  const std::string all = "AAABBBCCCDDDEEEFFF";
  for (uint64_t count = 0; count <= 6; ++count) {
    Reading first(folder.path());
    const std::string before = first.Take(count);
    EXPECT_EQ(before, all.substr(0, 3 * count));
    EXPECT_FALSE(first.ended());
    Reading next(folder.path(), first.place());
    EXPECT_EQ(before + next.Take(), all) << next.status();
    EXPECT_TRUE(next.ended());
  }
}

TEST(FolderSource, WaitsForFilesAndForTheEnd) {
  const Folder folder;
  Reading reading(folder.path());
  EXPECT_EQ(reading.Take(), "");
  folder.Put("a", "AAA");
  EXPECT_EQ(reading.Take(), "AAA");
  EXPECT_EQ(reading.Take(), "");
  folder.Put("b", "BBB");
  EXPECT_EQ(reading.Take(), "BBB");
  EXPECT_FALSE(reading.ended());
  // Those that were taken may go.
  std::filesystem::remove(folder / "a");
  std::filesystem::remove(folder / "b");
  folder.Put("END", "");
  EXPECT_EQ(reading.Take(), "");
  EXPECT_TRUE(reading.ended());
}

// Samples may be in it.
TEST(FolderSource, AnEndThatIsNotEmptyIsNamed) {
  const Folder folder;
  folder.Put("a", "AAA");
  folder.Put("END", "BBB");
  Reading reading(folder.path());
  EXPECT_EQ(reading.Take(), "AAA");
  EXPECT_FALSE(reading.ended());
  EXPECT_EQ(reading.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(reading.status().message()),
              HasSubstr("/END: it has 3 bytes, and an empty file of this name ends the stream"));
}

TEST(FolderSource, SomebodyWhoWaitsIsWoken) {
  const Folder folder;
  Reading reading(folder.path());
  std::string samples;
  std::thread waker([&] { reading.source().Wake(); });
  // An hour, if nobody woke it; and no longer than it asks the folder anyway.
  EXPECT_TRUE(reading.source().Take(1, std::chrono::hours(1), samples).ok());
  waker.join();
}

TEST(FolderSource, AFileThatEndsWithinASampleIsNamed) {
  const Folder folder;
  folder.Put("a", "AAA");
  folder.Put("b", "BBBB");
  Reading reading(folder.path());
  EXPECT_EQ(reading.Take(), "AAA");
  EXPECT_TRUE(absl::IsDataLoss(reading.status()));
  EXPECT_THAT(reading.status().message(), HasSubstr(folder / "b: it has 4 bytes"));
}

TEST(FolderSource, ALateFileIsNamed) {
  const Folder folder;
  folder.Put("b", "BBB");
  Reading reading(folder.path());
  EXPECT_EQ(reading.Take(), "BBB");
  folder.Put("a", "AAA");
  EXPECT_EQ(reading.Take(), "");
  EXPECT_TRUE(absl::IsDataLoss(reading.status()));
  EXPECT_THAT(reading.status().message(), HasSubstr(folder / "a: it came after 'b' was taken"));
}

// Nobody who lives has seen that it was not there before.
TEST(FolderSource, AFileThatIsLateForTheNextReaderIsNamed) {
  const Folder folder;
  folder.Put("a", "AAA");
  folder.Put("c", "CCC");
  Reading first(folder.path());
  EXPECT_EQ(first.Take(), "AAACCC");
  {
    Reading next(folder.path(), first.place());
    EXPECT_EQ(next.Take(), "");
    EXPECT_TRUE(next.status().ok()) << next.status();
  }
  // The clock of file systems ticks some hundred times a second.
  for (int64_t changed = 0; changed <= first.place().seen;) {
    folder.Put("b", "BBB");
    struct stat found {};
    ASSERT_EQ(stat((folder / "b").c_str(), &found), 0);
    changed = found.st_ctim.tv_sec * 1'000'000'000 + found.st_ctim.tv_nsec;
  }
  Reading next(folder.path(), first.place());
  EXPECT_EQ(next.Take(), "");
  EXPECT_TRUE(absl::IsDataLoss(next.status()));
  EXPECT_THAT(next.status().message(), HasSubstr(folder / "b: it has come, or was changed, after"));
}

TEST(FolderSource, AFileThatIsChangedWhileItIsTakenIsNamed) {
  struct Case {
    const char* what;
    std::function<void(const std::string& path)> change;
    const char* said;
  };
  const Case kCases[] = {
      {"longer", [](const std::string& path) { std::ofstream(path, std::ios::app) << "DDD"; },
       ": it was changed while it was taken, at byte 3"},
      {"shorter", [](const std::string& path) { std::filesystem::resize_file(path, 6); },
       ": it was changed while it was taken, at byte 3"},
      {"another",
       [](const std::string& path) {
         std::ofstream(path + ".new") << "XXXYYYZZZ";
         std::filesystem::rename(path + ".new", path);
       },
       ": it was changed while it was taken, at byte 3"},
      {"removed", [](const std::string& path) { std::filesystem::remove(path); },
       ": it was removed when 1 of its 3 samples were taken"},
  };
  for (const Case& change : kCases) {
    SCOPED_TRACE(change.what);
    const Folder folder;
    folder.Put("a", "AAABBBCCC");
    Reading first(folder.path());
    EXPECT_EQ(first.Take(1), "AAA");
    change.change(folder / "a");
    EXPECT_EQ(first.Take(), "");
    Reading next(folder.path(), first.place());
    EXPECT_EQ(next.Take(), "");
    for (const absl::Status& status : {first.status(), next.status()}) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(status.message(), HasSubstr((folder / "a") + change.said));
    }
  }
}

TEST(FolderSource, WhatIsNoFileIsNamed) {
  for (const char* kind : {"directory", "link", "pipe"}) {
    const Folder folder;
    const std::string path = folder / "a";
    if (kind == std::string("directory")) std::filesystem::create_directory(path);
    if (kind == std::string("link")) std::filesystem::create_symlink("/etc/passwd", path);
    if (kind == std::string("pipe")) {
      ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    }
    Reading reading(folder.path());
    EXPECT_EQ(reading.Take(), "");
    EXPECT_TRUE(absl::IsDataLoss(reading.status())) << kind << reading.status();
    EXPECT_THAT(reading.status().message(), HasSubstr(path + ": it is no file")) << kind;
  }
}

// Nobody would make a folder of it while the job waits.
TEST(FolderSource, AFileInPlaceOfTheFolderIsNamed) {
  const Folder folder;
  folder.Put("a", "AAA");
  Reading reading(folder / "a");
  EXPECT_EQ(reading.Take(), "");
  EXPECT_TRUE(absl::IsFailedPrecondition(reading.status())) << reading.status();
  EXPECT_THAT(std::string(reading.status().message()),
              HasSubstr(absl::StrCat("data.stream.path: ", folder / "a", " is no folder")));
}

TEST(FolderSource, AFolderThatIsAwayMayComeBack) {
  const Folder folder;
  Reading reading(folder / "later");
  EXPECT_EQ(reading.Take(), "");
  EXPECT_TRUE(absl::IsNotFound(reading.status())) << reading.status();
  std::filesystem::create_directory(folder / "later");
  folder.Put("later/a", "AAA");
  ASSERT_TRUE(reading.source().Start(0, {}).ok());
  EXPECT_EQ(reading.Take(), "AAA");
}

}  // namespace
}  // namespace muster
