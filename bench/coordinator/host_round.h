// What hosts cost a coordinator: one number of hosts, from a fresh coordinator to its restart.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "bench/coordinator/table.h"
#include "lib/base/time.h"

namespace muster::bench {

struct HostSettings {
  int32_t slots = 8;  // of each host
  Duration patience{};
  std::string program;
  std::string dir;
};

// What was measured up to the first thing that did not happen, which "failed" names.
Json MeasureHosts(const HostSettings& settings, int32_t hosts);
absl::Span<const Row> RowsOfHosts();

}  // namespace muster::bench
