// A state from a checkpoint. Any thread.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "lib/member/runtime/setup.h"
#include "lib/member/runtime/state_memory.h"
#include "lib/member/state/actions.h"

namespace muster {

// The chunks that `make` names, with their optimizer slots if it says so, from the segments of its
// manifest; what is not named stays +0.0, and so do the sums of validation in a fork's state(0).
// kDataLoss, kInvalidArgument, kFailedPrecondition: as lib/checkpoint/load.h says, naming the file;
// kInvalidArgument without a manifest. `after_each`, if given, is called after each part.
absl::StatusOr<StateMemory> LoadState(const Setup& setup, const Make& make,
                                      const std::function<void()>& after_each = {});

// Zeroed values, and zeroed slots where asked for.
StateMemory EmptyState(const Setup& setup, bool slots);

}  // namespace muster
