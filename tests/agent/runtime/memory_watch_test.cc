#include "agent/runtime/memory_watch.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/cgroup_tree.h"

namespace muster::agent {
namespace {

class MemoryWatchTest : public ::testing::Test {
 protected:
  void ExpectCountedIn(const std::string& path) const {
    tree_.Write(path, "low 0\noom 1\noom_kill 3\noom_group_kill 0\n");
    MemoryWatch watch(tree_.root());
    EXPECT_EQ(watch.file(), tree_.root() + path);
    EXPECT_FALSE(watch.KilledSinceLastCall());
    tree_.Write(path, "low 0\noom 1\noom_kill 4\noom_group_kill 0\n");
    EXPECT_TRUE(watch.KilledSinceLastCall());
    EXPECT_FALSE(watch.KilledSinceLastCall());
  }

  const CgroupTree tree_;
};

TEST_F(MemoryWatchTest, Version2) {
  tree_.WeAreIn("0::/user.slice/muster.scope\n", kCgroupV2Mount);
  ExpectCountedIn("/sys/fs/cgroup/user.slice/muster.scope/memory.events");
}

TEST_F(MemoryWatchTest, Version1) {
  tree_.WeAreIn("9:name=systemd:/\n4:cpuset,memory:/batch/7:x\n1:cpu:/\n0::/\n", kCgroupV1Mounts);
  ExpectCountedIn("/sys/fs/cgroup/memory/batch/7:x/memory.oom_control");
}

// systemd's hybrid: version 2 is there as well, without the memory controller.
TEST_F(MemoryWatchTest, BothVersions) {
  tree_.WeAreIn("4:memory:/job\n0::/job\n",
                std::string(kCgroupV1Mounts) +
                    "40 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  tree_.Write("/sys/fs/cgroup/unified/job/cgroup.procs", "1\n");
  ExpectCountedIn("/sys/fs/cgroup/memory/job/memory.oom_control");
}

// The controller ends above us: the nearest cgroup around us that has it counts for us.
TEST_F(MemoryWatchTest, NestedBelowTheLastThatCounts) {
  tree_.WeAreIn("0::/job/init/agent\n", kCgroupV2Mount);
  tree_.Write("/sys/fs/cgroup/job/init/agent/cgroup.procs", "1\n");
  ExpectCountedIn("/sys/fs/cgroup/job/memory.events");
}

// A container whose mount shows only its own part of the tree, but whose /proc tells the host's
// path.
TEST_F(MemoryWatchTest, InAContainerWithoutANamespaceOfItsOwn) {
  tree_.WeAreIn("4:memory:/docker/c1/sub\n",
                "35 31 0:32 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  ExpectCountedIn("/sys/fs/cgroup/memory/sub/memory.oom_control");
}

TEST_F(MemoryWatchTest, InAContainerWhoseMountIsNotAboveUs) {
  tree_.WeAreIn("0::/../other\n", kCgroupV2Mount);
  ExpectCountedIn("/sys/fs/cgroup/memory.events");
}

TEST_F(MemoryWatchTest, WhereNothingCountsNothingIsSaid) {
  tree_.WeAreIn("0::/job\n", kCgroupV2Mount);
  MemoryWatch without(tree_.root());
  EXPECT_EQ(without.file(), "");
  EXPECT_FALSE(without.KilledSinceLastCall());
  std::filesystem::remove_all(tree_.root() + "/proc");
  EXPECT_EQ(MemoryWatch(tree_.root()).file(), "");
}

TEST_F(MemoryWatchTest, ReadsTheCounter) {
  EXPECT_EQ(ParseOomKills("low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"), 3);
  EXPECT_EQ(ParseOomKills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"), 2);
  EXPECT_EQ(ParseOomKills("oom 1\n"), std::nullopt);
  EXPECT_EQ(ParseOomKills(""), std::nullopt);
}

}  // namespace
}  // namespace muster::agent
