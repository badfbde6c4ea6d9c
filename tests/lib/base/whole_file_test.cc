#include "lib/base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

// What this program syncs and renames, in order: "sync PATH", "rename FROM TO".
std::vector<std::string>& Calls() {
  static std::vector<std::string> calls;
  return calls;
}
int fail_sync_of_a_file_with = 0;  // errno

}  // namespace

// In the place of the C library's.
extern "C" int fsync(int fd) {
  const std::string path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd)).string();
  Calls().push_back("sync " + path);
  if (fail_sync_of_a_file_with != 0 && !std::filesystem::is_directory(path)) {
    errno = fail_sync_of_a_file_with;
    return -1;
  }
  return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  Calls().push_back("rename " + std::string(from) + " " + to);
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0U));
}

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WholeFile : public ::testing::Test {
 protected:
  WholeFile()
      : dir_(std::filesystem::canonical(::testing::TempDir()).string() + "/whole-file-" +
             std::to_string(getpid()) + "-" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(dir_);
    Calls().clear();
    fail_sync_of_a_file_with = 0;
  }
  ~WholeFile() override {
    fail_sync_of_a_file_with = 0;
    std::filesystem::remove_all(dir_);
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  const std::string dir_;
};

TEST_F(WholeFile, IsSyncedBeforeItGetsItsNameAndItsFolderAfterwards) {
  const std::string path = dir_ + "/job.json";
  const absl::Status written = ReplaceFile(path, "one");
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_THAT(Calls(), ElementsAre("sync " + path + ".writing",
                                   "rename " + path + ".writing " + path, "sync " + dir_));
  EXPECT_EQ(ReadWholeFile(path).value(), "one");
  ASSERT_TRUE(ReplaceFile(path, std::string(100'000, 'x')).ok());
  EXPECT_EQ(ReadWholeFile(path).value(), std::string(100'000, 'x'));
  EXPECT_THAT(Files(), ElementsAre("job.json"));
}

TEST_F(WholeFile, StaysAsItWasWhenTheNewOneCannotBeSynced) {
  const std::string path = dir_ + "/job.json";
  ASSERT_TRUE(ReplaceFile(path, "one").ok());
  fail_sync_of_a_file_with = EIO;
  const absl::Status io = ReplaceFile(path, "two");
  EXPECT_EQ(io.code(), absl::StatusCode::kUnavailable) << io;
  EXPECT_THAT(std::string(io.message()), HasSubstr(path));
  fail_sync_of_a_file_with = ENOSPC;
  EXPECT_EQ(ReplaceFile(path, "two").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadWholeFile(path).value(), "one");
  EXPECT_THAT(Files(), ElementsAre("job.json"));
}

TEST_F(WholeFile, WhatOthersWriteTakesItsPlaceWholeOrNotAtAll) {
  const std::string path = dir_ + "/model.pt";
  const auto write = [](const std::string& temporary) {
    std::ofstream(temporary) << "weights";
    return absl::OkStatus();
  };
  ASSERT_EQ(ReplaceFileBy(path, write), absl::OkStatus());
  EXPECT_THAT(Calls(), ElementsAre("sync " + path + ".writing",
                                   "rename " + path + ".writing " + path, "sync " + dir_));
  EXPECT_EQ(ReadWholeFile(path).value(), "weights");
  const absl::Status failed = ReplaceFileBy(path, [](const std::string& temporary) {
    std::ofstream(temporary) << "half of";
    return absl::DataLossError("chunk 7 is damaged");
  });
  EXPECT_EQ(failed, absl::DataLossError("chunk 7 is damaged"));
  fail_sync_of_a_file_with = ENOSPC;
  EXPECT_EQ(ReplaceFileBy(path, write).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReadWholeFile(path).value(), "weights");
  EXPECT_THAT(Files(), ElementsAre("model.pt"));
}

TEST_F(WholeFile, EachNewFolderIsSyncedIntoTheOneThatHoldsIt) {
  const absl::Status made = MakeDirectories(dir_ + "/a/b/");
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_TRUE(std::filesystem::is_directory(dir_ + "/a/b"));
  EXPECT_THAT(Calls(), ElementsAre("sync " + dir_, "sync " + dir_ + "/a"));
  Calls().clear();
  EXPECT_TRUE(MakeDirectories(dir_ + "/a/b").ok());
  EXPECT_THAT(Calls(), IsEmpty());
}

TEST_F(WholeFile, AFolderThatCannotBeMadeIsNamed) {
  std::ofstream(dir_ + "/file") << "x";
  const absl::Status made = MakeDirectories(dir_ + "/file/inner");
  EXPECT_FALSE(made.ok());
  EXPECT_THAT(std::string(made.message()), HasSubstr(dir_ + "/file': Not a directory"));
}

TEST_F(WholeFile, ALinkThatLeadsNowhereIsNoFolder) {
  std::filesystem::create_symlink("loop", dir_ + "/loop");
  EXPECT_THAT(std::string(MakeDirectories(dir_ + "/loop").message()),
              HasSubstr(dir_ + "/loop': Too many levels of symbolic links"));
  std::filesystem::create_symlink("nowhere", dir_ + "/dangling");
  EXPECT_THAT(std::string(MakeDirectories(dir_ + "/dangling").message()),
              HasSubstr(dir_ + "/dangling': No such file or directory"));
  std::filesystem::create_directory(dir_ + "/real");
  std::filesystem::create_symlink("real", dir_ + "/link");
  EXPECT_TRUE(MakeDirectories(dir_ + "/link/inner").ok()) << "a link to a folder is one";
}

// A pipe without a reader, or a writer, held up whoever opened it, for ever.
TEST_F(WholeFile, WhatIsNoFileIsNamedAndLeftAlone) {
  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  std::ofstream(dir_ + "/elsewhere") << "theirs";
  std::filesystem::create_symlink("elsewhere", dir_ + "/link");
  std::filesystem::create_symlink("/dev/zero", dir_ + "/device");
  std::filesystem::create_directory(dir_ + "/folder");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"pipe", "a pipe"},
      {"link", "a symbolic link"},
      {"device", "a symbolic link"},
      {"folder", "a directory"},
  };
  for (const auto& [name, kind] : cases) {
    const std::string path = dir_ + "/" + name;
    for (const int flags : {O_RDONLY, O_WRONLY, O_RDWR | O_CREAT, O_WRONLY | O_TRUNC}) {
      const absl::Status refused = OpenRegularFile(path, flags).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("'" + path + "' is " + kind));
    }
    EXPECT_EQ(ReadWholeFile(path).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(CheckRegularFile(path).code(), absl::StatusCode::kDataLoss);
  }
  const absl::Status replaced = ReplaceFile(dir_ + "/folder", "ours");
  EXPECT_EQ(replaced.code(), absl::StatusCode::kDataLoss) << replaced;
  EXPECT_THAT(std::string(replaced.message()), HasSubstr("/folder' is a directory"));
  EXPECT_EQ(OpenRegularFile("/dev/null", O_RDONLY).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadWholeFile(dir_ + "/elsewhere").value(), "theirs");
  EXPECT_TRUE(CheckRegularFile(dir_ + "/elsewhere").ok());
  EXPECT_TRUE(CheckRegularFile(dir_ + "/none").ok());
  EXPECT_TRUE(OpenRegularFile(dir_ + "/new", O_WRONLY | O_CREAT).ok());
}

TEST_F(WholeFile, WhatMayNotBeReadIsNoQuestionOfWriting) {
  const std::string path = dir_ + "/secret";
  std::ofstream(path) << "x";
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const bool reads_all = geteuid() == 0;
  ASSERT_TRUE(!reads_all || seteuid(65534) == 0);
  const absl::Status refused = ReadWholeFile(path).status();
  ASSERT_TRUE(!reads_all || seteuid(0) == 0);
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("may not be read by this user"));
}

TEST_F(WholeFile, ReadingHasABound) {
  EXPECT_EQ(ReadWholeFile(dir_ + "/none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(dir_ + "/file", std::string(101, 'x')).ok());
  EXPECT_EQ(ReadWholeFile(dir_ + "/file", 101)->size(), 101U);
  EXPECT_EQ(ReadWholeFile(dir_ + "/file", 100).status().code(), absl::StatusCode::kDataLoss);
}

// It is a person's own: nothing is to be removed there, nor is it in the wrong folder.
TEST_F(WholeFile, AFileThatIsGivenIsReadThroughLinksAndNothingElseIsRead) {
  ASSERT_TRUE(ReplaceFile(dir_ + "/file", "text").ok());
  std::filesystem::create_symlink("file", dir_ + "/link");
  EXPECT_EQ(ReadGivenFile(dir_ + "/link").value_or(""), "text");
  EXPECT_EQ(ReadGivenFile(dir_ + "/gone").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((dir_ + "/pipe").c_str(), 0600), 0);
  for (const auto& [path, kind] : std::map<std::string, std::string>{
           {dir_, "a directory"}, {dir_ + "/pipe", "a pipe"}, {"/dev/zero", "a device"}}) {
    const absl::Status refused = ReadGivenFile(path).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_EQ(std::string(refused.message()), "'" + path + "' is " + kind + ": name a file");
  }
  EXPECT_EQ(ReadGivenFile(dir_ + "/file", 3).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
