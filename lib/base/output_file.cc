#include "lib/base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "lib/base/descriptor.h"
#include "lib/base/file_lock.h"
#include "lib/base/printable.h"
#include "lib/base/removed_on_signal.h"
#include "lib/base/status.h"
#include "lib/base/whole_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("--output: '", CutMiddle(Printable(path)), "' ", why));
}

absl::Status TooLong(const std::string& path) {
  return Refused(path, "is longer than a name may be here; take a shorter one");
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::Status CannotBeMade(const std::string& path, absl::string_view why) {
  return Refused(path, absl::StrCat("cannot be made: ", why, "; name another place"));
}

absl::Status CheckFolder(const std::string& folder, const std::string& path) {
  const std::string shown = absl::StrCat("'", CutMiddle(Printable(folder)), "'");
  const auto why = [] { return std::generic_category().message(errno); };
  struct stat there {};
  const bool is_there = stat(folder.c_str(), &there) == 0;
  if (!is_there && errno == ENOENT)
    return Refused(path, absl::StrCat("cannot be made: there is no folder ", shown,
                                      "; make it, or name another place"));
  if (is_there ? !S_ISDIR(there.st_mode) : errno == ENOTDIR)
    return CannotBeMade(path, absl::StrCat(shown, " is no folder"));
  if (!is_there) return CannotBeMade(path, absl::StrCat(shown, " cannot be used (", why(), ")"));
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return absl::OkStatus();
  return CannotBeMade(path, absl::StrCat(shown, " cannot be written (", why(), ")"));
}

absl::Status IsWrittenNow(const std::string& path) {
  return Refused(path, "is written by another command now; wait for it to end, or name another");
}

// What is written first takes the place of what a crash left, and of nothing else.
absl::Status CheckTemporary(const std::string& path, const std::string& temporary) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(temporary, error);
  if (!fs::exists(there) || fs::is_regular_file(there)) return absl::OkStatus();
  return Refused(path, absl::StrCat("is written as '", CutMiddle(Printable(temporary)),
                                    "' first, and something that is no file is there; remove it"));
}

// The file that `path` leads to, once nothing is in the way.
absl::StatusOr<std::string> Resolve(const std::string& path) {
  if (path.empty()) return absl::FailedPreconditionError("--output: it is empty; name a file");
  if (absl::EndsWith(path, "/")) return Refused(path, "is the name of a folder; name a file in it");
  // What is written takes the place of a file at once, or not at all, which no stream does.
  if (path == "-") return Refused(path, "stands for no output here; name a file");
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) {
    if (errno == ENAMETOOLONG) return TooLong(path);
    MUSTER_RETURN_IF_ERROR(CheckFolder(FolderOf(path), path));
    MUSTER_RETURN_IF_ERROR(CheckTemporary(path, TemporaryOf(path)));
    return path;
  }
  std::string real = path;
  if (S_ISLNK(there.st_mode)) {
    std::error_code error;
    real = fs::canonical(path, error).string();
    if (error || stat(path.c_str(), &there) != 0)
      return Refused(path,
                     "is a symbolic link that leads to no file; remove it, or name another file");
  }
  if (S_ISDIR(there.st_mode)) return Refused(path, "is a folder, and no file; name one");
  if (!S_ISREG(there.st_mode))
    return Refused(path, "is no file; name one, which is replaced if it is there");
  MUSTER_RETURN_IF_ERROR(CheckFolder(FolderOf(real), path));
  MUSTER_RETURN_IF_ERROR(CheckTemporary(path, TemporaryOf(real)));
  return real;
}

// Whoever named `path` does not know of the other name.
absl::Status Named(const absl::Status& status, const std::string& temporary,
                   const std::string& path) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrReplaceAll(status.message(), {{temporary, path}}));
}

// Of a folder, whose temporary one is no file that could be locked.
std::string LockOf(const std::string& folder) { return TemporaryOf(TemporaryOf(folder)); }

