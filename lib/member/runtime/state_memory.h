// The memory of one state of the model.
#pragma once

#include <vector>

#include "lib/member/runtime/flat_pool.h"

namespace muster {

// state(step): values of parameters and buffers, and the optimizer's slots where this member
// applies.
struct StateMemory {
  FlatPtr values;
  std::vector<FlatPtr> slots;
};

}  // namespace muster
