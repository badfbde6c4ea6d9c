// What the programs of workers, followers, servers and readers share: options, log, transport, the
// way into a job.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "lib/member/runtime/process.h"

namespace CLI {
class App;
}

namespace muster {

struct MemberProgram {
  std::string name;  // "muster-worker"
  std::string description;
  std::function<Role()> role;  // once the options are read
  // Its own options; may be empty.
  std::function<void(CLI::App&)> add_options;
  // On the main thread, before the process waits for its job's end; may be empty.
  std::function<absl::Status(MemberProcess&, const ProcessOptions&)> work;
};

// The whole of main. Returns the exit code: 0 done, 64 bad configuration, 65 bad data, 67 a person
// stopped or cancelled the job, 143 told to go, 1 otherwise.
int RunMember(int argc, char** argv, const MemberProgram& program);

}  // namespace muster
