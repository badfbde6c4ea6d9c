#include "lib/base/hash.h"

#include "absl/strings/str_format.h"
#include "lib/base/ids.h"

namespace muster {

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  uint64_t h = 0xcbf29ce484222325u ^ Mix64(seed);
  for (unsigned char c : bytes) h = (h ^ c) * 0x100000001b3u;
  return Mix64(h, bytes.size());
}

std::string ToHex(Incarnation x) { return absl::StrFormat("%016x%016x", x.hi, x.lo); }

}  // namespace muster
