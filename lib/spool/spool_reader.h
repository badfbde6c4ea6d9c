// Reads samples of a spool: what facts say, and no byte more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/clock.h"
#include "lib/domain/stream.h"

namespace muster {

// How long somebody waits for bytes that are facts and cannot be read here yet, as on a share that
// is slow to show what another host has written. `clock` outlives it.
struct SpoolPatience {
  const Clock* clock = nullptr;
  // Returns after about so long. False: nobody wants the samples any more.
  std::function<bool(Duration)> pause;
  Duration most = std::chrono::seconds(60);
  Duration between = std::chrono::milliseconds(100);
};

// The bytes of a file that may still grow, so that it can be tried with any bytes. Any thread.
class SpoolBytes {
 public:
  virtual ~SpoolBytes() = default;
  virtual const std::string& name() const = 0;  // for people
  // As many as there are from `offset` on. Errors as FileError.
  virtual absl::StatusOr<size_t> ReadAt(uint64_t offset, absl::Span<std::byte> into) const = 0;
};

// The positions from `first` on that `into` has room for, all of which are of `fact`, by one try.
// kDataLoss: the file is another, or a checksum is wrong; the message names the file and the byte.
// kUnavailable: bytes are missing yet. Others as ReadAt.
absl::Status ReadSpooled(const SpoolBytes& bytes, const SpoolSegment& fact, uint64_t sample_bytes,
                         uint64_t first, absl::Span<std::byte> into);

// The same from the segment's file in `folder`, which is opened for each try. What cannot be read
// is tried again while there is patience, and then kUnavailable. kDataLoss at once. kCancelled: the
// samples are not wanted any more.
absl::Status ReadSpooledFile(const std::string& folder, const SpoolSegment& fact,
                             uint64_t sample_bytes, uint64_t first, absl::Span<std::byte> into,
                             const SpoolPatience& patience);

}  // namespace muster
