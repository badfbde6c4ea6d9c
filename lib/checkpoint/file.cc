#include "lib/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "lib/base/check.h"
#include "lib/base/status.h"

namespace muster {
namespace {

// What any disk asks of memory, offsets and sizes that go past the page cache.
constexpr size_t kDirectAlign = 4096;
static_assert(FileWriter::kBlockBytes % kDirectAlign == 0);

absl::StatusOr<int> Open(const std::string& path, int flags, absl::string_view action) {
  int fd;
  do {
    fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return FileError(errno, action, path);
  return fd;
}

absl::Status WriteTemporary(const std::string& path,
                            const std::function<absl::Status(FileWriter&)>& write) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<FileWriter> out, FileWriter::Create(path));
  MUSTER_RETURN_IF_ERROR(write(*out));
  return out->Finish();
}

}  // namespace

absl::StatusOr<FileHandle> FileHandle::OpenToRead(std::string path) {
  // Without O_NONBLOCK a FIFO in the place of the file would hang us.
  MUSTER_ASSIGN_OR_RETURN(const int fd, Open(path, O_RDONLY | O_NONBLOCK, "open"));
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

// Some file systems refuse such files when they are opened, others when they are written.
absl::StatusOr<std::unique_ptr<FileWriter>> FileWriter::Create(std::string path, PageCache cache) {
  MUSTER_RETURN_IF_ERROR(CheckRegularFile(path));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
  int fd = -1;
  if (cache == PageCache::kPast) fd = open(path.c_str(), kFlags | O_DIRECT, 0644);
  const bool past = fd >= 0;
  if (!past) {
    MUSTER_ASSIGN_OR_RETURN(fd, Open(path, kFlags, "create"));
  }
  return std::unique_ptr<FileWriter>(new FileWriter(fd, std::move(path), past));
}

FileWriter::FileWriter(int fd, std::string path, bool past_page_cache)
    : fd_(fd),
      path_(std::move(path)),
      past_page_cache_(past_page_cache),
      block_(static_cast<std::byte*>(std::aligned_alloc(kDirectAlign, kBlockBytes))) {
  MUSTER_CHECK(block_ != nullptr, "out of memory for a block of a file");
}

FileWriter::~FileWriter() { close(fd_); }

absl::Status FileWriter::Append(absl::Span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kBlockBytes - filled_);
    std::memcpy(block_.get() + filled_, bytes.data(), n);
    filled_ += n;
    bytes.remove_prefix(n);
    if (filled_ == kBlockBytes) MUSTER_RETURN_IF_ERROR(WriteBlock());
  }
  return absl::OkStatus();
}

// After a write of a part of the block, the rest may be refused past the page cache.
absl::Status FileWriter::WriteBlock() {
  if (filled_ % kDirectAlign != 0) UsePageCache();
  for (size_t written = 0; written < filled_;) {
    const ssize_t n = write(fd_, block_.get() + written, filled_ - written);
    if (n >= 0) {
      written += static_cast<size_t>(n);
    } else if (errno == EINVAL && past_page_cache_) {
      UsePageCache();
    } else if (errno != EINTR) {
      return FileError(errno, "write", path_);
    }
  }
  filled_ = 0;
  return absl::OkStatus();
}

void FileWriter::UsePageCache() {
  if (!std::exchange(past_page_cache_, false)) return;
  const int flags = fcntl(fd_, F_GETFL);
  MUSTER_CHECK(flags >= 0 && fcntl(fd_, F_SETFL, flags & ~O_DIRECT) == 0);
}

// What the page cache holds of the file is clean once it is synced, and can be let go.
absl::Status FileWriter::Finish() {
  MUSTER_RETURN_IF_ERROR(WriteBlock());
  if (fsync(fd_) != 0) return FileError(errno, "sync", path_);
  posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  return absl::OkStatus();
}

absl::Status WriteFileDurably(const std::string& dir, const std::string& file,
                              const std::function<absl::Status(FileWriter&)>& write) {
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
