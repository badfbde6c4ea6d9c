// `muster run --hosts` and `--hostfile`: starts itself on each host by ssh, shows what they print,
// and ends with the exit code of the first. Main thread, before it has other threads; signals that
// are to be heard are blocked.
#pragma once

#include <string>
#include <vector>

#include "cli/screen.h"
#include "cli/ssh_hosts.h"
#include "lib/base/time.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

struct SshRun {
  std::vector<std::string> names;                  // of the hosts
  std::vector<std::vector<std::string>> commands;  // for each, found in PATH
  int hosts_min = 1;
  Environment environment;  // that all get
  Duration patience{};      // until they have begun
  bool json = false;        // the output is that of the first host alone
};

int RunOverSsh(const SshRun& run, const Terminal& terminal);

}  // namespace muster::cli
