// `muster train`, `muster demo` and `muster up`. Main thread; each returns the exit code.
#pragma once

#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/screen.h"

namespace muster::cli {

int Train(const TrainArguments& arguments, const ClusterMaker& make_cluster,
          const Terminal& terminal);
int Demo(const DemoArguments& arguments, const ClusterMaker& make_cluster,
         const Terminal& terminal);
int Up(const UpArguments& arguments, const ClusterMaker& make_cluster, const Terminal& terminal);

}  // namespace muster::cli
