#include "lib/base/whole_file.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
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

TEST_F(WholeFile, ReadingHasABound) {
  EXPECT_EQ(ReadWholeFile(dir_ + "/none").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(ReplaceFile(dir_ + "/file", std::string(101, 'x')).ok());
  EXPECT_EQ(ReadWholeFile(dir_ + "/file", 101)->size(), 101U);
  EXPECT_EQ(ReadWholeFile(dir_ + "/file", 100).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace muster
