// `muster train`, `muster demo` and `muster up`, and the first host of `muster run`. Main thread;
// each returns the exit code.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/screen.h"
#include "cli/train_run.h"

namespace muster::cli {

// Runs the job, or tells why it cannot be, and then how it ended. `to_go_on`: the command that goes
// on with it in that folder.
int ShowRun(const absl::StatusOr<JobRequest>& request,
            const std::function<std::string(const std::string& folder)>& to_go_on, bool json,
            const ClusterMaker& make_cluster, const Terminal& terminal);

int Train(const TrainArguments& arguments, const ClusterMaker& make_cluster,
          const Terminal& terminal);
int Demo(const DemoArguments& arguments, const ClusterMaker& make_cluster,
         const Terminal& terminal);
int Up(const UpArguments& arguments, const ClusterMaker& make_cluster, const Terminal& terminal);

}  // namespace muster::cli
