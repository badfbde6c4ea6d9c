// The standard input of a `muster run` that another one has started over ssh (cli/ssh_hosts.h):
// first the environment that it is to have, then wishes. One thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/base/time.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

// The first line that is sent, with its end.
std::string EnvironmentLine(const Environment& environment);
// kInvalidArgument: this is no such line.
absl::StatusOr<Environment> ParseEnvironmentLine(const std::string& line);

// Reads that line. kInvalidArgument: it is none; kUnavailable: it has not come within `patience`.
absl::StatusOr<Environment> ReadEnvironment(int input, Duration patience);

class SshInput {
 public:
  struct Patience {
    Duration silence = std::chrono::minutes(1);  // then it counts as ended
    Duration leave = std::chrono::seconds(40);   // from the wish to end to the wish to end at once
  };
  // `on_stop` is called on another thread: at each wish, and twice after the end of the input.
  SshInput(int input, Patience patience, std::function<void()> on_stop);
  ~SshInput();
  SshInput(const SshInput&) = delete;
  SshInput& operator=(const SshInput&) = delete;

 private:
  enum class Heard { kLines, kEnd, kSilence, kTold };  // kTold: this is being destroyed

  void Run();
  Heard Await(bool reads, Duration time) const;
  bool ReadLines();

  const int input_;
  const Patience patience_;
  const std::function<void()> on_stop_;
  const Descriptor end_;  // readable once this is being destroyed
  std::string line_;      // that has no end yet
  std::thread reading_;
};

}  // namespace muster::cli
