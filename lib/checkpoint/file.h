// Files that are there whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/whole_file.h"

namespace muster {

// A file that is open to be read. Movable; one thread at a time.
class FileHandle {
 public:
  static absl::StatusOr<FileHandle> OpenToRead(std::string path);
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

 private:
  FileHandle(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_ = -1;
  std::string path_;
};

// A new file, written from front to back in blocks. They go past the page cache where the file
// system lets them: a checkpoint is seldom read soon, and pages for it cost more time than its
// bytes do and push out training data. One thread at a time.
class FileWriter {
 public:
  static constexpr size_t kBlockBytes = size_t{2} << 20;
  enum class PageCache { kPast, kThrough };

  // Empty; what was there is gone.
  static absl::StatusOr<std::unique_ptr<FileWriter>> Create(std::string path,
                                                            PageCache cache = PageCache::kPast);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter();

  absl::Status Append(absl::Span<const std::byte> bytes);
  // What is not written yet is, and all is on disk. Nothing may be appended after it.
  absl::Status Finish();
  bool past_page_cache() const { return past_page_cache_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  FileWriter(int fd, std::string path, bool past_page_cache);
  absl::Status WriteBlock();
  void UsePageCache();

  const int fd_;
  const std::string path_;
  bool past_page_cache_;
  const std::unique_ptr<std::byte, Free> block_;
  size_t filled_ = 0;
};

// Makes `dir`/`file` (its folder too) out of what `write` appends: under a temporary name, synced,
// renamed, the directories synced. Whatever fails, no temporary file stays. kAlreadyExists
// where the file is there.
absl::Status WriteFileDurably(const std::string& dir, const std::string& file,
                              const std::function<absl::Status(FileWriter&)>& write);

}  // namespace muster
