// Folders that Muster itself fills, such as that of a run or of a coordinator, hold a file of this
// name: whoever walks through training data leaves them out.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace muster {

inline constexpr char kOwnFolderMark[] = "muster-folder";

// Held by the one that uses the folder; it may be there before the mark.
inline constexpr char kOwnFolderLock[] = "lock";

// Of files that `muster doctor` makes for a moment, to see whether it can.
inline constexpr char kProbePrefix[] = ".muster-doctor-";

// `folder` is there; from now on it has the mark. Errors as FileError.
absl::Status MarkOwnFolder(const std::string& folder);

// kFailedPrecondition: it has no mark and holds files, of which the message names one. What is not
// there is no error.
absl::Status CheckOwnFolder(const std::string& folder);

}  // namespace muster
