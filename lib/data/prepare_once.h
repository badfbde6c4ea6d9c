// Work that is done once on a machine, however many processes want what comes of it: a folder below
// the user's cache that is there whole or not at all. One process makes it, beside its place, with
// a lock that the system frees when that process ends in whatever way; the others wait, and see how
// far it is. What one left half-made is thrown away and begun afresh. Whoever uses a folder shares
// its lock, so that nobody takes it away meanwhile.
//
//   NAME.lock      held by whoever makes NAME, shared by who uses it; holds what the maker says
//   NAME.making/   what is made
//   NAME/files/    what was made
//   NAME/hash      that of its bytes
//   NAME/stamps    a hash of what the system said of its files when their bytes were hashed
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "lib/base/descriptor.h"
#include "lib/data/kept_hash.h"

namespace muster {

// Of all prepared folders; empty: there is no place for them.
inline std::string PreparedFolders() { return CacheFolder("prepared"); }

// How far the work is.
struct PreparedSoFar {
  double share = 0;    // 0 to 1
  std::string what{};  // one line for people, printable
  int64_t maker = 0;   // the process that does it; 0: it is not known
  bool is_ours = true;
  bool hashes = false;  // the work is the hash of the data, and not what a task prepares
  bool operator==(const PreparedSoFar&) const = default;
};
// For people: "is prepared: 42 %, merge 84 of 200", or that of the process that is waited for.
// Pure.
std::string TextOf(const PreparedSoFar& so_far);

// What the maker writes down for those who wait, and what they read; of what is no such line,
// nothing is known. Pure.
inline constexpr size_t kSoFarBytes = 256;
inline constexpr size_t kMostWhatBytes = 160;  // of `what`
std::string SoFarLine(const PreparedSoFar& so_far);
PreparedSoFar SoFarOf(absl::string_view line);

class PreparedFolder {
 public:
  PreparedFolder(std::string files, std::string hash, bool was_there, Descriptor in_use)
      : files_(std::move(files)),
        hash_(std::move(hash)),
        was_there_(was_there),
        in_use_(std::move(in_use)) {}

  const std::string& files() const { return files_; }  // path of the folder
  // SHA-256 of all names below it and the bytes of all files.
  const std::string& hash() const { return hash_; }
  bool was_there() const { return was_there_; }  // it was not made for us

 private:
  const std::string files_;
  const std::string hash_;
  const bool was_there_;
  const Descriptor in_use_;  // its lock
};
using PreparedPtr = std::shared_ptr<const PreparedFolder>;

struct PrepareOnceOptions {
  std::string folders;  // made where it is missing
  std::string name;     // of the folder: letters and digits
  std::string about;    // a line for people: what it is of
  // Of a folder that is there, all bytes are read and hashed again; else only where a file is not
  // as it was when its bytes were read, or was so fresh then that it could change unseen.
  bool verifies = true;
  int64_t now = absl::GetCurrentTimeNanos();  // nanoseconds since 1970
  size_t keeps = 8;  // folders, those that were used last; others go unless they are used now
  // Makes it, in `files`, which is empty. `progress` may be called by any thread, and often.
  std::function<absl::Status(const std::string& files,
                             const std::function<void(double, const std::string&)>& progress)>
      make;
  // How far it is, ours or another's, five times a second at most; on the thread that says so.
  std::function<void(const PreparedSoFar&)> told = [](const PreparedSoFar&) {};
  // Whether it is of use to wait on.
  std::function<bool()> may_wait = [] { return true; };
};

// Errors of `make` pass through, and leave nothing behind. kFailedPrecondition: it made no file, or
// what is none. kCancelled: waiting was of no use any more. kUnavailable: the folder has changed
// since it was made, and is in use. Others as FileError, also of a disk that is full.
absl::StatusOr<PreparedPtr> PrepareOnce(const PrepareOnceOptions& options);

}  // namespace muster
