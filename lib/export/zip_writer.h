// A zip file of stored records, written front to back (APPNOTE.TXT 6.3 of PKWARE: local headers
// with data descriptors, since a record's checksum is known when all of it was written; zip64 where
// sizes or places need it). The bytes of each record begin at a multiple of 64. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "lib/checkpoint/files.h"

namespace muster {

class ZipWriter {
 public:
  explicit ZipWriter(Appender& to) : to_(to) {}

  // A record of so many bytes, which must be appended before the next one begins.
  absl::Status Begin(const std::string& name, uint64_t bytes);
  absl::Status Append(absl::Span<const std::byte> bytes);
  // All of a small one.
  absl::Status Add(const std::string& name, absl::string_view content);
  // The directory; nothing may follow.
  absl::Status Finish();

 private:
  struct Record {
    std::string name;
    uint64_t at = 0;  // of its local header
    uint64_t bytes = 0;
    uint32_t crc = 0;
  };

  absl::Status Write(absl::string_view bytes);
  absl::Status End();

  Appender& to_;
  uint64_t written_ = 0;
  std::vector<Record> records_;
  uint64_t left_ = 0;  // of the open record
  bool is_open_ = false;
};

}  // namespace muster
