// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/whole_file.h"

namespace muster {

// An open file. Movable; one thread at a time.
class FileHandle {
 public:
  static absl::StatusOr<FileHandle> OpenToRead(std::string path);
  static absl::StatusOr<FileHandle> Create(std::string path);  // empty; what was there is gone
  FileHandle(FileHandle&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  FileHandle& operator=(FileHandle&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~FileHandle();

  const std::string& path() const { return path_; }
  absl::StatusOr<uint64_t> Size() const;  // kDataLoss: not a regular file
  absl::Status ReadAt(uint64_t offset, void* to,
                      size_t bytes) const;  // kDataLoss: the file is shorter
  absl::Status Append(absl::Span<const std::byte> bytes);
  absl::Status Sync();

 private:
  FileHandle(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// Makes `dir`/`file` (its folder too) out of what `write` appends and syncs: under a temporary
// name, renamed, the directories synced. Whatever fails, no temporary file stays. kAlreadyExists
// where the file is there.
absl::Status WriteFileDurably(const std::string& dir, const std::string& file,
                              const std::function<absl::Status(FileHandle&)>& write);

}  // namespace muster
