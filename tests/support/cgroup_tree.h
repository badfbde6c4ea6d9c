#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace muster {

inline constexpr char kCgroupV2Mount[] =
    "25 1 0:22 / / rw - ext4 /dev/sda rw\n"
    "31 25 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
inline constexpr char kCgroupV1Mounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

// A machine whose files the test writes.
class CgroupTree {
 public:
  CgroupTree() {
    if (mkdtemp(root_.data()) == nullptr) std::abort();
  }
  ~CgroupTree() { std::filesystem::remove_all(root_); }
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  void Write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // As /proc tells it.
  void WeAreIn(const std::string& cgroup, const std::string& mounts) const {
    Write("/proc/self/cgroup", cgroup);
    Write("/proc/self/mountinfo", mounts);
  }
  const std::string& root() const { return root_; }

 private:
  std::string root_ = ::testing::TempDir() + "cgroup-tree-XXXXXX";
};

}  // namespace muster
