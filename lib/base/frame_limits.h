// What a frame may hold. A larger one breaks the session with kResourceExhausted, at the end that
// sends it as well as at the end that receives it from outside (lib/transport); so what is made to
// go into one frame (lib/domain/grid.h, coordinator/state/plan.h) is refused before it grows that
// large.
#pragma once

#include <cstddef>

namespace muster {

inline constexpr size_t kMaxHeaderBytes = size_t{4} << 20;
inline constexpr size_t kMaxPayloadBytes = size_t{4} << 20;

}  // namespace muster
