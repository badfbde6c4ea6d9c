#include "lib/base/file_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace muster {
namespace {

std::string MakeFolder() {
  std::string folder = ::testing::TempDir() + "/lockXXXXXX";
  if (mkdtemp(folder.data()) == nullptr) std::abort();
  return folder;
}

TEST(FileLock, IsHeldAsLongAsItsDescriptor) {
  const std::string file = MakeFolder() + "/lock";
  EXPECT_FALSE(IsFileLocked(file)) << "there is none";
  std::ofstream(file) << "7\n";
  EXPECT_FALSE(IsFileLocked(file));
  {
    const auto held = LockFile(file);
    ASSERT_TRUE(held.ok()) << held.status();
    EXPECT_TRUE(IsFileLocked(file));
    EXPECT_TRUE(IsFileLocked(file)) << "looking does not take it away";
    EXPECT_TRUE(absl::IsAborted(LockFile(file).status()));
    EXPECT_TRUE(IsFileLocked(file)) << "nor does a try";
  }
  EXPECT_FALSE(IsFileLocked(file));
  EXPECT_TRUE(LockFile(file).ok());
  EXPECT_TRUE(absl::IsNotFound(LockFile(MakeFolder() + "/nowhere/lock").status()));
}

TEST(FileLock, IsSharedByThoseWhoAskForThat) {
  const std::string file = MakeFolder() + "/lock";
  auto alone = LockFile(file);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_TRUE(absl::IsAborted(ShareFileLock(file).status()));
  ASSERT_TRUE(LetShare(*alone, file).ok());
  {
    const auto shared = ShareFileLock(file);
    EXPECT_TRUE(shared.ok()) << shared.status();
    EXPECT_TRUE(absl::IsAborted(LockFile(file).status()));
    alone->Close();
    EXPECT_TRUE(absl::IsAborted(LockFile(file).status())) << "one of two is left";
  }
  EXPECT_TRUE(LockFile(file).ok());
}

TEST(FileLock, OfAFileThatWasDeletedIsNoLockOnTheNextOne) {
  const std::string file = MakeFolder() + "/lock";
  const auto held = LockFile(file);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_TRUE(IsLockAt(*held, file));
  unlink(file.c_str());
  EXPECT_FALSE(IsLockAt(*held, file));
  EXPECT_TRUE(LockFile(file).ok());
  EXPECT_FALSE(IsLockAt(*held, file));
}

TEST(FileLock, APipeInItsPlaceIsNoLock) {
  const std::string file = MakeFolder() + "/lock";
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsDataLoss(LockFile(file).status()));
  EXPECT_FALSE(IsFileLocked(file));
}

// `muster status --dir` beside a `muster train` that starts there.
TEST(FileLock, LookingNeverRefusesItToOthers) {
  const std::string file = MakeFolder() + "/lock";
  std::atomic<bool> done = false;
  std::thread looks([&] {
    while (!done) IsFileLocked(file);
  });
  int refused = 0;
  for (int i = 0; i < 5000; ++i) refused += LockFile(file).ok() ? 0 : 1;
  done = true;
  looks.join();
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace muster
