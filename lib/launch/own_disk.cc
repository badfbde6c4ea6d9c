#include "lib/launch/own_disk.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace muster {

bool IsOfOneMachine(int64_t kind) {
  constexpr int64_t kXfs = 0x58465342, kZfs = 0x2fc12fc1;     // not among the kernel's names
  constexpr std::array<int64_t, 8> kOwn = {EXT4_SUPER_MAGIC,  // ext2 and ext3, too
                                           kXfs,
                                           BTRFS_SUPER_MAGIC,
                                           kZfs,
                                           F2FS_SUPER_MAGIC,
                                           TMPFS_MAGIC,
                                           RAMFS_MAGIC,
                                           OVERLAYFS_SUPER_MAGIC};  // of a container
  return std::find(kOwn.begin(), kOwn.end(), kind) != kOwn.end();
}

bool LiesOnOwnDisk(const std::string& folder) {
  struct statfs of {};
  return statfs(folder.c_str(), &of) == 0 && IsOfOneMachine(of.f_type);
}

}  // namespace muster
