#include "agent/runtime/memory_watch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace muster::agent {
namespace {

constexpr char kV2Mount[] =
    "25 1 0:22 / / rw - ext4 /dev/sda rw\n"
    "31 25 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1Mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

// A machine whose files this test writes.
class MemoryWatchTest : public ::testing::Test {
 protected:
  MemoryWatchTest() {
    if (mkdtemp(root_.data()) == nullptr) std::abort();
  }
  ~MemoryWatchTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void WeAreIn(const std::string& cgroup, const std::string& mounts) const {
    Write("/proc/self/cgroup", cgroup);
    Write("/proc/self/mountinfo", mounts);
  }
  void ExpectCountedIn(const std::string& path) const {
    Write(path, "low 0\noom 1\noom_kill 3\noom_group_kill 0\n");
    MemoryWatch watch(root_);
    EXPECT_EQ(watch.file(), root_ + path);
    EXPECT_FALSE(watch.KilledSinceLastCall());
    Write(path, "low 0\noom 1\noom_kill 4\noom_group_kill 0\n");
    EXPECT_TRUE(watch.KilledSinceLastCall());
    EXPECT_FALSE(watch.KilledSinceLastCall());
  }

  std::string root_ = ::testing::TempDir() + "memory-watch-XXXXXX";
};

TEST_F(MemoryWatchTest, Version2) {
  WeAreIn("0::/user.slice/muster.scope\n", kV2Mount);
  ExpectCountedIn("/sys/fs/cgroup/user.slice/muster.scope/memory.events");
}

TEST_F(MemoryWatchTest, Version1) {
  WeAreIn("9:name=systemd:/\n4:cpuset,memory:/batch/7:x\n1:cpu:/\n0::/\n", kV1Mounts);
  ExpectCountedIn("/sys/fs/cgroup/memory/batch/7:x/memory.oom_control");
}

// systemd's hybrid: version 2 is there as well, without the memory controller.
TEST_F(MemoryWatchTest, BothVersions) {
  WeAreIn("4:memory:/job\n0::/job\n",
          std::string(kV1Mounts) + "40 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  Write("/sys/fs/cgroup/unified/job/cgroup.procs", "1\n");
  ExpectCountedIn("/sys/fs/cgroup/memory/job/memory.oom_control");
}

// The controller ends above us: the nearest cgroup around us that has it counts for us.
TEST_F(MemoryWatchTest, NestedBelowTheLastThatCounts) {
  WeAreIn("0::/job/init/agent\n", kV2Mount);
  Write("/sys/fs/cgroup/job/init/agent/cgroup.procs", "1\n");
  ExpectCountedIn("/sys/fs/cgroup/job/memory.events");
}

// A container whose mount shows only its own part of the tree, but whose /proc tells the host's
// path.
TEST_F(MemoryWatchTest, InAContainerWithoutANamespaceOfItsOwn) {
  WeAreIn("4:memory:/docker/c1/sub\n",
          "35 31 0:32 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  ExpectCountedIn("/sys/fs/cgroup/memory/sub/memory.oom_control");
}

TEST_F(MemoryWatchTest, InAContainerWhoseMountIsNotAboveUs) {
  WeAreIn("0::/../other\n", kV2Mount);
  ExpectCountedIn("/sys/fs/cgroup/memory.events");
}

TEST_F(MemoryWatchTest, WhereNothingCountsNothingIsSaid) {
  WeAreIn("0::/job\n", kV2Mount);
  MemoryWatch without(root_);
  EXPECT_EQ(without.file(), "");
  EXPECT_FALSE(without.KilledSinceLastCall());
  std::filesystem::remove_all(root_ + "/proc");
  EXPECT_EQ(MemoryWatch(root_).file(), "");
}

TEST_F(MemoryWatchTest, ReadsTheCounter) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"), 3);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
  EXPECT_EQ(ParseOomKills("oom 1\n"), std::nullopt);
  EXPECT_EQ(ParseOomKills(""), std::nullopt);
}

}  // namespace
}  // namespace muster::agent
