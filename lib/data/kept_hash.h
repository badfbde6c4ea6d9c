// Hashes of data sets that this machine has computed before, kept below the user's cache folder: a
// file for each description of a data set and state of its files, called by their SHA-256. A file
// that has changed makes another name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/task_options.h"

namespace muster {

// What is looked at of a file in place of its bytes. Times in nanoseconds since 1970.
struct FileStamp {
  std::string path;
  std::string below;  // the path relative to the item of data.paths: classes follow from it
  uint64_t bytes = 0;
  uint64_t inode = 0;
  int64_t modified = 0;
  int64_t changed = 0;  // of its entry, too: no tool sets this back
  bool operator==(const FileStamp&) const = default;
};
// kUnavailable and others as FileError.
absl::StatusOr<FileStamp> StampOf(const std::string& path, const std::string& below);

// 64 digits, of all in `data` that says what the samples are, of the files, in their order, and of
// `versions`, those of whatever decodes them. Pure.
std::string KeptHashKey(const DataSpec& data, const std::vector<FileStamp>& files,
                        const std::string& versions);

// Whether a file was changed so shortly before `now` that it may change again without another time:
// a file system's clock ticks some hundred times a second, and that of another machine, by which a
// file system of a network goes, may be a little behind. Pure.
bool MayChangeUnseen(const std::vector<FileStamp>& files, int64_t now);

// $XDG_CACHE_HOME/muster/NAME, or that in ~/.cache; empty: there is no such place.
std::string CacheFolder(const std::string& name);
inline std::string KeptHashFolder() { return CacheFolder("hashes"); }

// Nothing: none is kept, or what is there is no hash.
std::optional<std::string> FindKeptHash(const std::string& folder, const std::string& key);
// `about`, a line, tells people what it is of.
absl::Status KeepHash(const std::string& folder, const std::string& key, const std::string& hash,
                      const std::string& about);

}  // namespace muster
