// One child process. It dies with us, however we end; it is out of reach of the terminal's Ctrl-C;
// it inherits no descriptor but its log (stdout, stderr) and the pipe on which it reports. That is
// non-blocking at both ends: what we do not read in time is lost and holds nobody up.
//
// Main thread only: the kernel sends the child's parent-death signal when the *thread* that forked
// it ends.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/state/exit.h"
#include "lib/base/descriptor.h"

namespace muster::agent {

struct Command {
  // The first is the program's path; "--report-fd N" is added at the end.
  std::vector<std::string> arguments;
  std::string log_file;                              // appended to; its folder exists
  std::map<std::string, std::string> environment{};  // that is another than ours, by name
  std::vector<int> cores{};                          // that it may run on; empty: ours
};

class ChildProcess {
 public:
  // When it returns OK the program runs. Otherwise nothing is left of it, and the message names the
  // program or the log file. kNotFound, kPermissionDenied, kFailedPrecondition: the program cannot
  // be run; kResourceExhausted, kUnavailable: the host is short of something, the log cannot be
  // written, or the host does not let us watch the process; another time it may work.
  static absl::StatusOr<ChildProcess> Start(const Command& command);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  // kills (SIGKILL) and waits, if it still runs

  pid_t pid() const { return pid_; }
  int exit_fd() const { return exit_.get(); }      // readable once the process has ended
  int report_fd() const { return report_.get(); }  // non-blocking; lines of JSON, then end of file

  void Signal(int signal) const;  // of a process that has ended: nothing
  // What it ended with, once; nothing while it runs. `last_lines` are those of this run only.
  std::optional<Exit> TryReap();

 private:
  ChildProcess() = default;
  std::string LastLines() const;

  pid_t pid_ = -1;   // -1: reaped
  Descriptor exit_;  // a pidfd
  Descriptor report_;
  std::string log_file_;
  off_t log_start_ = 0;  // where this run's lines begin
};

}  // namespace muster::agent
