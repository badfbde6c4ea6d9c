#include "lib/base/output_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kWrittenNow[] =
    "is written by another command now; wait for it to end, or name another";

class OutputFile : public ::testing::Test {
 protected:
  OutputFile() {
    if (mkdtemp(folder_.data()) == nullptr) std::abort();
  }
  ~OutputFile() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }
  // Of the one way to write as of the other, and of the check.
  void ExpectRefused(const std::string& path, const std::string& why) const {
    SCOPED_TRACE(path);
    const auto write = [](const std::string&) { return absl::InternalError("it is written"); };
    for (const absl::Status& status :
         {CheckOutputFile(path), WriteOutputFile(path, "new"), WriteOutputFileBy(path, write)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
      EXPECT_EQ(std::string(status.message()), absl::StrCat("--output: '", path, "' ", why));
    }
  }

  std::string folder_ = ::testing::TempDir() + "/output-XXXXXX";
};

TEST_F(OutputFile, TakesThePlaceOfTheFileThatIsThere) {
  const std::string path = Path("loss.svg");
  EXPECT_EQ(WriteOutputFile(path, "one"), absl::OkStatus());
  EXPECT_EQ(WriteOutputFile(path, "two"), absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path).value(), "two");
  EXPECT_EQ(WriteOutputFileBy(path,
                              [](const std::string& temporary) {
                                std::ofstream(temporary) << "three";
                                return absl::OkStatus();
                              }),
            absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path).value(), "three");
  EXPECT_THAT(Files(), UnorderedElementsAre("loss.svg"));
}

// It became a file of its own, and what it led to stayed as it was.
TEST_F(OutputFile, ASymbolicLinkStaysOneAndItsFileIsReplaced) {
  fs::create_directory(Path("real"));
  std::ofstream(Path("real/loss.svg")) << "old";
  fs::create_symlink("real/loss.svg", Path("link.svg"));
  EXPECT_EQ(WriteOutputFile(Path("link.svg"), "new"), absl::OkStatus());
  EXPECT_TRUE(fs::is_symlink(Path("link.svg")));
  EXPECT_EQ(ReadWholeFile(Path("real/loss.svg")).value(), "new");
  EXPECT_THAT(Files(), UnorderedElementsAre("link.svg", "real"));
}

TEST_F(OutputFile, WhatIsNoFileIsRefusedAndStays) {
  fs::create_directory(Path("dir.svg"));
  ASSERT_EQ(mkfifo(Path("pipe.svg").c_str(), 0600), 0);
  fs::create_symlink("pipe.svg", Path("to-pipe.svg"));
  fs::create_symlink("nowhere", Path("dangling.svg"));
  const std::string no_file = "is no file; name one, which is replaced if it is there";
  ExpectRefused(Path("dir.svg"), "is a folder, and no file; name one");
  ExpectRefused(Path("pipe.svg"), no_file);
  ExpectRefused(Path("to-pipe.svg"), no_file);
  ExpectRefused("/dev/null", no_file);
  ExpectRefused(Path("dangling.svg"),
                "is a symbolic link that leads to no file; remove it, or name another file");
  ExpectRefused(Path("dir.svg/"), "is the name of a folder; name a file in it");
  ExpectRefused("-", "stands for no output here; name a file");
  EXPECT_EQ(CheckOutputFile("").message(), "--output: it is empty; name a file");
  EXPECT_TRUE(fs::is_fifo(Path("pipe.svg")));
  EXPECT_TRUE(fs::is_symlink(Path("to-pipe.svg")));
  EXPECT_THAT(Files(), UnorderedElementsAre("dir.svg", "pipe.svg", "to-pipe.svg", "dangling.svg"));
}

TEST_F(OutputFile, AFolderThatIsMissingOrNoneIsNamed) {
  std::ofstream(Path("file")) << "theirs";
  ExpectRefused(Path("none/x.svg"),
                absl::StrCat("cannot be made: there is no folder '", Path("none"),
                             "'; make it, or name another place"));
  ExpectRefused(Path("file/x.svg"), absl::StrCat("cannot be made: '", Path("file"),
                                                 "' is no folder; name another place"));
  EXPECT_EQ(ReadWholeFile(Path("file")).value(), "theirs");
}

