// `muster run`: one job on the hosts that a launcher has started this command on, or that a person
// has named. Main thread; returns the exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/screen.h"
#include "cli/ssh_run.h"
#include "lib/base/time.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

// What a run sees of its surroundings; tests make their own.
struct RunSurroundings {
  Environment environment;
  std::string machine;  // its name
  // On which address this host listens for the others: `interface` as a person has given it, `name`
  // as the launcher calls this host; either may be empty. Without a port, as it is written before
  // one.
  std::function<absl::StatusOr<std::string>(const std::string& interface, const std::string& name)>
      address;
  // A name in full, as this machine looks it up; empty: there is none.
  std::function<std::string(const std::string& name)> full_name;
  // Waits so long; true: a signal has told us to end.
  std::function<bool(Duration)> wait;
  // Of this process, and of all that it starts from now on.
  std::function<void(const std::string& name, const std::string& value)> set_environment;
  std::function<std::vector<std::string>()>
      devices;                            // all GPUs of the machine, as CUDA numbers them
  std::function<int64_t()> unix_seconds;  // the time of day
  std::function<std::string()> draw_id;   // what no other run has
  std::string program;                    // the path of muster
  std::string folder;                     // the current one
  std::function<int(const SshRun&)> run_over_ssh;
};

int Run(const RunArguments& arguments, const RunSurroundings& surroundings,
        const ClusterMaker& make_cluster, const Terminal& terminal);

}  // namespace muster::cli
