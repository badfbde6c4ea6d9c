// Which file of a folder that grows is taken next. Files come by being renamed into it, and are
// taken in the order of their bytes. A list of a folder is made name by name, so that one that was
// put there first may be missing where a later one is not: what is decided rests on names that an
// earlier list had, too. Lives as long as the source is read from one place. Single-threaded.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/domain/stream.h"

namespace muster {

// Of this name: there will be no more files.
inline constexpr char kStreamEndName[] = "END";
// So many names a folder may have at a time.
inline constexpr size_t kMostStreamFiles = size_t{1} << 20;

// Whether a source looks at it. Nobody looks at names with a dot in front.
inline bool IsStreamFile(const std::string& name) { return !name.empty() && name[0] != '.'; }

// Samples of a whole file. kDataLoss: it ends within one; `path` names it.
absl::StatusOr<uint64_t> SamplesOfFile(const std::string& path, const FileIdentity& identity,
                                       uint64_t sample_bytes);

// Of a file that is there when a source begins at `place`, with a name that is not behind
// place.file: kDataLoss where nobody can have taken it, since it came later.
absl::Status CheckTaken(const std::string& path, const FileIdentity& identity,
                        const StreamPlace& place);

enum class FolderStep { kTake, kLookAgain, kWait, kEnd };

class FolderOrder {
 public:
  explicit FolderOrder(std::string last) : last_(std::move(last)) {}

  // A list that was begun after the one before it: names that IsStreamFile, sorted. kDataLoss: a
  // file that sorts before the last one that was taken has come since the list before; `folder`
  // names it.
  absl::Status See(const std::string& folder, std::vector<std::string> names);

  // Of what was seen. kTake: `name` is the next one. kLookAgain: one more list, at once, will tell.
  // kWait: nothing is there. kEnd: all was taken, and there will be no more.
  FolderStep Next(std::string& name) const;
  // It is begun.
  void Took(const std::string& name) { last_ = name; }

 private:
  bool HadBefore(const std::string& name) const;

  std::string last_;
  bool has_seen_ = false;
  std::vector<std::string> before_;  // in the list before
  std::vector<std::string> names_;   // in the last list
};

}  // namespace muster
