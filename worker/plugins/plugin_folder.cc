#include "worker/plugins/plugin_folder.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/mutex.h"
#include "lib/base/status.h"
#include "lib/domain/job.h"
#include "lib/domain/labels.h"
#include "lib/kernels/sha256.h"
#include "lib/task/registry.h"
#include "lib/wire/task_parameters.h"
#include "worker/plugins/library_extent.h"
#include "worker/plugins/operator_file.h"

namespace muster::worker {
namespace {

namespace fs = std::filesystem;

// Of a regular file that stays as it is meanwhile, and is a library as a whole if it is one.
absl::StatusOr<std::string> HashOf(const std::string& path) {
  Sha256 hash;
  LibraryExtent extent;
  MUSTER_RETURN_IF_ERROR(ReadOperatorFile(
      path, [](uint64_t) { return absl::OkStatus(); },
      [&](absl::Span<const std::byte> piece) {
        hash.Update(piece);
        extent.Add(piece);
      }));
  MUSTER_RETURN_IF_ERROR(extent.Check());
  return hash.HexFinish();
}

// Both sides of the first thing that differs.
absl::Status CheckBuild(const PluginBuild& theirs) {
  const PluginBuild ours = kBuildHere;
  if (theirs.interface != ours.interface)
    return absl::InvalidArgumentError(
        absl::StrCat("it was built for version ", theirs.interface,
                     " of the interface of plug-ins, and this muster has version ", ours.interface,
                     "; build it again with muster ", ours.muster));
  const struct {
    const char* what;
    absl::string_view theirs;
    absl::string_view ours;
  } pairs[] = {{"muster", theirs.muster, ours.muster},
               {"LibTorch", theirs.torch, ours.torch},
               {"Abseil", theirs.abseil, ours.abseil},
               {"the C++ library's strings", theirs.standard, ours.standard}};
  for (const auto& pair : pairs) {
    if (pair.theirs == pair.ours || (pair.what == pairs[1].what && pair.theirs.empty())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "it was built with ", pair.what, " ", pair.theirs, ", and this muster with ",
        pair.ours.empty() ? "none" : pair.ours, "; build it again with what this muster has"));
  }
  return absl::OkStatus();
}

// Values travel as JSON, and whole numbers as doubles, which have each of them only so far.
absl::Status CheckBounds(const TaskParameter& parameter) {
  constexpr double kMostWhole = 9007199254740992;  // 2^53
  constexpr double kMostReal = 1e300;
  const bool is_whole =
      parameter.kind == ParameterKind::kInteger || parameter.kind == ParameterKind::kIntegers;
  const bool is_real =
      parameter.kind == ParameterKind::kReal || parameter.kind == ParameterKind::kReals;
  if (!is_whole && !is_real) return absl::OkStatus();
  const double most = is_whole ? kMostWhole : kMostReal;
  if (-most <= parameter.min && parameter.min <= parameter.max && parameter.max <= most)
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "takes ", parameter.min, " to ", parameter.max, "; the first is to be the smaller, and ",
      is_whole ? "of whole numbers both lie within ±2^53" : "both lie within ±1e300"));
}

absl::Status CheckParameters(const TaskInfo& info) {
  std::set<std::string> names;
  nlohmann::json defaults = nlohmann::json::object();
  for (const TaskParameter& parameter : info.parameters) {
    if (!names.insert(parameter.name).second)
      return absl::InvalidArgumentError(
          absl::StrCat("its task ", info.name, " has two parameters ", parameter.name));
    if (const absl::Status bad = CheckBounds(parameter); !bad.ok())
      return absl::InvalidArgumentError(absl::StrCat("parameter ", parameter.name, " of its task ",
                                                     info.name, " ", bad.message()));
    defaults[parameter.name] = FromParameter(parameter.default_value);
  }
  if (info.multiple.empty() != info.divisor.empty() ||
      (!info.multiple.empty() && (!names.contains(info.multiple) || !names.contains(info.divisor))))
    return absl::InvalidArgumentError(
        absl::StrCat("its task ", info.name, " has a rule about parameters that it has not: '",
                     info.multiple, "' is to be a multiple of '", info.divisor, "'"));
  ParameterValues values;
  MUSTER_RETURN_IF_ERROR(ReadUnknownParameters({}, defaults, values));  // names
  return Prefix(absl::StrCat("the defaults of its task ", info.name),
                ReadParameters({}, defaults, info, values));
}

absl::Status CheckInfo(const TaskInfo& info) {
  if (!IsDnsLabel(info.name))
    return absl::InvalidArgumentError(
        absl::StrCat("it has a task '", info.name, "'; a name is ", kDnsLabelRule));
  if (FindTask(info.name) != nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("its task ", info.name, " has the name of one that is part of Muster"));
  if (info.data_needed == (info.default_samples > 0))
    return absl::InvalidArgumentError(absl::StrCat(
        "its task ", info.name,
        info.data_needed ? " needs data.paths, and has a number of samples that it makes"
                         : " neither needs data.paths nor says how many samples it makes"));
  return CheckParameters(info);
}

