#include "lib/base/file_lock.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
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
  MUSTER_ASSIGN_OR_RETURN(Descriptor file, OpenRegularFile(path, O_RDWR | O_CREAT));
  struct flock lock = WholeFile();
  if (fcntl(file.get(), F_OFD_SETLK, &lock) == 0) return file;
  if (errno == EAGAIN || errno == EACCES)
    return absl::AbortedError(absl::StrCat(path, " is locked by somebody else"));
  return FileError(errno, "lock", path);
}

bool IsFileLocked(const std::string& path) {
  const absl::StatusOr<Descriptor> file = OpenRegularFile(path, O_RDONLY);
  struct flock lock = WholeFile();
  return file.ok() && fcntl(file->get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

}  // namespace muster
