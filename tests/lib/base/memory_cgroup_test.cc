#include "lib/base/memory_cgroup.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/cgroup_tree.h"

namespace muster {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kMachine = 64 * kGiB;

class MemoryCgroupTest : public ::testing::Test {
 protected:
  int64_t ForUs() const { return MemoryForUs(kMachine, tree_.root()); }
  void Limit(const std::string& file, int64_t gib) const {
    tree_.Write("/sys/fs/cgroup" + file, std::to_string(gib * kGiB) + "\n");
  }
  const CgroupTree tree_;
};

TEST_F(MemoryCgroupTest, WithoutCgroupsItIsAllOfTheMachine) {
  EXPECT_EQ(ForUs(), kMachine);
  tree_.WeAreIn("0::/job\n", kCgroupV2Mount);
  EXPECT_EQ(ForUs(), kMachine) << "the controller is not there";
  EXPECT_GT(MemoryOfMachine(), 0);
  EXPECT_LE(MemoryForUs(), MemoryOfMachine());
}

TEST_F(MemoryCgroupTest, OfVersion2TheLeastOfOursAndOfThoseAroundUs) {
  tree_.WeAreIn("0::/pod/job/worker\n", kCgroupV2Mount);
  tree_.Write("/sys/fs/cgroup/pod/job/worker/memory.max", "max\n");
  EXPECT_EQ(ForUs(), kMachine);
  Limit("/pod/memory.max", 8);
  EXPECT_EQ(ForUs(), 8 * kGiB) << "two above us";
  Limit("/pod/job/memory.max", 12);
  EXPECT_EQ(ForUs(), 8 * kGiB) << "more than what is around it has";
  Limit("/pod/job/worker/memory.max", 2);
  EXPECT_EQ(ForUs(), 2 * kGiB);
  Limit("/other/memory.max", 1);
  EXPECT_EQ(ForUs(), 2 * kGiB) << "we are not in that one";
}

TEST_F(MemoryCgroupTest, OfVersion1Too) {
  tree_.WeAreIn("4:cpuset,memory:/batch/7\n1:cpu:/\n0::/\n", kCgroupV1Mounts);
  tree_.Write("/sys/fs/cgroup/memory/batch/7/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(ForUs(), kMachine) << "so it looks without a limit";
  Limit("/memory/batch/memory.limit_in_bytes", 4);
  EXPECT_EQ(ForUs(), 4 * kGiB);
  Limit("/cpu/batch/7/memory.limit_in_bytes", 1);
  EXPECT_EQ(ForUs(), 4 * kGiB) << "the tree of another controller";
}

// What a container sees: its own part of the tree alone, whatever path /proc tells.
TEST_F(MemoryCgroupTest, InAContainer) {
  tree_.WeAreIn("4:memory:/docker/c1\n",
                "35 31 0:32 /docker/c1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  Limit("/memory/memory.limit_in_bytes", 3);
  EXPECT_EQ(ForUs(), 3 * kGiB);
  tree_.WeAreIn("0::/\n", kCgroupV2Mount);
  Limit("/memory.max", 5);
  EXPECT_EQ(ForUs(), 5 * kGiB) << "with a namespace of its own";
}

TEST_F(MemoryCgroupTest, ALimitBeyondTheMachineIsNone) {
  tree_.WeAreIn("0::/job\n", kCgroupV2Mount);
  Limit("/job/memory.max", 1000);
  EXPECT_EQ(ForUs(), kMachine);
}

}  // namespace
}  // namespace muster
