// The segment files of one job, on a disk that everybody shares. Lives as long as the job.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "tests/sim/values.h"

namespace muster::sim {

struct SegmentFile {
  std::map<std::pair<int32_t, int32_t>, Value> content;  // by slot (0: values) and chunk
  bool damaged = false;                                  // its checksums do not fit any more
};
using Disk = std::map<std::string, SegmentFile>;

}  // namespace muster::sim
