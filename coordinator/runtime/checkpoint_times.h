// How long checkpoints take: from the start of the first checkpoint part that members told of to
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
  // A share is on disk now; that took so many seconds, as its member says.
  void PartWritten(LineageNumber lineage, Step step, double seconds, Time now);
  // Seconds since its start; nothing: no part of it was told of. It and what came before it are
  // forgotten.
  std::optional<double> Committed(LineageNumber lineage, Step step, Time now);

 private:
  std::map<std::pair<LineageNumber, Step>, Time> begun_;  // bounded: the oldest go
};

}  // namespace muster::coordinator
