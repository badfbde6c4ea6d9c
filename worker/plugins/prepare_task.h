// What a task of a plug-in prepares once on this machine (TaskType::prepare), before it is made.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/lease.h"
#include "lib/base/time.h"
#include "lib/data/hash_listener.h"
#include "lib/data/prepare_once.h"
#include "muster/task_options.h"
#include "worker/plugins/plugin_folder.h"

namespace muster::worker {

struct Preparing {
  std::string folders = PreparedFolders();
  std::string kept_hashes = KeptHashFolder();  // of data; empty: it is read each time
  // As of PrepareOnceOptions. Where nobody may wait, nothing is begun either.
  std::function<void(const PreparedSoFar&)> told = [](const PreparedSoFar&) {};
  std::function<bool()> may_wait = [] { return true; };
  // Data is read, of which `told` hears nothing. Not for people: a sign that nothing hangs.
  std::function<void()> goes_on = [] {};
  // How long a thread of this process may stand still, and what tells people what was mended, for
  // as long as the task lives. Any thread.
  Duration patience = kDefaultThreadPatience;
  std::function<void(const std::string& text)> warns{};
  // What the task prepares is there; what comes next has no words of its own.
  std::function<void()> is_over = [] {};
  // Told before code of others runs: "task mlp of plug-in /opt/mlp.so".
  std::function<void(const std::string& what)> enters = [](const std::string&) {};
  // Of the task that was made for the same job before, for another part of its data: what was
  // prepared for it, and MadeTask::plugin.
  PreparedPtr known{};
  std::string plugin{};
  // The state of the task will be that of a checkpoint (TaskInfo::model_holds_all).
  bool is_for_checkpoint = false;
};

// What is opened tells this of itself.
HashListener ListenerOf(const Preparing& preparing);

// `options` are those that the task is made with. Null: it prepares nothing, or needs none of it.
// kFailedPrecondition: this machine has no place for it; others as PrepareOnce, TaskType::prepare
// and OpenDataSet.
absl::StatusOr<PreparedPtr> PrepareTask(const PluginTask& plugin, TaskOptions options,
                                        const Preparing& preparing);

}  // namespace muster::worker
