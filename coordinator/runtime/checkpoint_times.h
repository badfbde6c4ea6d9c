// How long checkpoints take: from the start of the first checkpoint part that members told of to
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
  // A share is on disk now; that took so many seconds, as its member says.
  void PartWritten(const std::string& job, LineageNumber lineage, Step step, double seconds,
                   Time now);
  // Seconds since its start; nothing: no part of it was told of. It and what came before it, of its
  // job, are forgotten.
  std::optional<double> Committed(const std::string& job, LineageNumber lineage, Step step,
                                  Time now);

 private:
  using Key = std::tuple<std::string, LineageNumber, Step>;
  std::map<Key, Time> begun_;  // bounded: the longest under way go
};

}  // namespace muster::coordinator
