// The version of all programs: CMakeLists.txt says it.
#pragma once

namespace muster {

extern const char kVersion[];  // "1.2.3"

}  // namespace muster
