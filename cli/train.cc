#include "cli/train.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_file.h"
#include "cli/spec_file.h"
#include "cli/train_run.h"
#include "lib/base/exit_codes.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

absl::StatusOr<JobRequest> RequestFrom(const TrainArguments& arguments) {
  JobRequest request;
  MUSTER_ASSIGN_OR_RETURN(request.spec, ReadSpec(arguments.spec, arguments.settings,
                                                 arguments.workers, arguments.servers));
  if (!arguments.faults.empty()) {
    MUSTER_ASSIGN_OR_RETURN(request.faults, ReadTextFile(arguments.faults));
    request.faults_source = arguments.faults;
  }
  request.lease = arguments.lease;
  request.thread_patience = arguments.thread_patience;
  request.plugins = arguments.plugins;
  request.accept = arguments.accept;
  request.mlflow = arguments.mlflow;
  request.shows_details = arguments.details;
  request.folder = arguments.dir.empty() ? FreshFolder(request.spec.runtime.name) : arguments.dir;
  return request;
}

std::string CommandToGoOn(const TrainArguments& arguments, const Resume& resume,
                          const std::string& folder) {
  std::string command = absl::StrCat("muster train ", ShellWord(arguments.spec));
  if (arguments.workers) absl::StrAppend(&command, " --workers ", *arguments.workers);
  if (arguments.servers) absl::StrAppend(&command, " --servers ", *arguments.servers);
  if (arguments.lease > 0) absl::StrAppend(&command, " --lease ", arguments.lease);
  if (arguments.thread_patience > 0)
    absl::StrAppend(&command, " --thread-patience ", arguments.thread_patience);
  for (const std::string& plugins : arguments.plugins)
    absl::StrAppend(&command, " --plugins ", ShellWord(plugins));
  for (const std::string& word : WordsOf(arguments.mlflow))
    absl::StrAppend(&command, " ", ShellWord(word));
  for (const std::string& setting : arguments.settings)
    absl::StrAppend(&command, " --set ", ShellWord(setting));
  // With the same value it would begin again where this run began.
  if (resume.kind != ResumeKind::kLatest) absl::StrAppend(&command, " --set resume=latest");
  return absl::StrCat(command, " --dir ", ShellWord(folder));
}

void SayResult(const JobResult& result, Screen& screen, std::ostream& err) {
  if (!result.error.ok()) {
    err << "muster: " << PrintableLines(result.error.message()) << std::endl;
    return;
  }
  screen.Say(ResultText(result));
  if (!result.sample.empty())
    screen.Say(absl::StrCat("  a sample of the trained model:\n", result.sample, "\n"));
}

}  // namespace

int ShowRun(const absl::StatusOr<JobRequest>& request,
            const std::function<std::string(const std::string& folder)>& to_go_on, bool json,
            const ClusterMaker& make_cluster, const Terminal& terminal) {
  Screen screen(terminal, json);
  const JobResult result =
      request.ok() ? RunJob(*request, make_cluster, screen) : FailedResult(request.status());
  screen.Finish();
  SayResult(result, screen, terminal.err);
  if (request.ok() && request->spec.training.validation.wanted())
    if (const std::string command = CommandToMeasure(result, request->plugins); !command.empty())
      screen.Say(absl::StrCat("to measure the final state: ", command));
  if (result.exit_code == kExitLater || result.job.state == "stopped")
    screen.Say(absl::StrCat("to go on: ", to_go_on(result.folder)));
  screen.Emit(ResultJson(result));
  return result.exit_code;
}

int Train(const TrainArguments& arguments, const ClusterMaker& make_cluster,
          const Terminal& terminal) {
  const absl::StatusOr<JobRequest> request = RequestFrom(arguments);
  return ShowRun(
      request,
      [&](const std::string& folder) {
        return CommandToGoOn(arguments, request->spec.runtime.resume, folder);
      },
      arguments.json, make_cluster, terminal);
}

namespace {

// Where other hosts join: beside the place where they are to find the coordinator.
std::string JoinListenOf(const UpArguments& arguments) {
  if (!arguments.join_listen.empty() || arguments.coordinator.empty()) return arguments.join_listen;
  return arguments.coordinator.substr(0, arguments.coordinator.rfind(':')) + ":0";
}

absl::StatusOr<ClusterOptions> OptionsFrom(const UpArguments& arguments) {
  ClusterOptions options{.folder = arguments.dir,
                         .coordinator = arguments.coordinator,
                         .host = arguments.host,
                         .node = arguments.node,
                         .metrics_address = arguments.metrics_address,
                         .metrics_port = arguments.metrics_port,
                         .http = arguments.listen,
                         .workers = kMaxProcesses,  // of jobs that are to come
                         .servers = kMaxProcesses,
                         .has_follower = true,
                         .has_reader = true,
                         .slots = arguments.slots,
                         .devices = arguments.devices,
                         .join = JoinListenOf(arguments),
                         .webhooks = arguments.webhooks,
                         .mlflow = arguments.mlflow,
                         .lease = arguments.lease,
                         .thread_patience = arguments.thread_patience,
                         .plugins = arguments.plugins};
  if (arguments.faults.empty()) return options;
  MUSTER_ASSIGN_OR_RETURN(options.faults, ReadTextFile(arguments.faults));
  options.faults_source = arguments.faults;
  return options;
}

// `muster up` from start to end.
class UpRun {
 public:
  explicit UpRun(const Terminal& terminal) : screen_(terminal, /*json=*/false) {}

