#include "lib/base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "lib/base/status.h"

namespace muster {
namespace {

class OpenFile {
 public:
  OpenFile(const std::string& path, int flags) {
    do {
      fd_ = open(path.c_str(), flags | O_CLOEXEC, 0644);
    } while (fd_ < 0 && errno == EINTR);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

absl::Status WriteAndSync(const std::string& path, absl::string_view content) {
  const OpenFile file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.fd() < 0) return FileError(errno, "create", path);
  while (!content.empty()) {
    const ssize_t n = write(file.fd(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(file.fd()) == 0 ? absl::OkStatus() : FileError(errno, "sync", path);
}

std::string FolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

absl::Status FileError(int error_number, absl::string_view action, absl::string_view path) {
  const std::string text =
      absl::StrCat(action, " '", path, "': ", std::generic_category().message(error_number));
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: return absl::ResourceExhaustedError(absl::StrCat(text, ": free some space"));
    case ENOENT: return absl::NotFoundError(text);
    case EEXIST: return absl::AlreadyExistsError(text);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(
          absl::StrCat(text, ": choose a directory that can be written"));
    default: return absl::UnavailableError(text);
  }
}

absl::Status SyncDirectory(const std::string& path) {
  const OpenFile folder(path, O_RDONLY | O_DIRECTORY);
  if (folder.fd() < 0) return FileError(errno, "open directory", path);
  return fsync(folder.fd()) == 0 ? absl::OkStatus() : FileError(errno, "sync directory", path);
}

absl::Status MakeDirectories(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  if (error) return FileError(error.value(), "make directory", path);
  fs::path at;
  for (const fs::path& part : absolute) {
    at /= part;
    const bool made = fs::create_directory(at, error);
    // What is there is something else.
    if (error == std::errc::file_exists) error = std::make_error_code(std::errc::not_a_directory);
    if (error) return FileError(error.value(), "make directory", at.string());
    if (made) MUSTER_RETURN_IF_ERROR(SyncDirectory(at.parent_path().string()));
  }
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, absl::string_view content) {
  const std::string temporary = path + kTemporarySuffix;
  absl::Status status = WriteAndSync(temporary, content);
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    status = FileError(errno, "rename", temporary);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncDirectory(FolderOf(path));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes) {
  const OpenFile file(path, O_RDONLY | O_NONBLOCK);  // a FIFO in its place must not hang us
  if (file.fd() < 0) return FileError(errno, "open", path);
  std::string content;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = read(file.fd(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "read", path);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
    if (content.size() > most_bytes)
      return absl::DataLossError(
          absl::StrCat("'", path, "' is longer than ", most_bytes, " bytes"));
  }
}

}  // namespace muster
