// How a shared library brings tasks into Muster's workers: it exports `muster_plugin`, which the
// macro below defines.
//
//   MUSTER_PLUGIN(muster::TypeOf<Mlp>({.name = "mlp", ...}));
//
// A worker reads plug-ins from folders that its host's operator names (--plugins), and from
// nowhere else. See docs/plugins.md.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "muster/task.h"
#include "muster/task_info.h"
#include "muster/task_options.h"
#include "muster/version.h"

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#endif

namespace muster {

// Grows with each change after which a library that was built before would be misunderstood.
inline constexpr uint32_t kPluginInterface = 9;

// Where TaskType::prepare puts what it makes, and whom it tells how far it is.
struct Preparation {
  // Empty. Files and folders below it are what is prepared; it has another path once it is done.
  std::string folder;
  // How much is done, from 0 to 1, and one line for people. Any thread, and as often as you like;
  // what is told after `prepare` has returned nobody hears.
  std::function<void(double share, const std::string& what)> progress;
};

struct TaskType {
  TaskInfo info;
  // `options` hold every parameter of `info`, each within its bounds. kFailedPrecondition: they do
  // not go together (exit code 64); kInvalidArgument or kDataLoss: bad data (65); the message names
  // the field or the file. Called on the train thread.
  std::function<absl::StatusOr<std::unique_ptr<Task>>(const TaskOptions& options)> make;
  // Work that is done once on each machine before a task is made, by one of its workers while the
  // others wait: a tokenizer that is trained, data that is converted. What it writes is found in
  // `options.prepared` by `make`, for each part of the data; and by later jobs with these
  // parameters and this data. The same bytes each time, on every machine: their hash is compared.
  // So `options` are of the training data, and their seed is 0; what the files are called, and
  // threads, must not matter. Whoever writes looks at whether it could. Errors as of `make`; what
  // is half-made is thrown away. Not called for a model of a checkpoint that holds all of it
  // (TaskInfo::model_holds_all). nullptr: there is no such work.
  std::function<absl::Status(const TaskOptions& options, const Preparation& preparation)> prepare{};
};

template <class T>
concept Prepares = requires(const TaskOptions& options, const Preparation& preparation) {
  { T::Prepare(options, preparation) } -> std::same_as<absl::Status>;
};

// Of a class that is constructed of the options, and throws where it cannot be. A static member
// function Prepare, as `prepare` above, is taken for that.
template <class T>
TaskType TypeOf(TaskInfo info) {
  TaskType type{std::move(info),
                [](const TaskOptions& options) { return std::make_unique<T>(options); }};
  if constexpr (Prepares<T>) type.prepare = &T::Prepare;
  return type;
}

// What both sides have to have been built with: text, so that a person sees what differs.
struct PluginBuild {
  uint32_t interface = 0;
  const char* muster = "";    // version
  const char* torch = "";     // version; empty: built without LibTorch
  const char* abseil = "";    // name of its inline namespace
  const char* standard = "";  // of the C++ library's strings
};

struct Plugin {
  PluginBuild build;  // first, and looked at before anything else
  std::vector<TaskType> (*tasks)() = nullptr;
};

#define MUSTER_TEXT_OF_2(x) #x
#define MUSTER_TEXT_OF(x) MUSTER_TEXT_OF_2(x)

#ifdef TORCH_VERSION
#define MUSTER_TORCH_VERSION TORCH_VERSION
#else
#define MUSTER_TORCH_VERSION ""
#endif

// Of whoever includes this.
inline constexpr PluginBuild kBuildHere = {kPluginInterface, MUSTER_VERSION, MUSTER_TORCH_VERSION,
                                           MUSTER_TEXT_OF(ABSL_OPTION_INLINE_NAMESPACE_NAME),
#if _GLIBCXX_USE_CXX11_ABI
                                           "cxx11"
#else
                                           "before cxx11"
#endif
};

}  // namespace muster

// Exports the tasks that are named, each a muster::TaskType.
#define MUSTER_PLUGIN(...)                                                                  \
  extern "C" __attribute__((visibility("default"))) const muster::Plugin* muster_plugin() { \
    static const muster::Plugin plugin = {                                                  \
        muster::kBuildHere, [] { return std::vector<muster::TaskType>{__VA_ARGS__}; }};     \
    return &plugin;                                                                         \
  }
