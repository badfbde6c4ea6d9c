// A tar file of small files (POSIX.1-1988 "ustar"), written front to back. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "lib/checkpoint/files.h"

namespace muster {

class TarWriter {
 public:
  explicit TarWriter(Appender& to) : to_(to) {}

  // A name of at most 100 bytes, and less than 8 GiB. Mode, owner and times are the same each time.
  absl::Status Add(const std::string& name, absl::string_view content);
  // What ends it; nothing may follow.
  absl::Status Finish();

  uint64_t bytes() const { return bytes_; }
  // That a file of so many would add.
  static uint64_t BytesOf(uint64_t content);

 private:
  absl::Status Write(absl::string_view bytes);

  Appender& to_;
  uint64_t bytes_ = 0;
};

}  // namespace muster