  absl::StatusOr<int> Run(const UpArguments& arguments, const ClusterMaker& make_cluster) {
    MUSTER_ASSIGN_OR_RETURN(const ClusterOptions options, OptionsFrom(arguments));
    has_address_ = !arguments.coordinator.empty();
    MUSTER_ASSIGN_OR_RETURN(cluster_, make_cluster(options, Events()));
    Say(absl::StrCat("cluster in ", cluster_->folder(), " with ", Plural(arguments.slots, "slot")));
    if (cluster_->LiesOnOwnDisk())
      Say(absl::StrCat("note: ", LostWithThisHost("the jobs", cluster_->folder())));
    cluster_->Start();
    cluster_->Run();
    return code_;
  }

 private:
  ClusterEvents Events() {
    return {.on_start = [this](const ProcessStart& start) { OnStart(start); },
            .on_exit = [this](const ProcessExit& exit) { OnExit(exit); },
            .on_report =
                [this](const ProcessReport& report) {
                  if (IsNoteOfCoordinator(report)) Say(report.text);
                },
            .on_fault = [this](const std::string& text) { Say(text); },
            .on_coordinator = [this](bool up) { OnCoordinator(up); },
            .on_no_coordinator = [this](const std::string& why) { OnNotHeard(why); },
            .on_interrupt = [this](int) { OnInterrupt(); },
            .on_stopped = [this] { cluster_->Quit(); }};
  }

  // That the coordinator is there is said when it answers.
  void OnStart(const ProcessStart& start) {
    if (!start.job.empty()) Say(TextOf(start));
  }

  void OnExit(const ProcessExit& exit) {
    if (stopping_) return;
    if (IsLeftForNow(exit)) return screen_.SayAgain(CauseOfLeaving(exit), exit.text);
    if (!exit.given_up || !exit.is_coordinator)
      return Say(exit.job.empty() ? exit.text : absl::StrCat("job ", exit.job, ": ", exit.text));
    Say(WhyGivenUp(exit, cluster_->folder()));
    const bool named = exit.code == kExitBadConfiguration || exit.code == kExitBadData;
    code_ = named ? exit.code : kExitFailed;
    Stop();
  }

  // Each time that it ends we are told that it is not up; one that never was is no news. Nobody is
  // told to submit jobs before one can.
  void OnCoordinator(bool up) {
    if (stopping_ || std::exchange(is_up_, up) == up) return;
    if (up) screen_.NotAgain();
    Say(up ? absl::StrCat("ready at ", cluster_->url()) : "the coordinator does not answer");
    if (!up || std::exchange(was_up_, true)) return;
    Say(absl::StrCat("submit jobs with: muster submit SPEC.yaml --dir ",
                     ShellWord(cluster_->folder())));
    if (has_address_)
      Say(absl::StrCat("other hosts join with: muster agent --coordinator ",
                       cluster_->coordinator(), " --dir ", ShellWord(cluster_->folder()),
                       " where they see that folder, else with --join ", cluster_->join(),
                       " --join-token-file FILE --identity FOLDER and a copy of ",
                       JoinSecretFileOf(cluster_->folder()), "; who loses that folder loses the ",
                       "jobs, but for what muster adopt can take from its checkpoints"));
  }

  void OnNotHeard(const std::string& why) {
    if (!stopping_) screen_.SayAgain(why, NotHeard(cluster_->host(), why));
  }

  // The second time it ends at once.
  void OnInterrupt() {
    if (!stopping_) Say(WhatIsCutOff());
    Stop();
  }

  std::string WhatIsCutOff() const {
    const std::vector<std::string> jobs = cluster_->JobsUnderWay();
    if (jobs.empty()) return "stopping; no job is under way";
    return absl::StrCat("stopping, which cuts off ", jobs.size() == 1 ? "job " : "jobs ",
                        Join(jobs), "; the same command goes on with ",
                        jobs.size() == 1 ? "it" : "them", ", from the newest checkpoint");
  }

  void Stop() {
    stopping_ = true;
    cluster_->Stop();
  }

  // What counted before stays as a line of its own.
  void Say(const std::string& text) {
    screen_.Finish();
    screen_.Say(text);
  }

  Screen screen_;
  std::unique_ptr<Cluster> cluster_;
  int code_ = kExitDone;
  bool has_address_ = false;  // at which other hosts may join
  bool is_up_ = false;
  bool was_up_ = false;  // at any time
  bool stopping_ = false;
};

}  // namespace

int Up(const UpArguments& arguments, const ClusterMaker& make_cluster, const Terminal& terminal) {
  const absl::StatusOr<int> code = UpRun(terminal).Run(arguments, make_cluster);
  if (code.ok()) return *code;
  terminal.err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  return ExitCodeOf(code.status());
}

}  // namespace muster::cli
