// What a command has half written goes with it where a signal ends it. Whatever else ends it leaves
// the file, as SIGKILL does.
#pragma once

#include <signal.h>

#include <string>
#include <utility>
#include <vector>

#include "lib/base/descriptor.h"

namespace muster {

class RemovedOnSignal {
 public:
  // `file` is open at `path`, and stays so while this lives. Once it lies there no more, nothing is
  // removed. Signals that are ignored, or that somebody else handles, are left to that; and of
  // several at a time in one process the first one counts.
  RemovedOnSignal(const Descriptor& file, const std::string& path);
  RemovedOnSignal(const RemovedOnSignal&) = delete;
  RemovedOnSignal& operator=(const RemovedOnSignal&) = delete;
  ~RemovedOnSignal();

 private:
  bool counts_ = false;
  std::vector<std::pair<int, struct sigaction>> before_;  // of each signal that is handled
};

}  // namespace muster
