// The files that `data.paths` names, in one order on every machine.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "muster/task_options.h"

namespace muster {

struct WalkedFile {
  std::filesystem::path path;
  std::filesystem::path below;  // path relative to the item of data.paths; empty: it is the item
};

// The folder of a run, a cluster or a person's settings that `path` is or lies in, whatever links
// lead there; empty: none. Tokens, keys and checkpoints of others lie below it, which the user of
// the workers can read, and whoever submitted the job may not.
std::filesystem::path OurOwnAround(const std::filesystem::path& path);

// Gives every file to `take`, which returns why it cannot be read (empty: it can), until `full`.
// What is left out, for people; empty: nothing. Errors and order as muster/corpus.h tells.
absl::StatusOr<std::string> WalkFiles(
    const DataSpec& data, const std::function<bool()>& full,
    const std::function<std::string(const WalkedFile& file)>& take);

// kInvalidArgument: `what` ("no sample") is all that there is in data.paths.
absl::Status NothingIn(const DataSpec& data, absl::string_view what);

}  // namespace muster
