// muster-worker: one worker process of one job, or its follower. The main thread trains, or
// measures.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/exit_codes.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/launch/host_limits.h"
#include "lib/launch/member_program.h"
#include "lib/log/log.h"
#include "worker/commands/commands.h"
#include "worker/plugins/make_any_task.h"
#include "worker/plugins/prepare_news.h"
#include "worker/runtime/trainer.h"
#include "worker/torch/numerics.h"
#include "worker/torch/report.h"

namespace muster::worker {
namespace {

// What members of a job have to have alike, beside what the trainer itself finds.
std::string Properties(const std::string& plugin, const PreparedPtr& prepared) {
  return absl::StrCat(
      TorchProperties(), plugin.empty() ? "" : absl::StrCat("plugin ", plugin, "\n"),
      prepared == nullptr ? "" : absl::StrCat("prepared sha256:", prepared->hash(), "\n"));
}

// Tells people how far what a task prepares is, and the coordinator, which is told by the exchange
// thread. Any thread.
class PrepareWords {
 public:
  explicit PrepareWords(MemberProcess& process) : process_(process) {}

  void Tell(const PreparedSoFar& so_far) {
    const auto now = std::chrono::steady_clock::now();
    process_.port().progress.GoesOn(now);
    PrepareNews::News news = news_.In(so_far, now);
    if (news.for_coordinator)
      process_.events()->Post(StillPrepares{*std::move(news.for_coordinator)});
    if (!news.for_people) return;
    const std::string text = TextOf(so_far);
    LogInfo("%s", text);
    process_.reporter().Prepares(text);
  }
  // What comes now is the model.
  void Over() {
    news_.Over();
    process_.events()->Post(StillPrepares{});
  }

 private:
  MemberProcess& process_;
  PrepareNews news_;
};

// `lane_file`: empty, of a follower, which runs no lane of training.
absl::Status Train(MemberProcess& process, const std::string& lane_file,
                   const std::vector<std::string>& plugin_folders) {
  std::unique_ptr<LaneCounter> lanes;
  if (!lane_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(lanes, LaneCounter::Open(lane_file, process.id().incarnation));
  }
  TrainerParts parts;
  parts.follows = lane_file.empty();
  parts.port = &process.port();
  parts.events = process.events();
  parts.copied = &process.copied();
  parts.metrics = &process.metrics();
  parts.failpoints = &process.failpoints();
  parts.lanes = lanes.get();
  PrepareWords words(process);
  Preparing preparing;
  preparing.told = [&words](const PreparedSoFar& so_far) { words.Tell(so_far); };
  preparing.goes_on = [&process] {
    process.port().progress.GoesOn(std::chrono::steady_clock::now());
  };
  preparing.enters = [&process, &preparing](const std::string& what) {
    process.port().progress.Runs(what);
    preparing.goes_on();
  };
  preparing.is_over = [&words] { words.Over(); };
  preparing.may_wait = [&process] { return !process.port().box.closed(); };
  preparing.warns = [](const std::string& text) { LogWarning("%s", text); };
  parts.comes = [&process, &preparing](const JobSpec& job) {
    preparing.patience =
        std::max(process.ThreadPatience(), DurationOf(job.runtime.thread_patience));
  };
  parts.make_task =
      [&](const TrainingSpec& training, DataPart part,
          std::shared_ptr<const SpoolMap> spool) -> absl::StatusOr<std::unique_ptr<Task>> {
    absl::StatusOr<MadeTask> any =
        MakeAnyTask(training, part, plugin_folders, preparing, std::move(spool));
    process.port().progress.Runs("");
    MUSTER_ASSIGN_OR_RETURN(MadeTask made, std::move(any));
    words.Over();
    preparing.plugin = made.plugin;
    preparing.known = std::move(made.prepared);
    return std::move(made.task);
  };
  parts.library_properties = [&] { return Properties(preparing.plugin, preparing.known); };
  Trainer(std::move(parts)).Run();
  return absl::OkStatus();
}

// A task that calls exit would end this process with what it says, and 0 means that all is done.
std::atomic<bool> ends_by_itself = false;

void RefuseExit() {
  if (ends_by_itself) return;
  constexpr absl::string_view kWords =
      "what the task or its plug-in runs has called exit; let it return an error or throw\n";
  static_cast<void>(!write(STDERR_FILENO, kWords.data(), kWords.size()));
  std::_Exit(kExitFailed);
}

[[noreturn]] void End(int exit_code) {
  ends_by_itself = true;
  EndProcess(exit_code);
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  std::atexit(muster::worker::RefuseExit);
  muster::EndInWordsAtLimits("muster-worker", muster::kExitFailed);
  if (const std::optional<int> code = muster::worker::RunCommand(argc, argv))
    muster::worker::End(*code);
  std::string dir = ".", lane_file;
  bool follows = false;
  std::vector<std::string> plugin_folders;
  muster::MemberProgram program;
  program.name = "muster-worker";
  program.description =
      "A worker of a Muster job: it computes lanes and owns chunks. With --follow it is the job's "
      "follower, which measures its model instead. muster-worker tasks and muster-worker check "
      "answer for `muster tasks` and `muster check`";
  program.role = [&] { return follows ? muster::Role::kFollower : muster::Role::kWorker; };
  program.add_options = [&](CLI::App& app) {
    app.add_option("--dir", dir, "directory of the job's local files")->capture_default_str();
    app.add_option("--lane-count", lane_file, "file that counts lanes (DIR/run/NAME.lanes)");
    app.add_flag("--follow", follows,
                 "measure the model beside the workers (validation.on: follower)");
    app.add_option("--plugins", plugin_folders,
                   "folder of plug-ins, shared libraries that bring tasks; may be given again")
        ->allow_extra_args(false)
        ->type_name("FOLDER");
    app.add_flag(
        "--libtorch",
        // As --version, it counts before whatever else is missing.
        [](int64_t) {
          throw CLI::CallForVersion(
              std::string(absl::StripSuffix(muster::worker::LibTorchReport(), "\n")),
              CLI::ExitCodes::Success);
        },
        "print what LibTorch is here and what devices it finds, and end");
  };
  program.work = [&](muster::MemberProcess& process, const muster::ProcessOptions& options) {
    if (follows)
      lane_file.clear();
    else if (lane_file.empty())
      lane_file = dir + "/run/" + options.name + ".lanes";
    return muster::worker::Train(process, lane_file, plugin_folders);
  };
  muster::worker::End(muster::RunMember(argc, argv, program));
}
