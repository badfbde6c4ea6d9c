// A lock on a whole file, held while its descriptor is open: never longer than the process lives.
// Whoever only looks takes nothing, so that looking never refuses it to somebody.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "lib/base/descriptor.h"

namespace muster {

// Makes the file where it is missing. Read and write. kAborted: somebody holds the lock, perhaps
// another descriptor of this process; others as OpenRegularFile.
absl::StatusOr<Descriptor> LockFile(const std::string& path);

// Likewise, together with others that share it. kAborted: somebody holds it alone.
absl::StatusOr<Descriptor> ShareFileLock(const std::string& path);
// From now on others may share a lock that was held alone; at no moment it is held by nobody.
absl::Status LetShare(const Descriptor& lock, const std::string& path);
// Whether the file that is locked still lies at `path`: who deletes it holds it alone, and whoever
// has opened it before has a lock on nothing then.
bool IsLockAt(const Descriptor& lock, const std::string& path);

// False as well where there is no such file, or it cannot be opened.
bool IsFileLocked(const std::string& path);

}  // namespace muster