TEST_F(OutputFile, AFolderThatThisUserMayNotWriteIsNamed) {
  ASSERT_EQ(chmod(folder_.c_str(), 0555), 0);
  // From within, since those around it may be shut to others.
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const bool writes_all = geteuid() == 0;
  ASSERT_TRUE(!writes_all || seteuid(65534) == 0);
  const absl::Cleanup back = [&] {
    if (writes_all && seteuid(0) != 0) std::abort();
    fs::current_path(before);
    chmod(folder_.c_str(), 0755);
  };
  ExpectRefused("x.svg",
                "cannot be made: '.' cannot be written (Permission denied); name another place");
}

TEST_F(OutputFile, ANameMayBeAsLongAsTheSystemTakesIt) {
  for (const size_t length : {247u, 248u, 253u, 255u}) {
    const std::string path = Path(std::string(length - 4, 'x') + ".svg");
    EXPECT_EQ(WriteOutputFile(path, "new"), absl::OkStatus()) << length;
    EXPECT_EQ(ReadWholeFile(path).value(), "new");
    fs::remove(path);
  }
  const absl::Status refused = WriteOutputFile(Path(std::string(256, 'x')), "new");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("longer than a name may be here"));
  EXPECT_THAT(Files(), UnorderedElementsAre());
  EXPECT_NE(TemporaryOf("a/" + std::string(255, 'x')), TemporaryOf("a/" + std::string(254, 'x')));
  EXPECT_EQ(TemporaryOf(std::string(254, 'x')).find('/'), std::string::npos);
}

// Whoever named the file reads of that one.
TEST_F(OutputFile, AnErrorOfWritingNamesTheFileAndKeepsItsCode) {
  const std::string path = Path("x.svg");
  const absl::Status full = WriteOutputFileBy(path, [](const std::string& temporary) {
    return absl::ResourceExhaustedError(absl::StrCat("write '", temporary, "': no space"));
  });
  EXPECT_EQ(full, absl::ResourceExhaustedError(absl::StrCat("write '", path, "': no space")));
  fs::create_directory(path + ".writing");
  const absl::Status other = CheckOutputFile(path);
  EXPECT_EQ(other.code(), absl::StatusCode::kFailedPrecondition) << other;
  EXPECT_THAT(std::string(other.message()), HasSubstr("something that is no file is there"));
}

// Both wrote into one temporary file: the one that ended later found it gone, and what the other
// had made was a mixture of two.
TEST_F(OutputFile, WhileACommandWritesAFileAnotherIsRefused) {
  const std::string path = Path("x.safetensors");
  std::ofstream(path) << "old";
  const absl::Status first = WriteOutputFileBy(path, [&](const std::string& temporary) {
    std::ofstream(temporary) << "first";
    ExpectRefused(path, kWrittenNow);
    return absl::OkStatus();
  });
  EXPECT_EQ(first, absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path).value(), "first");
  EXPECT_EQ(WriteOutputFile(path, "second"), absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path).value(), "second");
  EXPECT_THAT(Files(), UnorderedElementsAre("x.safetensors"));
}

TEST_F(OutputFile, WhileACommandWritesAFolderAnotherIsRefused) {
  const std::string path = Path("shards");
  const absl::Status first = WriteOutputFolderBy(path, [&](const std::string& temporary) {
    std::ofstream(temporary + "/a") << "first";
    const auto write = [](const std::string&) { return absl::InternalError("it is written"); };
    for (const absl::Status& other : {CheckOutputFolder(path), WriteOutputFolderBy(path, write)})
      EXPECT_EQ(other, absl::FailedPreconditionError(
                           absl::StrCat("--output: '", path, "' ", kWrittenNow)));
    return absl::OkStatus();
  });
  EXPECT_EQ(first, absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path + "/a").value(), "first");
  EXPECT_THAT(Files(), UnorderedElementsAre("shards"));
}

TEST_F(OutputFile, WhatACommandLeftThatWasKilledIsReplaced) {
  std::ofstream(Path("x.pt.writing")) << "much longer than what is new";
  EXPECT_EQ(WriteOutputFile(Path("x.pt"), "new"), absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(Path("x.pt")).value(), "new");
  fs::create_directory(Path("shards.writing"));
  std::ofstream(Path("shards.writing/old")) << "x";
  std::ofstream(Path("shards.writing.writing")) << "";
  EXPECT_EQ(WriteOutputFolderBy(Path("shards"),
                                [](const std::string& temporary) {
                                  std::ofstream(temporary + "/new") << "x";
                                  return absl::OkStatus();
                                }),
            absl::OkStatus());
  EXPECT_TRUE(fs::exists(Path("shards/new")));
  EXPECT_FALSE(fs::exists(Path("shards/old")));
  EXPECT_THAT(Files(), UnorderedElementsAre("x.pt", "shards"));
}

