// How long checkpoints take: from the start of the first checkpoint part that a member reports to
// the commit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace muster::coordinator {

// Pure; one thread at a time.
class CheckpointTimes {
 public:
  // A checkpoint part is on disk now; `seconds` is how long that took, as its member says.
  void PartWritten(const std::string& job, LineageNumber lineage, Step step, double seconds,
                   Time now);
  // Seconds since the checkpoint began; nothing if no part of it was reported. This checkpoint and
  // older ones of its job are forgotten.
  std::optional<double> Committed(const std::string& job, LineageNumber lineage, Step step,
                                  Time now);
  void Forget(const std::string& job);

 private:
  using Key = std::tuple<std::string, LineageNumber, Step>;
  std::map<Key, Time> begun_;  // bounded: those that began first are forgotten
};

}  // namespace muster::coordinator
