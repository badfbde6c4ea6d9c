#include "lib/checkpoint/file_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

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

}  // namespace

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

}  // namespace muster
