// What a tar file holds (POSIX.1-2001 "pax", "ustar" and GNU's long names).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"

namespace muster {

struct TarMember {
  std::string name;
  uint64_t at = 0;  // of its bytes
  uint64_t bytes = 0;
};

// The regular files in it, in its order. A hard link, which tar writes for a file that it has
// written by another name, is that file again. kDataLoss: it is no tar file, broken or cut off, or
// something else follows it; or a link leads to what is not in it, or a device or a pipe stands
// there.
absl::StatusOr<std::vector<TarMember>> ReadTar(const ByteSource& tar);

}  // namespace muster
