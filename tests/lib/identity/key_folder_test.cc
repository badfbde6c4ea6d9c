#include "lib/identity/key_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

class KeyFolderTest : public ::testing::Test {
 protected:
  KeyFolderTest() {
    if (mkdtemp(place_.data()) == nullptr) std::abort();
    setenv("TMPDIR", place_.c_str(), 1);
  }
  ~KeyFolderTest() override {
    unsetenv("TMPDIR");
    fs::remove_all(place_);
  }
  // As a process that was killed leaves it.
  void LeaveBehind(const std::string& path) {
    mkdir(path.c_str(), 0700);
    std::ofstream(path + "/key") << "old";
  }
  size_t Left() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(place_), fs::directory_iterator()));
  }

  std::string place_ = ::testing::TempDir() + "muster-key-folder-XXXXXX";
};

TEST_F(KeyFolderTest, IsItsOwnersAloneAndGoesWithIt) {
  {
    const auto folder = KeyFolder::Make("run").value();
    struct stat found {};
    ASSERT_EQ(stat(folder->path().c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777, 0700u);
    std::ofstream(folder->path() + "/key") << "x";
  }
  EXPECT_EQ(Left(), 0u);
}

TEST_F(KeyFolderTest, IsTheOneThatAKilledProcessLeft) {
  const std::string path = KeyFolder::Make("run").value()->path();
  LeaveBehind(path);
  const auto again = KeyFolder::Make("run").value();
  EXPECT_EQ(again->path(), path);
  EXPECT_TRUE(fs::exists(path + "/key"));
  EXPECT_NE(KeyFolder::Make("another run").value()->path(), path);
}

TEST_F(KeyFolderTest, IsAnotherWhileTheFirstIsInUse) {
  const auto one = KeyFolder::Make("run").value();
  const auto other = KeyFolder::Make("run").value();
  EXPECT_NE(one->path(), other->path());
}

TEST_F(KeyFolderTest, IsAnotherWhereSomethingElseIsInItsPlace) {
  const std::string path = KeyFolder::Make("run").value()->path();
  fs::create_directory_symlink(place_, path);
  EXPECT_NE(KeyFolder::Make("run").value()->path(), path) << "it leads elsewhere";
  fs::remove(path);
  std::ofstream(path) << "a file";
  EXPECT_NE(KeyFolder::Make("run").value()->path(), path);
  fs::remove(path);
  LeaveBehind(path);
  chmod(path.c_str(), 0770);
  EXPECT_NE(KeyFolder::Make("run").value()->path(), path) << "others may write there";
}

TEST_F(KeyFolderTest, LeavesWhatIsInItsPlaceSince) {
  std::string path;
  {
    const auto folder = KeyFolder::Make("run").value();
    path = folder->path();
    fs::rename(path, path + "-moved");
    LeaveBehind(path);
  }
  EXPECT_TRUE(fs::exists(path + "/key"));
}

TEST_F(KeyFolderTest, WithoutTheFolderThatIsNamedItNamesTheVariable) {
  setenv("TMPDIR", (place_ + "/none").c_str(), 1);
  const auto none = KeyFolder::Make("run");
  EXPECT_TRUE(absl::IsInvalidArgument(none.status())) << none.status();
  EXPECT_EQ(none.status().message().substr(0, 7), "TMPDIR:") << none.status();
}

TEST_F(KeyFolderTest, WhereNoneCanBeMadeItNamesTheOption) {
  setenv("TMPDIR", "/proc", 1);
  const auto none = KeyFolder::Make("run");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message().substr(0, 10), "--identity") << none.status();
}

}  // namespace
}  // namespace muster
