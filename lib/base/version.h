// The version of all programs, and which forms of the protocol they speak (docs/protocol.md section
// 10).
#pragma once

#include <cstdint>
#include <string>

namespace muster {

extern const char kVersion[];  // "1.2.3": CMakeLists.txt says it

// The newest form of what processes say to each other, and the oldest that these programs still
// understand. It grows where somebody who does not know the change would misunderstand.
extern const int32_t kProtocol;
extern const int32_t kOldestProtocol;

// What a process says of itself in its greeting.
struct Speaks {
  int32_t oldest = kOldestProtocol;
  int32_t newest = kProtocol;
  std::string version = kVersion;
  bool operator==(const Speaks&) const = default;
};

}  // namespace muster
