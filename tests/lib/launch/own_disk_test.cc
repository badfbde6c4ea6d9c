#include "lib/launch/own_disk.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace muster {
namespace {

// As `man 2 statfs` lists them.
TEST(OwnDisk, WhichFileSystemsOtherMachinesDoNotSee) {
  for (const int64_t own :
       {0xef53L, 0x58465342L, 0x9123683eL, 0x2fc12fc1L, 0x01021994L, 0x794c7630L})
    EXPECT_TRUE(IsOfOneMachine(own)) << std::hex << own;
  // NFS, CIFS, Lustre, GPFS, Ceph, AFS, 9p, programs' (FUSE), and one that nobody knows.
  for (const int64_t shared : {0x6969L, 0xff534d42L, 0x0bd00bd0L, 0x47504653L, 0x00c36400L,
                               0x5346414fL, 0x01021997L, 0x65735546L, 0x12345678L})
    EXPECT_FALSE(IsOfOneMachine(shared)) << std::hex << shared;
}

TEST(OwnDisk, OfFolders) {
  EXPECT_FALSE(LiesOnOwnDisk("/proc"));
  EXPECT_FALSE(LiesOnOwnDisk("/is/not/there"));
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "there is no memory file system";
  EXPECT_TRUE(LiesOnOwnDisk("/dev/shm"));
}

}  // namespace
}  // namespace muster
