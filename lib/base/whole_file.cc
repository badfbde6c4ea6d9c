#include "lib/base/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <system_error>

#include "lib/base/hash.h"
#include "lib/base/status.h"

namespace muster {
namespace {

Descriptor Open(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

std::string KindOf(mode_t mode) {
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISDIR(mode) ? "a directory" : "a device";
}

absl::Status NotRegular(const std::string& path, mode_t mode) {
  return absl::DataLossError(
      absl::StrCat("'", path, "' is ", KindOf(mode),
                   " in the place of a file that Muster keeps: remove it, or bring the file back"));
}

absl::Status WriteAndSync(const std::string& path, absl::string_view content) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file,
                          OpenRegularFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  while (!content.empty()) {
    const ssize_t n = write(file.get(), content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "write", path);
    content.remove_prefix(static_cast<size_t>(n));
  }
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(errno, "sync", path);
}

absl::StatusOr<std::string> ReadAll(int file, const std::string& path, size_t most_bytes) {
  std::string content;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t n = read(file, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileError(errno, "read", path);
    if (n == 0) return content;
    content.append(buffer.data(), static_cast<size_t>(n));
    if (content.size() > most_bytes)
      return absl::DataLossError(
          absl::StrCat("'", path, "' is longer than ", most_bytes, " bytes"));
  }
}

// Of what is there: something else, or a link that leads nowhere.
std::error_code WhyNoDirectory(const std::filesystem::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {errno, std::generic_category()};
  return std::make_error_code(std::errc::not_a_directory);
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

absl::Status ReadError(int error_number, absl::string_view action, absl::string_view path) {
  if (error_number != EACCES && error_number != EPERM) return FileError(error_number, action, path);
  return absl::PermissionDeniedError(absl::StrCat(
      "'", path, "' may not be read by this user: give the command as the one who may"));
}

std::string TemporaryOf(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string name = whole.filename().string();
  if (name.size() + sizeof kTemporarySuffix - 1 <= NAME_MAX) return path + kTemporarySuffix;
  const std::string other = absl::StrCat(absl::Hex(HashBytes(name)), kTemporarySuffix);
  return (whole.parent_path() / other).string();
}

absl::Status CheckRegularFile(const std::string& path) {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode)) return absl::OkStatus();
  return NotRegular(path, there.st_mode);
}

absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path, int flags) {
  Descriptor file = Open(path, flags | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY);
  if (!file.is_open()) {
    const int error = errno;
    MUSTER_RETURN_IF_ERROR(CheckRegularFile(path));
    if ((flags & (O_ACCMODE | O_CREAT)) == O_RDONLY) return ReadError(error, "open", path);
    return FileError(error, (flags & O_CREAT) != 0 ? "create" : "open", path);
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return FileError(errno, "look at", path);
  if (!S_ISREG(status.st_mode)) return NotRegular(path, status.st_mode);
  return file;
}

absl::Status SyncDirectory(const std::string& path) {
  const Descriptor folder = Open(path, O_RDONLY | O_DIRECTORY);
  if (!folder.is_open()) return FileError(errno, "open directory", path);
  return fsync(folder.get()) == 0 ? absl::OkStatus() : FileError(errno, "sync directory", path);
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
    if (error == std::errc::file_exists) error = WhyNoDirectory(at);
    if (error) return FileError(error.value(), "make directory", at.string());
    if (made) MUSTER_RETURN_IF_ERROR(SyncDirectory(at.parent_path().string()));
  }
  return absl::OkStatus();
}

namespace {

absl::Status SyncFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path, O_RDONLY));
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(errno, "sync", path);
}

absl::Status RenameSynced(absl::Status written, const std::string& temporary,
                          const std::string& path) {
  if (written.ok() && rename(temporary.c_str(), path.c_str()) != 0)
    written = errno == EISDIR ? NotRegular(path, S_IFDIR) : FileError(errno, "rename", temporary);
  if (!written.ok()) {
    unlink(temporary.c_str());
    return written;
  }
  return SyncDirectory(FolderOf(path));
}

}  // namespace

absl::Status ReplaceFile(const std::string& path, absl::string_view content) {
  const std::string temporary = TemporaryOf(path);
  return RenameSynced(WriteAndSync(temporary, content), temporary, path);
}

absl::Status ReplaceFileBy(const std::string& path,
                           const std::function<absl::Status(const std::string& temporary)>& write) {
  const std::string temporary = TemporaryOf(path);
  absl::Status written = write(temporary);
  if (written.ok()) written = SyncFile(temporary);
  return RenameSynced(std::move(written), temporary, path);
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes) {
  MUSTER_ASSIGN_OR_RETURN(const Descriptor file, OpenRegularFile(path, O_RDONLY));
  return ReadAll(file.get(), path, most_bytes);
}

absl::StatusOr<std::string> ReadGivenFile(const std::string& path, size_t most_bytes) {
  const Descriptor file = Open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file.is_open()) return ReadError(errno, "read", path);
  struct stat there {};
  if (fstat(file.get(), &there) != 0) return FileError(errno, "look at", path);
  if (!S_ISREG(there.st_mode))
    return absl::DataLossError(
        absl::StrCat("'", path, "' is ", KindOf(there.st_mode), ": name a file"));
  return ReadAll(file.get(), path, most_bytes);
}

}  // namespace muster
