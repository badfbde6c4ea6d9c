// Certificates are compared by the clock of the wall, so whoever gives or gets one compares clocks
// first (docs/identity.md section 3).
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

inline constexpr absl::Duration kClocksMayDiffer = absl::Minutes(5);

// OK, or kFailedPrecondition with both times: they are further apart than that. `whose`: whose
// clock `theirs` is, as in "host node7".
absl::Status CheckClocks(absl::Time ours, absl::Time theirs, absl::string_view whose);

}  // namespace muster
