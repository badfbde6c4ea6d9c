// Files that are written whole, and folders: after a crash or a loss of power a file has its old
// content or its new one, and an entry that was made is there. Whoever writes a file in one go
// writes it with ReplaceFile.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// An error of the system as a status that names the path. ENOSPC and EDQUOT: kResourceExhausted;
// ENOENT: kNotFound; EACCES, EPERM and EROFS: kPermissionDenied; EEXIST: kAlreadyExists; anything
// else: kUnavailable.
absl::Status FileError(int error_number, absl::string_view action, absl::string_view path);

// The suffix of temporary files: what a crash leaves is recognised by it.
inline constexpr char kTemporarySuffix[] = ".writing";

// What was made, renamed or deleted inside a folder survives a loss of power only after this.
absl::Status SyncDirectory(const std::string& path);

// The folder and those above it that are missing; each new one is synced into the one that holds
// it.
absl::Status MakeDirectories(const std::string& path);

// Writes `path` under a temporary name, syncs it, renames it into place and syncs the folder. After
// an error the file is as it was, unless only the last sync failed: then it is the new one. One
// writer at a time.
absl::Status ReplaceFile(const std::string& path, absl::string_view content);

// All of a small file. kNotFound: it is not there; kDataLoss: longer than `most_bytes`.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes = 1 << 20);

}  // namespace muster
