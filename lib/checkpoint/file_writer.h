// How a large file gets onto a disk.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/checkpoint/files.h"

namespace muster {

// A new file, written from front to back in blocks. They go past the page cache where the file
// system lets them: a checkpoint is seldom read soon, and pages for it cost more time than its
// bytes do and push out training data. One thread at a time.
class FileWriter final : public Appender {
 public:
  static constexpr size_t kBlockBytes = size_t{2} << 20;
  enum class PageCache { kPast, kThrough };

  // Empty; what was there is gone.
  static absl::StatusOr<std::unique_ptr<FileWriter>> Create(std::string path,
                                                            PageCache cache = PageCache::kPast);
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  ~FileWriter() override;

  absl::Status Append(absl::Span<const std::byte> bytes) override;
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

}  // namespace muster
