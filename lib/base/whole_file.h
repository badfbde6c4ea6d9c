// Files that Muster itself keeps, and folders: after a crash or a loss of power a file that was
// written whole has its old content or its new one, and an entry that was made is there. Whoever
// writes a file in one go writes it with ReplaceFile.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"

namespace muster {

// An error of the system as a status that names the path. ENOSPC and EDQUOT: kResourceExhausted;
// ENOENT: kNotFound; EACCES, EPERM and EROFS: kPermissionDenied; EEXIST: kAlreadyExists; anything
// else: kUnavailable.
absl::Status FileError(int error_number, absl::string_view action, absl::string_view path);
// Likewise of what is only looked at or read: where that is not allowed, no other place is asked
// for.
absl::Status ReadError(int error_number, absl::string_view action, absl::string_view path);

// Opens a file of a folder that Muster fills; `flags` as of open(2), a new one gets mode 0644.
// kDataLoss: what lies there is none, but a pipe, a device, a link or the like: it could hang us,
// or lead what we write to a place of somebody else. kPermissionDenied: it may not be read. Others
// as FileError.
absl::StatusOr<Descriptor> OpenRegularFile(const std::string& path, int flags);

// kDataLoss as above; what is not there, or cannot be looked at, is no error. For files that others
// open, which then say what is wrong.
absl::Status CheckRegularFile(const std::string& path);

// The suffix of temporary files: what a crash leaves is recognised by it.
inline constexpr char kTemporarySuffix[] = ".writing";
// Under which `path` is written first, in the same folder. Where the suffix would make the name
// longer than one may be, a short name is made of it.
std::string TemporaryOf(const std::string& path);

// What was made, renamed or deleted inside a folder survives a loss of power only after this.
absl::Status SyncDirectory(const std::string& path);

// The folder and those above it that are missing; each new one is synced into the one that holds
// it.
absl::Status MakeDirectories(const std::string& path);

// Writes `path` under a temporary name, syncs it, renames it into place and syncs the folder. After
// an error the file is as it was, unless only the last sync failed: then it is the new one. One
// writer at a time.
absl::Status ReplaceFile(const std::string& path, absl::string_view content);

// Likewise of a file that `write` makes at the path that it is given, however large; its errors
// pass through.
absl::Status ReplaceFileBy(const std::string& path,
                           const std::function<absl::Status(const std::string& temporary)>& write);

// All of a small file, as OpenRegularFile opens it. kNotFound: it is not there; kDataLoss: longer
// than `most_bytes`, too.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t most_bytes = 1 << 20);

// Likewise of one that a person names, or that Kubernetes mounts: where it is a link, of what that
// leads to, and no error says to remove anything. kDataLoss: it is no file, or too long.
absl::StatusOr<std::string> ReadGivenFile(const std::string& path, size_t most_bytes = 1 << 20);

}  // namespace muster
