// The files that `data.paths` names, in one order on every machine.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "muster/task_options.h"

namespace muster {

struct WalkedFile {
  std::filesystem::path path;
  std::filesystem::path below;  // path relative to the item of data.paths; empty: it is the item
};

// Gives every file to `take`, which returns why it cannot be read (empty: it can), until `full`.
// What is left out, for people; empty: nothing. Errors and order as muster/corpus.h tells.
absl::StatusOr<std::string> WalkFiles(
    const DataSpec& data, const std::function<bool()>& full,
    const std::function<std::string(const WalkedFile& file)>& take);

}  // namespace muster
