// What LibTorch's sums depend on besides their order (docs/architecture.md section 1): set the same
// way on every member, and told in one text that members compare. No LibTorch in this header; a
// build without LibTorch has these functions too.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace muster::worker {

// Sets, for the process, `threads` intra-op and one inter-op threads and deterministic algorithms;
// and, for the calling thread and the pool that computes for it, flush-to-zero. Cheap when nothing
// is to be done: call it before computing, on the thread that computes. kInternal: this processor
// or build cannot flush denormals on all those threads.
absl::Status UseTorchHere(int32_t threads);

// One property per line, "name value\n": LibTorch's version and instruction set, MKL, oneDNN,
// OpenMP, threads. Members of a job must agree on it.
std::string TorchProperties();

// Ends the process, once everything of ours has ended. LibTorch would take its tables apart first,
// which costs a fifth of a second, and our agent waits for it, as does whoever has told it to end.
[[noreturn]] void EndProcess(int exit_code);

}  // namespace muster::worker
