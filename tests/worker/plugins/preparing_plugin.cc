// A plug-in whose task prepares something, in the way that its parameter `prepares` says. Each time
// that it begins to it adds its process to the file `runs` of the folder `notes`.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "tests/worker/plugins/odd_task.h"

namespace {

using muster::Preparation;
using muster::TaskOptions;

// Whether it is the first one.
bool Note(const TaskOptions& options) {
  const std::string runs = options.Text("notes") + "/runs";
  const bool is_first = !std::ifstream(runs).is_open();
  std::ofstream(runs, std::ios::app) << getpid() << '\n';
  return is_first;
}

absl::Status Prepare(const TaskOptions& options, const Preparation& preparation) {
  const std::string& prepares = options.Text("prepares");
  const bool is_first = Note(options);
  if (prepares == "nothing") return absl::OkStatus();
  std::ofstream(preparation.folder + "/half") << "of it";
  preparation.progress(0.5, "half of it");
  if (prepares == "once it was killed" && is_first)
    while (true) pause();
  if (prepares == "and tells for ever")
    std::thread([tell = preparation.progress] {
      while (true) tell(0.5, "still");
    }).detach();
  if (prepares == "and is killed") raise(SIGKILL);
  if (prepares == "and throws") throw std::runtime_error("no luck");
  if (prepares == "on a full disk")
    throw std::system_error(ENOSPC, std::generic_category(), "writing");
  if (prepares == "of bad data") return absl::DataLossError("rows.csv:7: no number");
  if (options.seed != 0 || !options.prepared.empty()) return absl::InternalError("not so");
  std::ofstream ids(preparation.folder + "/ids");
  ids << (prepares == "something else each time" ? getpid() : 40);
  return ids.flush() ? absl::OkStatus() : absl::InternalError("it cannot be written");
}

muster::TaskType Preparing(const std::string& name, bool reads_files) {
  muster::TaskType type = muster::OddType(name);
  type.info.data_needed = reads_files;
  if (reads_files) type.info.default_samples = 0;
  type.info.parameters.push_back(
      muster::TaskParameter::Text("prepares", "as it should", {}, "what it does then"));
  type.info.parameters.push_back(muster::TaskParameter::Text("notes", "", {}, "a folder"));
  type.prepare = Prepare;
  type.make = [make = type.make](const TaskOptions& options) {
    if (int ids = 0; !(std::ifstream(options.prepared + "/ids") >> ids))
      throw std::runtime_error("'" + options.prepared + "/ids' is not there");
    return make(options);
  };
  return type;
}

// With a checkpoint it needs no folder, and to generate no data either.
muster::TaskType Holding(const std::string& name) {
  muster::TaskType type = Preparing(name, true);
  type.info.model_holds_all = true;
  type.make = [make = type.make](const TaskOptions& options) {
    return options.prepared.empty() ? muster::OddType().make(options) : make(options);
  };
  return type;
}

}  // namespace

MUSTER_PLUGIN(Preparing("preparing", false), Preparing("preparing-files", true),
              Holding("preparing-holding"))
