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

namespace muster::cli {

struct ClusterFilesPatience {
  // With a coordinator that does not answer now, for one block.
  Duration whole = std::chrono::seconds(60);
  Duration pause = std::chrono::seconds(1);  // before it is asked again
};

// Only to be read: what writes or removes is kFailedPrecondition, and does nothing. A file that is
// open holds one block in memory. Errors of CheckpointFiles, and those of RestClient. One thread.
class ClusterFiles : public CheckpointFiles {
 public:
  // A file was not there (any more) when it was asked for.
  virtual bool missed() const = 0;
};
inline constexpr int64_t kClusterFileBlock = int64_t{4} << 20;
std::unique_ptr<ClusterFiles> FilesOfCluster(const RestClient& rest, const std::string& job,
                                             ClusterFilesPatience patience = {});

}  // namespace muster::cli
