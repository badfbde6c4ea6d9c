// The checksum that was written down beside a file's bytes when they were saved, as zip files do.
// It is looked at where all bytes are read anyway, so that no disk that gives others goes
// unnoticed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/data/byte_source.h"

namespace muster {

// Computed of what is read of a source from its begin to its end. Nothing is done for a source that
// knows no checksum.
class ChecksumInPassing {
 public:
  // `goes_on` is called now and then while bytes are read for it alone. Both outlive it.
  ChecksumInPassing(const ByteSource& source, const std::function<void()>& goes_on);

  // These bytes stand from `offset` on. What lies between them and those before is read.
  absl::Status Saw(uint64_t offset, absl::Span<const std::byte> bytes);
  // What is left is read. kDataLoss: as ChecksumDiffers; others as of ReadAt.
  absl::Status Finish();

 private:
  absl::Status ReadTo(uint64_t offset);

  const ByteSource& source_;
  const std::function<void()>& goes_on_;
  uint64_t seen_ = 0;  // bytes, from the first
  uint32_t crc_ = 0;
};

// Of a source that nobody reads in passing. Errors as Finish.
absl::Status CheckChecksum(const ByteSource& source);

// kDataLoss, and names the source.
absl::Status ChecksumDiffers(const ByteSource& source);

}  // namespace muster