TEST_F(OutputFile, ASignalThatEndsTheCommandLeavesNothingHalfWritten) {
  const std::string path = Path("x.pt");
  std::ofstream(path) << "old";
  for (const int ends : {SIGINT, SIGTERM, SIGHUP}) {
    const auto end_half_way = [&] {
      signal(ends, SIG_DFL);
      (void)WriteOutputFileBy(path, [&](const std::string& temporary) {
        std::ofstream(temporary) << "half of";
        raise(ends);
        return absl::OkStatus();
      });
    };
    EXPECT_EXIT(end_half_way(), ::testing::KilledBySignal(ends), "");
    EXPECT_THAT(Files(), UnorderedElementsAre("x.pt"));
    EXPECT_EQ(ReadWholeFile(path).value(), "old");
  }
}

TEST_F(OutputFile, ASignalThatIsIgnoredStaysSoAndOthersEndAsBefore) {
  const std::string path = Path("x.pt");
  const auto hup_before = signal(SIGHUP, SIG_IGN), term_before = signal(SIGTERM, SIG_DFL);
  const absl::Cleanup back = [&] {
    signal(SIGHUP, hup_before);
    signal(SIGTERM, term_before);
  };
  EXPECT_EQ(WriteOutputFileBy(path,
                              [](const std::string& temporary) {
                                raise(SIGHUP);
                                std::ofstream(temporary) << "new";
                                return absl::OkStatus();
                              }),
            absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(path).value(), "new");
  EXPECT_EQ(signal(SIGTERM, SIG_DFL), SIG_DFL);
}

// Whoever has opened the temporary file just before it got its name has a lock on what is finished.
TEST_F(OutputFile, OfManyThatWriteAtOnceEachIsWholeOrRefused) {
  const std::string path = Path("x");
  constexpr size_t kBytes = 20'000;
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c'})
    threads.emplace_back([&path, letter] {
      for (int round = 0; round < 30; ++round) {
        const absl::Status status = WriteOutputFile(path, std::string(kBytes, letter));
        if (!status.ok()) {
          EXPECT_THAT(std::string(status.message()), HasSubstr(kWrittenNow));
          continue;
        }
        const std::string found = ReadWholeFile(path).value();
        EXPECT_EQ(found, std::string(kBytes, found.empty() ? letter : found[0]));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Files(), UnorderedElementsAre("x"));
}

TEST_F(OutputFile, AFolderIsNewAndWholeOrNotThere) {
  const auto fill = [](const std::string& temporary) {
    std::ofstream(temporary + "/a") << "x";
    return absl::OkStatus();
  };
  EXPECT_EQ(WriteOutputFolderBy(Path("new/shards"), fill), absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(Path("new/shards/a")).value(), "x");
  const absl::Status again = WriteOutputFolderBy(Path("new/shards"), fill);
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition) << again;
  EXPECT_THAT(std::string(again.message()), HasSubstr("is there already; remove it"));
  const absl::Status failed = WriteOutputFolderBy(Path("other"), [&](const std::string& temporary) {
    fill(temporary).IgnoreError();
    return absl::DataLossError(temporary);
  });
  EXPECT_EQ(failed, absl::DataLossError(Path("other")));
  EXPECT_THAT(Files(), UnorderedElementsAre("new"));
  const std::string longest(255, 'x');
  EXPECT_EQ(WriteOutputFolderBy(Path(longest), fill), absl::OkStatus());
  EXPECT_EQ(ReadWholeFile(Path(longest + "/a")).value(), "x");
}

TEST_F(OutputFile, AFolderCannotBeBelowAFileNorBeOne) {
  std::ofstream(Path("file")) << "theirs";
  fs::create_symlink("nowhere", Path("dangling"));
  for (const auto& check : {CheckOutputFolder, CheckFolderToFill}) {
    const absl::Status below = check(Path("file/a/b"));
    EXPECT_EQ(below.code(), absl::StatusCode::kFailedPrecondition) << below;
    EXPECT_THAT(std::string(below.message()), HasSubstr("file' is no folder"));
    EXPECT_FALSE(check(Path("file")).ok());
    EXPECT_FALSE(check(Path("dangling")).ok());
    EXPECT_FALSE(check("").ok());
    EXPECT_TRUE(check(Path("a/b/c")).ok());
  }
  EXPECT_FALSE(CheckOutputFolder(folder_).ok());
  EXPECT_TRUE(CheckFolderToFill(folder_).ok());
}

}  // namespace
}  // namespace muster
