// `muster agent`: this machine as one more host of a cluster. Main thread; returns the exit code.
#pragma once

#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/screen.h"

namespace muster::cli {

int RunAgent(const AgentArguments& arguments, const ClusterMaker& make_cluster,
             const Terminal& terminal);

}  // namespace muster::cli
