// Files of a job's checkpoints as its cluster's coordinator gives them out, block by block: whoever
// reads them from a folder reads them from there, too, and compares the same checksums.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/rest_client.h"
#include "lib/base/time.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/manifest_file.h"

namespace muster::cli {

struct ClusterFilesPatience {
  // With a coordinator that does not answer now, for one block.
  Duration whole = std::chrono::seconds(60);
  Duration pause = std::chrono::seconds(1);  // before it is asked again
};

// A file that is open holds one block in memory.
inline constexpr int64_t kClusterFileBlock = int64_t{4} << 20;

// Those of one checkpoint, all of which were there: one that is missed is kFailedPrecondition in
// place of kNotFound, and the message says that newer ones took the checkpoint's place. Only to be
// read: what writes or removes is kFailedPrecondition, and does nothing. Other errors of
// CheckpointFiles, and those of RestClient. One thread.
std::unique_ptr<CheckpointFiles> FilesOfCheckpoint(const RestClient& rest, const std::string& job,
                                                   const CheckpointPlace& place,
                                                   ClusterFilesPatience patience = {});

}  // namespace muster::cli
