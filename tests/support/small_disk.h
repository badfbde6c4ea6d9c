// A disk of a few mebibytes that only this process sees: tmpfs in a mount namespace of its own.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace muster {

// Mounted at `path` as long as this lives; the kernel takes it away with the process, too. A
// namespace belongs to a thread: make it in a test binary of its own, before any other thread is
// started.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path, size_t mib = 4) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
      status_ =
          absl::PermissionDeniedError(absl::StrCat("no mount namespace: ", std::strerror(errno)));
    } else if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
               mount("muster-test", path_.c_str(), "tmpfs", 0,
                     absl::StrCat("size=", mib, "m").c_str()) != 0) {
      status_ = absl::PermissionDeniedError(absl::StrCat("no tmpfs: ", std::strerror(errno)));
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (status_.ok()) umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }

  // kPermissionDenied: the kernel forbids it here; skip the test.
  const absl::Status& status() const { return status_; }
  const std::string& path() const { return path_; }
  // A file that takes all the space that is left; shrinking or deleting it frees some. Empty: it
  // cannot be written.
  std::string Fill() const {
    const std::string ballast = path_ + "/ballast";
    const int fd = open(ballast.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return "";
    const std::string block(4096, 'x');
    while (write(fd, block.data(), block.size()) > 0) {
    }
    const bool full = errno == ENOSPC;
    close(fd);
    return full ? ballast : "";
  }

 private:
  std::string path_;
  absl::Status status_;
};

}  // namespace muster
