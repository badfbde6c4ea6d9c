// Files of checkpoints across a socket, from a process that can read them to one that it has
// started. Both are of one build and on one machine: numbers go as they lie in memory.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"
#include "lib/checkpoint/files.h"

namespace muster {

// The end of who serves, and that of who reads; a process that is started gets neither by itself.
// kInternal: this machine gives no more of them.
absl::StatusOr<std::pair<Descriptor, Descriptor>> NewFileSocket();

// Answers until the other end is closed, or until something else than a request comes from there:
// whoever reads is not trusted. One file is open at a time, and of that at most kMostServedBytes
// are in memory. Each answer takes as long as `files` does, which sets the end of every wait there.
inline constexpr size_t kMostServedBytes = size_t{1} << 20;
void ServeFiles(const CheckpointFiles& files, const Descriptor& socket);

// What is served at the other end, with its errors; `name` is how messages call the job's folder.
// Only to be read: what writes, removes or lists is kFailedPrecondition. kUnavailable, too: whoever
// served has gone. Closes its end when it and its files are gone. One thread.
std::unique_ptr<CheckpointFiles> ServedFiles(Descriptor socket, const std::string& name);

}  // namespace muster
