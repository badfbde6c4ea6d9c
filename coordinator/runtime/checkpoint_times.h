// How long checkpoints take: from the start of the first checkpoint part that a member reports to
// the commit.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// Pure; one thread at a time.
class CheckpointTimes {
 public:
  // A checkpoint part is on disk now; `seconds` is how long that took, as its member says.
  void PartWritten(LineageNumber lineage, Step step, double seconds, Time now);
  // Seconds since the checkpoint began; nothing if no part of it was reported. This checkpoint and
  // older ones are forgotten.
  std::optional<double> Committed(LineageNumber lineage, Step step, Time now);

 private:
  std::map<std::pair<LineageNumber, Step>, Time> begun_;  // bounded: the oldest go
};

}  // namespace muster::coordinator
