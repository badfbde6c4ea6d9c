#include "lib/base/file_lock.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

absl::StatusOr<Descriptor> LockFile(const std::string& path) {
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.is_open()) return FileError(errno, "open", path);
  struct flock lock = WholeFile();
  if (fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return file;
  if (errno == EAGAIN || errno == EACCES)
    return absl::AbortedError(absl::StrCat(path, " is locked by somebody else"));
  return FileError(errno, "lock", path);
}

bool IsFileLocked(const std::string& path) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock lock = WholeFile();
  return file.is_open() && fcntl(file.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace muster
