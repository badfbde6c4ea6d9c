// The disk below a folder: whether Muster can keep there what it has to keep.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cli/doctor/finding.h"

namespace muster::cli::doctor {

struct DiskFacts {
  std::string folder;     // that was asked for
  std::string looked_at;  // that, or the nearest one around it that is there
  absl::Status looks;     // what the system says of it
  int64_t kind = 0;       // of the file system, as statfs(2) tells it
  int64_t free_bytes = 0;
  int64_t files = 0;  // that it can have; 0: it has no such bound
  int64_t free_files = 0;
  absl::Status writes;  // a file there, and syncs it
  absl::Status locks;   // that file
  double sync_seconds = 0;
};
// Writes one file of a MiB, which has no name any more while it is written. May hang where the file
// system does.
DiskFacts GatherDisk(const std::string& folder);

enum class DiskUse {
  kCluster,    // store, checkpoints, logs
  kTemporary,  // keys, for as long as a host runs
};
// `check`: what the findings are called.
Findings JudgeDisk(const std::string& check, DiskUse use, const DiskFacts& facts);

// What people call a kind of file system; "" where it is not known.
std::string NameOfKind(int64_t kind);

}  // namespace muster::cli::doctor
