// muster-worker: one worker process of one job. The main thread trains.
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/launch/member_program.h"
#include "worker/runtime/trainer.h"
#include "worker/tasks/make_task.h"
#include "worker/torch/numerics.h"
#include "worker/torch/report.h"

namespace muster::worker {
namespace {

absl::Status Train(MemberProcess& process, const std::string& lane_file) {
  MUSTER_ASSIGN_OR_RETURN(const auto lanes, LaneCounter::Open(lane_file, process.id().incarnation));
  TrainerParts parts;
  parts.port = &process.port();
  parts.events = process.events();
  parts.copied = &process.copied();
  parts.metrics = &process.metrics();
  parts.failpoints = &process.failpoints();
  parts.lanes = lanes.get();
  parts.make_task = [&copied = process.copied()](const TrainingSpec& training) {
    return MakeTask(training, copied);
  };
  parts.library_properties = TorchProperties;
  Trainer(std::move(parts)).Run();
  return absl::OkStatus();
}

}  // namespace
}  // namespace muster::worker

int main(int argc, char** argv) {
  std::string dir = ".", lane_file;
  muster::MemberProgram program;
  program.name = "muster-worker";
  program.description = "A worker of a Muster job: it computes lanes and owns chunks";
  program.role = muster::Role::kWorker;
  program.add_options = [&](CLI::App& app) {
    app.add_option("--dir", dir, "directory of the job's local files")->capture_default_str();
    app.add_option("--lane-count", lane_file, "file that counts lanes (DIR/run/NAME.lanes)");
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
    if (lane_file.empty()) lane_file = dir + "/run/" + options.name + ".lanes";
    return muster::worker::Train(process, lane_file);
  };
  muster::worker::EndProcess(muster::RunMember(argc, argv, program));
}
