#include "cli/train.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/format.h"
#include "cli/job_file.h"
#include "cli/job_run.h"
#include "cli/spec_file.h"
#include "lib/base/exit_codes.h"
#include "lib/base/status.h"

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
  request.folder = arguments.dir.empty() ? FreshFolder(request.spec.runtime.name) : arguments.dir;
  return request;
}

std::string CommandToGoOn(const TrainArguments& arguments, const Resume& resume,
                          const std::string& folder) {
  std::string command = absl::StrCat("muster train ", ShellWord(arguments.spec));
  if (arguments.workers) absl::StrAppend(&command, " --workers ", *arguments.workers);
  if (arguments.servers) absl::StrAppend(&command, " --servers ", *arguments.servers);
  for (const std::string& setting : arguments.settings)
    absl::StrAppend(&command, " --set ", ShellWord(setting));
  // The same again would begin where this run began.
  if (resume.kind != ResumeKind::kLatest) absl::StrAppend(&command, " --set resume=latest");
  return absl::StrCat(command, " --dir ", ShellWord(folder));
}

void SayResult(const JobResult& result, Screen& screen, std::ostream& err) {
  if (!result.error.ok()) {
    err << "muster: " << result.error.message() << std::endl;
    return;
  }
  screen.Say(ResultText(result));
  if (!result.sample.empty())
    screen.Say(absl::StrCat("  a sample of the trained model:\n", result.sample, "\n"));
}

}  // namespace

int Train(const TrainArguments& arguments, const ClusterMaker& make_cluster,
          const Terminal& terminal) {
  const Screen::Kind kind = arguments.json         ? Screen::Kind::kJson
                            : terminal.is_terminal ? Screen::Kind::kTerminal
                                                   : Screen::Kind::kPlain;
  Screen screen(terminal.out, kind, terminal.width);
  const absl::StatusOr<JobRequest> request = RequestFrom(arguments);
  const JobResult result =
      request.ok() ? RunJob(*request, make_cluster, screen) : FailedResult(request.status());
  screen.Finish();
  SayResult(result, screen, terminal.err);
  if (result.exit_code == kExitLater)
    screen.Say(absl::StrCat("to go on: ",
                            CommandToGoOn(arguments, request->spec.runtime.resume, result.folder)));
  screen.Emit(ResultJson(result));
  return result.exit_code;
}

int Up(const UpArguments& arguments, const ClusterMaker& make_cluster, const Terminal& terminal) {
  std::unique_ptr<Cluster> cluster;
  int code = 0;
  bool stopping = false;
  const auto say = [&](const std::string& text) { terminal.out << text << std::endl; };
  ClusterEvents events;
  events.on_exit = [&](const ProcessExit& exit) {
    if (stopping) return;
    say(exit.text);
    if (!exit.given_up || !exit.is_coordinator) return;
    say(exit.last_lines);
    const bool named = exit.code == kExitBadConfiguration || exit.code == kExitBadData;
    code = named ? exit.code : kExitFailed;
    stopping = true;
    cluster->Stop();
  };
  events.on_coordinator = [&](bool up) {
    if (!stopping)
      say(up ? absl::StrCat("ready at ", cluster->url()) : "the coordinator does not answer");
  };
  events.on_interrupt = [&](int) {
    stopping = true;
    cluster->Stop();
  };
  events.on_stopped = [&] { cluster->Quit(); };
  auto made = make_cluster({.folder = arguments.dir,
                            .http = arguments.listen,
                            .allow_plaintext = arguments.allow_plaintext},
                           std::move(events));
  if (!made.ok()) {
    terminal.err << "muster: " << made.status().message() << std::endl;
    return ExitCodeOf(made.status());
  }
  cluster = *std::move(made);
  say(absl::StrCat("cluster in ", cluster->folder(),
                   "; submit jobs with: muster submit SPEC.yaml --to ", cluster->url()));
  cluster->Start();
  cluster->Run();
  return code;
}

}  // namespace muster::cli