absl::StatusOr<std::vector<TaskType>> TasksOf(const Plugin& plugin) {
  MUSTER_RETURN_IF_ERROR(CheckBuild(plugin.build));
  if (plugin.tasks == nullptr) return absl::InvalidArgumentError("it tells no tasks");
  std::vector<TaskType> tasks = plugin.tasks();
  if (tasks.empty()) return absl::InvalidArgumentError("it has no task");
  for (const TaskType& type : tasks) {
    MUSTER_RETURN_IF_ERROR(CheckInfo(type.info));
    if (!type.make)
      return absl::InvalidArgumentError(
          absl::StrCat("its task ", type.info.name, " says not how it is made"));
  }
  return tasks;
}

// What this process loaded first under each path: it stays loaded, and dlopen gives the same code
// again for a path that it knows. As long as the process; any thread.
class LoadedFirst {
 public:
  // `now`: of what lies there.
  std::string HashOf(const std::string& path, const std::string& now) {
    const MutexLock lock(mutex_);
    return hashes_.try_emplace(path, now).first->second;
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::string> hashes_ ABSL_GUARDED_BY(mutex_);
};

LoadedFirst& OfThisProcess() {
  static auto& loaded = *new LoadedFirst;
  return loaded;
}

struct Loaded {
  std::string hash;  // of the file whose code it is
  std::vector<TaskType> types;
  SetHashListener set_hash_listener = nullptr;
};

absl::StatusOr<Loaded> Load(const std::string& path, const std::string& hash) {
  // What it needs of others is found now, not in the middle of a step.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    absl::string_view why = dlerror();
    absl::ConsumePrefix(&why, path + ": ");  // whoever tells of it names the file
    return absl::InvalidArgumentError(absl::StrCat("it cannot be loaded: ", why));
  }
  Loaded loaded{.hash = OfThisProcess().HashOf(path, hash), .types = {}};
  const auto entry = reinterpret_cast<const Plugin* (*)()>(dlsym(library, "muster_plugin"));
  if (entry == nullptr)
    return absl::InvalidArgumentError(
        "it is no plug-in of Muster: it exports no function muster_plugin (MUSTER_PLUGIN of "
        "muster/plugin.h makes one)");
  const Plugin* plugin = entry();
  if (plugin == nullptr) return absl::InvalidArgumentError("its muster_plugin returns nothing");
  MUSTER_ASSIGN_OR_RETURN(loaded.types, TasksOf(*plugin));
  loaded.set_hash_listener = reinterpret_cast<SetHashListener>(dlsym(library, kSetHashListener));
  return loaded;
}

absl::StatusOr<Loaded> LoadGuarded(const std::string& path, const std::string& hash,
                                   const LoadPatience& patience) {
  const LoadWatch watch(path, patience);
  try {
    return Load(path, hash);
  } catch (const std::exception& thrown) {
    return absl::InvalidArgumentError(absl::StrCat("it throws when it is loaded: ", thrown.what()));
  } catch (...) {
    return absl::InvalidArgumentError("it throws what is no exception when it is loaded");
  }
}

absl::Status AddFile(const std::string& path, const LoadPatience& patience, FoundPlugins& found) {
  MUSTER_ASSIGN_OR_RETURN(const std::string hash, HashOf(path));
  MUSTER_ASSIGN_OR_RETURN(Loaded loaded, LoadGuarded(path, hash, patience));
  std::vector<TaskType>& types = loaded.types;
  MUSTER_ASSIGN_OR_RETURN(const std::string hash_after, HashOf(path));
  if (hash != hash_after) return absl::InvalidArgumentError("it changed while it was loaded");
  for (auto type = types.begin(); type != types.end(); ++type)
    if (std::any_of(types.begin(), type,
                    [&](const TaskType& other) { return other.info.name == type->info.name; }))
      return absl::InvalidArgumentError(
          absl::StrCat("it has two tasks of the name ", type->info.name));
  for (const TaskType& type : types)
    for (const PluginTask& other : found.tasks)
      if (other.type.info.name == type.info.name)
        return absl::InvalidArgumentError(
            absl::StrCat("its task ", type.info.name, " is one of ", other.file, ", too"));
  for (TaskType& type : types)
    found.tasks.push_back({.type = std::move(type),
                           .file = path,
                           .hash = loaded.hash,
                           .has_changed = loaded.hash != hash,
                           .set_hash_listener = loaded.set_hash_listener});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> LibrariesIn(const std::string& folder) {
  MUSTER_RETURN_IF_ERROR(CheckOperatorFolder(folder));
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (absl::EndsWith(it->path().filename().string(), ".so")) files.push_back(it->path().string());
  if (error)
    return absl::InvalidArgumentError(
        absl::StrCat("--plugins: ", folder, " cannot be read: ", error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<FoundPlugins> LoadPlugins(const std::vector<std::string>& folders,
                                         const std::function<void(const std::string& what)>& enters,
                                         const LoadPatience& patience) {
  // A plug-in that was built where Muster lay elsewhere would look for this there. Without it here
  // it may find it by itself; if not, its own error says so.
  dlopen("libmuster_plugin.so", RTLD_NOW | RTLD_LOCAL);
  FoundPlugins found;
  for (const std::string& folder : folders) {
    MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> files, LibrariesIn(folder));
    for (const std::string& file : files) {
      enters(absl::StrCat("plug-in ", file, ", which it loads"));
      if (const absl::Status added = AddFile(file, patience, found); !added.ok())
        found.refused.push_back(absl::StrCat(file, ": ", added.message()));
    }
  }
  return found;
}

}  // namespace muster::worker
