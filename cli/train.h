// `muster train`, `muster demo` and `muster up`. Main thread; each returns the exit code.
#pragma once

#include <ostream>

#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/screen.h"

namespace muster::cli {

// Where to print, and how.
struct Terminal {
  std::ostream& out;
  std::ostream& err;
  bool is_terminal = false;  // of `out`
  size_t width = 80;
};

int Train(const TrainArguments& arguments, const ClusterMaker& make_cluster,
          const Terminal& terminal);
int Demo(const DemoArguments& arguments, const ClusterMaker& make_cluster,
         const Terminal& terminal);
int Up(const UpArguments& arguments, const ClusterMaker& make_cluster, const Terminal& terminal);

}  // namespace muster::cli
