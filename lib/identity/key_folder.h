// Where a host that joins for as long as it runs keeps its keys: on its own disk, as folders of
// runs are shared. The same command finds the folder of the one before that was killed: its host is
// known by the key at once, and nothing is left beside it.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/descriptor.h"

namespace muster {

class KeyFolder {
 public:
  // In TMPDIR. `of`: what tells this run of this host from all others. Where another process uses
  // the folder of that, or another user has put something in its place, it is one of our own.
  static absl::StatusOr<std::unique_ptr<KeyFolder>> Make(absl::string_view of);
  ~KeyFolder();  // with all that is in it
  KeyFolder(const KeyFolder&) = delete;
  KeyFolder& operator=(const KeyFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  KeyFolder(std::string path, Descriptor held) : path_(std::move(path)), held_(std::move(held)) {}

  const std::string path_;
  const Descriptor held_;  // locked
};

}  // namespace muster
