// A disk of four mebibytes that only this process sees: tmpfs in a mount namespace of its own, gone with the process.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

// Mounts it at `path` (made). Call before any thread is started. kPermissionDenied: skip the test, the kernel forbids it.
inline absl::Status MountSmallDisk(const std::string& path) {
  std::filesystem::create_directories(path);
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    return absl::PermissionDeniedError(absl::StrCat("no mount namespace: ", std::strerror(errno)));
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("muster-test", path.c_str(), "tmpfs", 0, "size=4m") != 0)
    return absl::PermissionDeniedError(absl::StrCat("no tmpfs: ", std::strerror(errno)));
  return absl::OkStatus();
}

// Fills the disk to its last byte with a file; deleting the file frees it. False: `path` cannot be written.
inline bool FillDisk(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const std::string block(4096, 'x');
  while (write(fd, block.data(), block.size()) > 0) {
  }
  const bool full = errno == ENOSPC;
  close(fd);
  return full;
}

}  // namespace muster
