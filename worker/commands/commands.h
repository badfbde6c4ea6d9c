// What muster-worker does beside being a worker: it tells which tasks there are, checks a job, and
// uses a model of a checkpoint. `muster` starts it for that, since it has no LibTorch itself.
#pragma once

#include <optional>

namespace muster::worker {

// The exit code, if the first word is a command: 0 done, 64 bad configuration, 65 bad data, 1
// otherwise.
std::optional<int> RunCommand(int argc, const char* const* argv);

}  // namespace muster::worker
