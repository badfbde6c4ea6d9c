#include "lib/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lib/base/status.h"

namespace muster {
namespace {

absl::StatusOr<int> Open(const std::string& path, int flags, absl::string_view action) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FileError(errno, action, path);
  return fd;
}

absl::Status WriteTemporary(const std::string& path,
                            const std::function<absl::Status(FileHandle&)>& write) {
  MUSTER_ASSIGN_OR_RETURN(FileHandle out, FileHandle::Create(path));
  MUSTER_RETURN_IF_ERROR(write(out));
  return out.Sync();
}

}  // namespace

absl::StatusOr<FileHandle> FileHandle::OpenToRead(std::string path) {
  // Without O_NONBLOCK a FIFO in the place of the file would hang us.
  MUSTER_ASSIGN_OR_RETURN(const int fd, Open(path, O_RDONLY | O_NONBLOCK, "open"));
  return FileHandle(fd, std::move(path));
}

absl::StatusOr<FileHandle> FileHandle::Create(std::string path) {
  MUSTER_ASSIGN_OR_RETURN(const int fd, Open(path, O_WRONLY | O_CREAT | O_TRUNC, "create"));
  return FileHandle(fd, std::move(path));
}

FileHandle::~FileHandle() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<uint64_t> FileHandle::Size() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return FileError(errno, "stat", path_);
  if (!S_ISREG(info.st_mode))
    return absl::DataLossError(absl::StrCat("'", path_, "': not a regular file"));
  return static_cast<uint64_t>(info.st_size);
}

absl::Status FileHandle::ReadAt(uint64_t offset, void* to, size_t bytes) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t n = pread(fd_, at, bytes, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "read", path_);
    if (n == 0) return absl::DataLossError(absl::StrCat("'", path_, "': ends at byte ", offset));
    at += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

absl::Status FileHandle::Append(absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "write", path_);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status FileHandle::Sync() {
  return fsync(fd_) == 0 ? absl::OkStatus() : FileError(errno, "sync", path_);
}

absl::Status WriteFileDurably(const std::string& dir, const std::string& file,
                              const std::function<absl::Status(FileHandle&)>& write) {
  const std::string path = absl::StrCat(dir, "/", file);
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string temporary = absl::StrCat(path, kTemporarySuffix);
  std::error_code error;
  // `dir` itself is not made: who removed it wants nothing written there any more.
  if (folder != dir) std::filesystem::create_directory(folder, error);
  if (error) return FileError(error.value(), "make directory", folder);
  if (access(path.c_str(), F_OK) == 0) return FileError(EEXIST, "create", path);
  absl::Status status = WriteTemporary(temporary, write);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    status = FileError(errno, "rename", temporary);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  status = SyncDirectory(folder);
  if (status.ok() && folder != dir) status = SyncDirectory(dir);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

}  // namespace muster