// Whoever holds the lock at `lock` writes `path`, and nobody else does.
absl::StatusOr<Descriptor> Claim(const std::string& path, const std::string& lock) {
  // One that ends just then takes its file away, or gives it its name: a lock on that is none here.
  for (int tries = 0; tries < 16; ++tries) {
    absl::StatusOr<Descriptor> claimed = LockFile(lock);
    if (absl::IsAborted(claimed.status())) return IsWrittenNow(path);
    // Of a file system that has no locks, for one.
    if (absl::IsUnavailable(claimed.status()))
      return CannotBeMade(path, claimed.status().message());
    MUSTER_RETURN_IF_ERROR(Named(claimed.status(), lock, path));
    if (IsLockAt(*claimed, lock)) return claimed;
  }
  return IsWrittenNow(path);
}

// `write` gives the file at the path that it gets its new content.
absl::Status WriteAlone(const std::string& path,
                        const std::function<absl::Status(const std::string& real)>& write) {
  MUSTER_ASSIGN_OR_RETURN(const std::string real, Resolve(path));
  const std::string temporary = TemporaryOf(real);
  MUSTER_ASSIGN_OR_RETURN(const Descriptor claimed, Claim(path, temporary));
  const RemovedOnSignal removed(claimed, temporary);
  return Named(write(real), temporary, path);
}

absl::Status CheckNewFolder(const std::string& path) {
  if (path.empty()) return absl::FailedPreconditionError("--output: it is empty; name a folder");
  struct stat there {};
  if (lstat(path.c_str(), &there) == 0)
    return Refused(path, "is there already; remove it, or name another");
  if (errno == ENAMETOOLONG) return TooLong(path);
  // The nearest that is there.
  std::error_code error;
  fs::path above = fs::absolute(path, error).parent_path();
  while (lstat(above.c_str(), &there) != 0 && (errno == ENOENT || errno == ENOTDIR) &&
         above != above.parent_path())
    above = above.parent_path();
  MUSTER_RETURN_IF_ERROR(CheckFolder(above.string(), path));
  return CheckTemporary(path, LockOf(path));
}

}  // namespace

absl::Status CheckOutputFile(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string real, Resolve(path));
  return IsFileLocked(TemporaryOf(real)) ? IsWrittenNow(path) : absl::OkStatus();
}

absl::Status CheckOutputFolder(const std::string& path) {
  MUSTER_RETURN_IF_ERROR(CheckNewFolder(path));
  return IsFileLocked(LockOf(path)) ? IsWrittenNow(path) : absl::OkStatus();
}

absl::Status CheckFolderToFill(const std::string& path) {
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && S_ISDIR(there.st_mode)) return CheckFolder(path, path);
  if (lstat(path.c_str(), &there) == 0) return Refused(path, "is no folder; name one");
  return CheckOutputFolder(path);
}

absl::Status WriteOutputFile(const std::string& path, absl::string_view content) {
  return WriteAlone(path, [&](const std::string& real) { return ReplaceFile(real, content); });
}

absl::Status WriteOutputFileBy(
    const std::string& path,
    const std::function<absl::Status(const std::string& temporary)>& write) {
  return WriteAlone(path, [&](const std::string& real) { return ReplaceFileBy(real, write); });
}

absl::Status WriteOutputFolderBy(
    const std::string& path,
    const std::function<absl::Status(const std::string& temporary)>& write) {
  MUSTER_RETURN_IF_ERROR(CheckNewFolder(path));
  MUSTER_RETURN_IF_ERROR(MakeDirectories(FolderOf(path)));
  const std::string lock = LockOf(path);
  MUSTER_ASSIGN_OR_RETURN(const Descriptor claimed, Claim(path, lock));
  const absl::Cleanup unlock = [&] { unlink(lock.c_str()); };
  // Another command may have made it until now.
  MUSTER_RETURN_IF_ERROR(CheckNewFolder(path));
  const std::string temporary = TemporaryOf(path);
  std::error_code ignored;
  const auto remove = [&] { fs::remove_all(temporary, ignored); };
  const auto fill = [&]() -> absl::Status {
    MUSTER_RETURN_IF_ERROR(MakeDirectories(temporary));
    MUSTER_RETURN_IF_ERROR(write(temporary));
    MUSTER_RETURN_IF_ERROR(SyncDirectory(temporary));
    if (rename(temporary.c_str(), path.c_str()) != 0) return FileError(errno, "make", path);
    return absl::OkStatus();
  };
  remove();
  absl::Cleanup undone = remove;
  MUSTER_RETURN_IF_ERROR(Named(fill(), temporary, path));
  std::move(undone).Cancel();
  return SyncDirectory(FolderOf(path));
}

}  // namespace muster
