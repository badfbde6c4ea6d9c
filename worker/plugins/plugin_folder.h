// The plug-ins of a host: shared libraries that bring tasks (muster/plugin.h), in folders that its
// operator has named. Nothing is read from them before a task is asked for that is no part of
// Muster.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/hash_listener.h"
#include "muster/plugin.h"
#include "worker/plugins/load_watch.h"

namespace muster::worker {

struct PluginTask {
  TaskType type;
  std::string file;                             // of the plug-in
  std::string hash;                             // SHA-256 of that file, when it was loaded
  bool has_changed = false;                     // another one lies there since
  SetHashListener set_hash_listener = nullptr;  // of what it links; null: it opens no data set
};

// What there is in the folders.
struct FoundPlugins {
  std::vector<PluginTask> tasks;
  std::vector<std::string> refused;  // files that bring none, each with the reason, for people
};

// Loads each *.so of each folder, in the order given and in name order; they stay loaded, and the
// code of a path is that which this process loaded first, whatever lies there later. A file or
// a folder that others than its owner and group may write to is refused, as is one that was built
// against something else, or a task of a name that is there already. kInvalidArgument: a folder
// that cannot be read. `enters` is told before code of each file runs, as of Preparing. One that
// takes longer to be loaded than `patience` ends the process.
absl::StatusOr<FoundPlugins> LoadPlugins(
    const std::vector<std::string>& folders,
    const std::function<void(const std::string& what)>& enters = [](const std::string&) {},
    const LoadPatience& patience = LoadPatience());

}  // namespace muster::worker
