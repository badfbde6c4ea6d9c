// What zlib has packed, unpacked into memory.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"

namespace muster {

enum class Packing { kGzip, kRawDeflate };

// All of `packed`; of gzip, one member after the other. Memory grows with what has really come.
// kDataLoss: it is broken, or something follows it. kResourceExhausted: more than `most` bytes.
absl::StatusOr<std::string> Inflate(const ByteSource& packed, Packing packing, uint64_t most);

// Itself, or what a gzip file (by its first two bytes) holds, in memory.
absl::StatusOr<SourcePtr> WithoutGzip(SourcePtr source);

}  // namespace muster
