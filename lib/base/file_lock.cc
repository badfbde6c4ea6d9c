#include "lib/base/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

struct flock WholeFile(short type = F_WRLCK) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

absl::Status Take(const Descriptor& file, short type, const std::string& path) {
  struct flock lock = WholeFile(type);
  if (fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return absl::OkStatus();
  if (errno == EAGAIN || errno == EACCES)
    return absl::AbortedError(absl::StrCat(path, " is locked by somebody else"));
  return FileError(errno, "lock", path);
}

absl::StatusOr<Descriptor> Locked(const std::string& path, short type) {
  MUSTER_ASSIGN_OR_RETURN(Descriptor file, OpenRegularFile(path, O_RDWR | O_CREAT));
  MUSTER_RETURN_IF_ERROR(Take(file, type, path));
  return file;
}

}  // namespace

absl::StatusOr<Descriptor> LockFile(const std::string& path) { return Locked(path, F_WRLCK); }
absl::StatusOr<Descriptor> ShareFileLock(const std::string& path) { return Locked(path, F_RDLCK); }

absl::Status LetShare(const Descriptor& lock, const std::string& path) {
  return Take(lock, F_RDLCK, path);
}

bool IsLockAt(const Descriptor& lock, const std::string& path) {
  struct stat held {
  }, there{};
  return fstat(lock.get(), &held) == 0 && lstat(path.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

bool IsFileLocked(const std::string& path) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  struct flock lock = WholeFile();
  return file.ok() && fcntl(file->get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace muster
