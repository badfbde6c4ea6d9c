// What a zip file holds (PKWARE's APPNOTE 6.3.10, with zip64): stored and deflated files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/byte_source.h"

namespace muster {

struct ZipMember {
  std::string name;
  uint64_t local_header = 0;  // where it begins
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  std::optional<uint32_t> crc;  // nothing: whoever wrote it has not computed it
  bool deflated = false;
};

// In the order of the file's directory. kDataLoss: it is no zip file, is broken, or holds what is
// encrypted or packed in another way.
absl::StatusOr<std::vector<ZipMember>> ReadZip(const ByteSource& zip);

// Its bytes, called `zip.name() (member.name)`: in place where it is stored, else in memory. Its
// checksum is looked at here where it is unpacked or small; a large one that is stored keeps it for
// whoever reads all of it (checksum.h).
absl::StatusOr<SourcePtr> OpenMember(const SourcePtr& zip, const ZipMember& member);

}  // namespace muster
