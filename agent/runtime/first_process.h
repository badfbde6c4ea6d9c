// Orphans: processes whose parent has ended become children of process 1, which must wait for their
// ends, or they stay in the table of processes for ever. In a container that is whatever the
// container starts, such as `muster agent`.
#pragma once

#include <optional>

namespace muster::agent {

// Where orphans come to this process, as process 1 or as a subreaper (prctl(2)), a child goes on
// in its place, and this process does nothing but reap all of its children and pass on the signals
// that are sent to it: so whoever starts processes waits for its own only. The exit code for this
// process: that of the child, or 128 and the number of the signal that ended it. Nothing: this is
// the child, or no orphans come here.
//
// Before any thread is started, and any signal is blocked. The child dies with its parent.
std::optional<int> ReapForAChild();

}  // namespace muster::agent
