#include "cli/run.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/agent.h"
#include "cli/cluster_folder.h"
#include "cli/format.h"
#include "cli/job_file.h"
#include "cli/json_text.h"
#include "cli/meeting.h"
#include "cli/spec_file.h"
#include "cli/train.h"
#include "lib/base/exit_codes.h"
#include "lib/base/plural.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/job_id.h"
#include "lib/domain/validation.h"
#include "lib/launch/host_list.h"

namespace muster::cli {
namespace {

// "10.0.0.1:7070" → "10.0.0.1"
std::string BeforePort(const std::string& address) { return address.substr(0, address.rfind(':')); }

// Where the first host is known by a name, which may lead to another address each time.
constexpr int kNamedPort = 7070;  // and the next one for those who join

constexpr int kFolderPatience = 30;  // seconds until whoever has the folder of a host has let it go

// What all hosts of a run work out alike, each for itself.
struct RunPlan {
  LaunchPlan launch;
  JobSpec spec;
  std::string folder;
  std::string id;    // of the job; empty: a new one
  std::string host;  // name of this one
  int slots = 1;     // of each host
};

absl::StatusOr<std::string> FolderOf(const RunArguments& arguments, const LaunchPlan& plan,
                                     const std::string& name) {
  if (!arguments.dir.empty()) return arguments.dir;
  if (!plan.run_id.empty()) return absl::StrCat("muster-runs/", name, "-", plan.run_id);
  if (plan.hosts_max == 1) return FreshFolder(name);
  return absl::InvalidArgumentError(
      absl::StrCat("the launcher (", NameOf(plan.launcher),
                   ") gives this run no id of its own: give all hosts the same --dir, a folder "
                   "that they all see, or the same --run-id"));
}

// As many members as there may be on all hosts, evenly.
absl::StatusOr<int> SlotsOf(const LaunchPlan& plan, const JobSpec& spec) {
  const int most = MostMembersOf(spec);
  const int slots = plan.slots.value_or((most + plan.hosts_min - 1) / plan.hosts_min);
  const int64_t least = LeastMembersOf(spec);
  if (int64_t{slots} * plan.hosts_max >= least) return slots;
  return absl::InvalidArgumentError(absl::StrCat(
      "the job needs room for ", least, " members, but ", Plural(plan.hosts_max, "host"), " of ",
      Plural(slots, "slot"), " have room for ", int64_t{slots} * plan.hosts_max,
      ": raise --nproc-per-node, or start more hosts"));
}

absl::Status ReadNodeFile(const Environment& environment, LaunchPlan& plan) {
  const auto named = environment.find("PBS_NODEFILE");
  if (named == environment.end() || named->second.empty() || !ReadsNodeFile(plan))
    return absl::OkStatus();
  const absl::StatusOr<std::string> content = ReadTextFile(named->second);
  if (content.ok()) return Prefix("PBS_NODEFILE", TakeNodeFile(*content, plan));
  plan.notes.push_back(absl::StrCat("PBS_NODEFILE: ", content.status().message(),
                                    "; where the other hosts reach this one, --interface says"));
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> PlanRun(const RunArguments& arguments,
                                const RunSurroundings& surroundings) {
  RunPlan plan;
  // Not every runtime of containers sets it.
  Environment environment = surroundings.environment;
  environment.try_emplace("HOSTNAME", surroundings.machine);
  MUSTER_ASSIGN_OR_RETURN(plan.launch, PlanLaunch(environment, arguments.launch));
  MUSTER_RETURN_IF_ERROR(ReadNodeFile(surroundings.environment, plan.launch));
  MUSTER_ASSIGN_OR_RETURN(plan.spec, ReadSpec(arguments.spec, arguments.settings, arguments.workers,
                                              arguments.servers));
  const std::string& name = plan.spec.runtime.name;
  const std::string& run_id = plan.launch.run_id;
  MUSTER_ASSIGN_OR_RETURN(plan.folder, FolderOf(arguments, plan.launch, name));
  MUSTER_ASSIGN_OR_RETURN(plan.slots, SlotsOf(plan.launch, plan.spec));
  if (!run_id.empty())
    plan.id = absl::StrCat(name.substr(0, kLongestJobId - run_id.size() - 1), "-", run_id);
  plan.host = HostNameIn(plan.launch, surroundings.machine);
  return plan;
}

// Where the coordinator listens: this is the first host.
absl::StatusOr<std::string> CoordinatorOf(const RunArguments& arguments, const LaunchPlan& plan,
                                          const RunSurroundings& surroundings) {
  const std::string name = plan.first.empty() ? "" : plan.first + arguments.host_suffix;
  const bool asks =
      !plan.one_machine || !arguments.interface.empty() || !arguments.launch.coordinator.empty();
  if (!asks) return "127.0.0.1:0";
  const absl::StatusOr<std::string> address = surroundings.address(arguments.interface, name);
  const int port = plan.comes_again && plan.port == 0 ? kNamedPort : plan.port;
  if (address.ok()) return absl::StrCat(*address, ":", port);
  if (!arguments.interface.empty()) return address.status();  // which names the option
  const bool is_named = !arguments.launch.coordinator.empty();
  return Prefix(is_named ? "--coordinator" : NameOf(plan.launcher), address.status());
}

// By what the others find the first host, which this is; empty: by its address.
std::string KnownAs(const RunArguments& arguments, const LaunchPlan& plan,
                    const RunSurroundings& surroundings) {
  if (!plan.comes_again) return "";
  const bool is_named = !arguments.launch.coordinator.empty() || !arguments.host_suffix.empty();
  return is_named ? plan.first + arguments.host_suffix : surroundings.full_name(plan.first);
}

// Where they join.
std::string JoinOf(const LaunchPlan& plan, const std::string& coordinator) {
  const int port = plan.comes_again ? (plan.port == 0 ? kNamedPort : plan.port) + 1 : 0;
  return absl::StrCat(BeforePort(coordinator), ":", port);
}

absl::StatusOr<JobRequest> RequestOf(const RunArguments& arguments, const RunPlan& plan,
                                     const RunSurroundings& surroundings) {
  JobRequest request{.spec = plan.spec,
                     .folder = plan.folder,
                     .metrics_address = arguments.metrics_address,
                     .metrics_port = arguments.metrics_port,
                     .lease = arguments.lease,
                     .thread_patience = arguments.thread_patience,
                     .plugins = arguments.plugins,
                     .accept = arguments.accept,
                     .mlflow = arguments.mlflow,
                     .shows_details = arguments.details,
                     .id = plan.id,
                     .shows_logs = arguments.logs,
                     .bind_cores = arguments.bind_cores};
  if (plan.launch.ends_at) {
    const int64_t left =
        *plan.launch.ends_at - surroundings.unix_seconds() - arguments.stop_before_end;
    request.stop_after = std::chrono::seconds(std::max<int64_t>(0, left));
  }
  // One host alone needs none of this, unless a person has asked for it.
  const bool is_named = plan.launch.slots || !arguments.launch.coordinator.empty() ||
                        !arguments.interface.empty() || !arguments.node.empty();
  if (plan.launch.hosts_max == 1 && !is_named) return request;
  MUSTER_ASSIGN_OR_RETURN(const std::string coordinator,
                          CoordinatorOf(arguments, plan.launch, surroundings));
  request.hosts = HostsOfRun{.plan = plan.launch,
                             .coordinator = coordinator,
                             .join = JoinOf(plan.launch, coordinator),
                             .known_as = KnownAs(arguments, plan.launch, surroundings),
                             .host = plan.host,
                             .node = arguments.node,
                             .slots = plan.slots,
                             .patience = std::chrono::seconds(arguments.join_timeout)};
  return request;
}

// `why` names the folder and the process.
std::string StartedTwice(const RunPlan& plan, const absl::Status& why) {
  return absl::StrCat("host ", plan.host,
                      " of this run is started already and has not ended: ", why.message());
}

// Of a host that is started again elsewhere: what it was before may still be ending, and one too
// many ends with a code after which it is looked at again whether it is wanted.
ClusterMaker PatientWithFolder(const RunPlan& plan, const RunSurroundings& surroundings,
                               const ClusterMaker& make_cluster, const Terminal& terminal) {
  return [&](const ClusterOptions& options,
             const ClusterEvents& events) -> absl::StatusOr<std::unique_ptr<Cluster>> {
    absl::StatusOr<std::unique_ptr<Cluster>> made = make_cluster(options, events);
    for (int waited = 0; waited < kFolderPatience && absl::IsAlreadyExists(made.status());
         ++waited) {
      if (waited == 0)
        terminal.err << "muster: " << PrintableLines(StartedTwice(plan, made.status()))
                     << "; waiting for " << HowLong(kFolderPatience) << " for it to end"
                     << std::endl;
      if (surroundings.wait(std::chrono::seconds(1)))
        return absl::CancelledError("told to end before it had begun");
      made = make_cluster(options, events);
    }
    if (absl::IsAlreadyExists(made.status()))
      return absl::CancelledError(StartedTwice(plan, made.status()));
    return made;
  };
}

constexpr char kHasNoName[] =
    "this pod has no name that leads others to it: when it is replaced they do not find the one "
    "that comes. Give the pods `subdomain`, the name of a headless service with "
    "`publishNotReadyAddresses: true`; a JobSet does both";

// The first host.
int RunFirst(const RunArguments& arguments, const RunPlan& plan,
             const RunSurroundings& surroundings, const ClusterMaker& make_cluster,
             const Terminal& terminal) {
  // What a launcher gives in place of a terminal, as mpirun does, shows lines of other hosts, too.
  Terminal plain = terminal;
  const bool has_launcher =
      plan.launch.launcher != Launcher::kNone && plan.launch.launcher != Launcher::kOptions;
  plain.is_terminal = plain.is_terminal && !has_launcher;
  if (!arguments.json)
    for (const std::string& note : plan.launch.notes)
      terminal.out << "note: " << PrintableLines(note) << std::endl;
  absl::StatusOr<JobRequest> request = RequestOf(arguments, plan, surroundings);
  const bool comes_again = plan.launch.comes_again && request.ok() && request->hosts;
  if (comes_again && request->hosts->known_as.empty() && plan.launch.hosts_max > 1)
    terminal.err << "muster: note: " << kHasNoName << std::endl;
  if (arguments.over_ssh && request.ok() && request->hosts)
    request->hosts->on_enough = [&terminal] { terminal.out << kSshJoined << std::endl; };
  return ShowRun(
      request,
      [&](const std::string& folder) {
        return absl::StrCat("the same command", arguments.over_ssh ? "" : ", on all hosts,",
                            " with --dir ", ShellWord(folder));
      },
      arguments.json,
      comes_again ? PatientWithFolder(plan, surroundings, make_cluster, terminal) : make_cluster,
      plain);
}

// What a host says that is not the first one.
void Note(const std::string& text, bool json, const Terminal& terminal) {
  Screen screen(terminal, json);
  screen.Say(text);
  screen.Emit(Text(nlohmann::ordered_json({{"event", "note"}, {"text", text}})));
}

std::string MeaningOf(int code) {
  switch (code) {
    case kExitDone: return "exit code 0: the job is done";
    case kExitFailed: return "exit code 1: it failed";
    case kExitBadConfiguration: return "exit code 64: bad configuration";
    case kExitBadData: return "exit code 65: bad data";
    case kExitNotFinite: return "exit code 66: a step was not finite";
    case kExitStopped: return "exit code 67: a person stopped or cancelled the job";
    case kExitLater: return "exit code 75: it was ended early, and can go on";
    case kExitOtherEnvironment: return "exit code 78: data, library, machine or version do not fit";
    default: return absl::StrCat("exit code ", code);
  }
}

// Of a run that is over; `code` is how.
std::string HowToGoOn(const RunPlan& plan, int code) {
  return absl::StrCat(
      code == kExitDone ? "" : "to go on with it, start the same command on all hosts; ",
      "to begin another, give all hosts another --dir",
      plan.launch.run_id.empty() ? "" : " or another --run-id", "; muster status --dir ",
      ShellWord(plan.folder), " tells more");
}

std::string OverBeforeItJoined(const RunPlan& plan, int code) {
  return absl::StrCat("the run in ", plan.folder, " was over before this host, ", plan.host,
                      ", had joined it, so nothing ran here (", MeaningOf(code), "); ",
                      HowToGoOn(plan, code));
}

// Of a file that an earlier start of this run has left.
std::string WaitsForTheNext(const RunArguments& arguments, const RunPlan& plan, int code) {
  return absl::StrCat("the run in ", plan.folder, " is over (", MeaningOf(code), "): waiting for ",
                      HowLong(static_cast<double>(arguments.join_timeout)),
                      " for the first host to start it again",
                      code == kExitDone ? absl::StrCat("; ", HowToGoOn(plan, code)) : "");
}

absl::Status NotBegun(const RunArguments& arguments, const RunPlan& plan,
                      const absl::Status& trouble) {
  return absl::CancelledError(absl::StrCat(
      "the first host has not begun in ", plan.folder, " within ",
      HowLong(static_cast<double>(arguments.join_timeout)),
      ": look at what it prints, and see that all hosts see that folder; --join-timeout waits "
      "longer",
      trouble.ok() ? ""
                   : absl::StrCat(". What it writes there cannot be read: ", trouble.message())));
}

// Where the first host is. One that is over: before this host has joined. kCancelled: it has not
// begun; kDataLoss: it cannot, as something lies in the place of the file that tells of it.
absl::StatusOr<Meeting> AwaitFirst(const RunArguments& arguments, const RunPlan& plan,
                                   const MeetingReader& reader, const RunSurroundings& surroundings,
                                   const Terminal& terminal) {
  if (const std::optional<int> code = reader.EndedBefore())
    Note(WaitsForTheNext(arguments, plan, *code), arguments.json, terminal);
  for (int64_t waited = 0;; ++waited) {
    if (const std::optional<Meeting> meeting = reader.Look()) return *meeting;
    const absl::Status trouble = reader.Trouble();
    if (absl::IsDataLoss(trouble)) return trouble;
    if (waited == arguments.join_timeout) return NotBegun(arguments, plan, trouble);
    if (surroundings.wait(std::chrono::seconds(1)))
      return absl::CancelledError(
          absl::StrCat("told to end before the first host has begun in ", plan.folder));
  }
}

// What the first host was given counts, and people may have given this one something else.
void WarnOfOwnSpec(const RunArguments& arguments, const RunPlan& plan, const Terminal& terminal) {
  const std::vector<std::string> differences = DifferencesFrom(plan.folder, plan.spec);
  if (differences.empty()) return;
  constexpr size_t kMostNamed = 5;
  const size_t named = std::min(differences.size(), kMostNamed);
  Note(absl::StrCat("warning: the job is as the first host has it, and ", arguments.spec,
                    " with its options differs on this host, ", plan.host,
                    ", where it does not count (there against here): ",
                    absl::StrJoin(differences.begin(),
                                  differences.begin() + static_cast<std::ptrdiff_t>(named), "; "),
                    differences.size() > named
                        ? absl::StrCat("; and ", differences.size() - named, " more")
                        : "",
                    ". Give all hosts the same"),
       arguments.json, terminal);
}

std::string InUseText(const std::string& folder) {
  const std::string process(
      absl::StripAsciiWhitespace(ReadTextFile(folder + "/lock").value_or("")));
  return absl::StrCat(folder, " is in use by another muster (process ", process,
                      "): stop it or give another --dir");
}

// Any other one.
absl::StatusOr<int> RunOther(const RunArguments& arguments, const RunPlan& plan,
                             const RunSurroundings& surroundings, const ClusterMaker& make_cluster,
                             const Terminal& terminal) {
  AgentArguments agent;
  if (!arguments.interface.empty()) {
    MUSTER_ASSIGN_OR_RETURN(agent.address, surroundings.address(arguments.interface, ""));
  }
  const MeetingReader reader(plan.folder, plan.launch.run_id);
  MUSTER_ASSIGN_OR_RETURN(const Meeting meeting,
                          AwaitFirst(arguments, plan, reader, surroundings, terminal));
  const auto over = [&](int code) {
    Note(OverBeforeItJoined(plan, code), arguments.json, terminal);
    return code;
  };
  if (meeting.exit_code) return over(*meeting.exit_code);
  WarnOfOwnSpec(arguments, plan, terminal);
  agent.host = plan.host;
  agent.node = arguments.node;
  agent.lease = arguments.lease;
  agent.thread_patience = arguments.thread_patience;
  agent.plugins = arguments.plugins;
  agent.slots = plan.slots;
  agent.metrics_address = arguments.metrics_address;
  agent.metrics_port = arguments.metrics_port;
  agent.coordinator = meeting.coordinator;
  agent.dir = plan.folder;
  agent.bind_cores = arguments.bind_cores;
  agent.join = meeting.join;
  agent.join_token_file = JoinSecretFileOf(plan.folder);
  const std::string own = absl::StrCat(plan.folder, "/hosts/", plan.host);
  // What an earlier run has left of this host may still be ending.
  bool is_told = false;
  std::optional<int> over_with;  // before it has joined
  const ClusterMaker patient =
      [&](ClusterOptions options,
          const ClusterEvents& events) -> absl::StatusOr<std::unique_ptr<Cluster>> {
    bool has_moved = false;  // while it waits: what it has read may have been of an earlier run
    bool is_second = false;  // likewise: another one of this host has the folder
    options.join_patience = std::chrono::seconds(arguments.join_timeout);
    options.may_still_join = [&] {
      is_second = IsInUse(own);
      const std::optional<Meeting> now = reader.Look();
      if (!now) return true;
      over_with = now->exit_code;
      has_moved = now->join != options.join;
      options.join = now->join;
      options.coordinator = now->coordinator;
      return !over_with && !has_moved && !is_second;
    };
    // Looked at before it joins: with a key of its own it would be turned away for as long as the
    // other one runs.
    const auto make = [&]() -> absl::StatusOr<std::unique_ptr<Cluster>> {
      is_second = IsInUse(own);
      if (is_second) return absl::AlreadyExistsError(InUseText(own));
      absl::StatusOr<std::unique_ptr<Cluster>> made = make_cluster(options, events);
      if (!made.ok() && is_second) return absl::AlreadyExistsError(InUseText(own));
      return made;
    };
    absl::StatusOr<std::unique_ptr<Cluster>> made = make();
    for (int waited = 0; waited < kFolderPatience;) {
      const bool again = std::exchange(has_moved, false) && !over_with;
      if (!again && !absl::IsAlreadyExists(made.status())) break;
      if (!again && waited == 0)
        Note(absl::StrCat(StartedTwice(plan, made.status()), "; waiting for ",
                          HowLong(kFolderPatience), " for it to end"),
             arguments.json, terminal);
      if (!again) is_told = surroundings.wait(std::chrono::seconds(1));
      if (is_told) return made;
      // The run may have ended meanwhile, and with it what was in the way.
      if (const std::optional<Meeting> now = reader.Look(); now && now->exit_code)
        over_with = now->exit_code;
      if (over_with) return absl::CancelledError("the run is over");
      waited += again ? 0 : 1;
      made = make();
    }
    if (absl::IsAlreadyExists(made.status()) && plan.launch.comes_again)
      return absl::CancelledError(StartedTwice(plan, made.status()));
    if (absl::IsAlreadyExists(made.status()))
      return absl::AlreadyExistsError(
          absl::StrCat(StartedTwice(plan, made.status()),
                       ". Start each host of a run once, each with a --node-rank of its own"));
    return made;
  };
  const int code = RunHost(agent, reader, arguments.json, patient, terminal);
  if (over_with) return over(*over_with);
  return is_told ? kExitLater : code;
}

// What starts this command on each host that a person has named.
absl::StatusOr<SshRun> PlanSsh(const RunArguments& arguments, const RunSurroundings& surroundings,
                               Environment environment) {
  if (arguments.launch.number)
    return absl::InvalidArgumentError(
        "--node-rank is for a muster run that is started on each host: with --hosts or --hostfile "
        "leave it out, as the place in the list says it");
  if (!arguments.node.empty())
    return absl::InvalidArgumentError(
        "--node is the name of one machine: with --hosts or --hostfile leave it out, as all hosts "
        "would get the same");
  if (!arguments.hosts.empty() && !arguments.host_file.empty())
    return absl::InvalidArgumentError("--hosts and --hostfile are both given: give one of them");
  std::string text = arguments.hosts;
  if (text.empty()) {
    MUSTER_ASSIGN_OR_RETURN(text, ReadTextFile(arguments.host_file));
  }
  const absl::StatusOr<NamedHosts> named = ParseHostFile(text);
  MUSTER_RETURN_IF_ERROR(
      Prefix(arguments.hosts.empty() ? "--hostfile" : "--hosts", named.status()));
  MUSTER_ASSIGN_OR_RETURN(NamedHosts list, WithoutHosts(*named, arguments.exclude));
  if (arguments.launch.slots) list.slots.reset();  // it is among the words
  const std::string count = absl::StrCat(list.hosts.size());
  const LaunchOptions options{
      .hosts = arguments.launch.hosts.empty() ? count : arguments.launch.hosts, .number = 0};
  MUSTER_ASSIGN_OR_RETURN(const LaunchPlan plan, PlanLaunch({}, options));
  if (absl::StrCat(plan.hosts_max) != count)
    return absl::InvalidArgumentError(absl::StrCat("--nnodes is '", options.hosts, "', but ", count,
                                                   " hosts are named: leave it out, or give ",
                                                   "--nnodes MIN:", count,
                                                   " for a run that begins with MIN of them"));
  SshCommand command{.program = surroundings.program,
                     .folder = surroundings.folder,
                     .words = WordsForHosts(arguments.words),
                     .hosts_min = plan.hosts_min};
  if (arguments.launch.run_id.empty()) command.run_id = surroundings.draw_id();
  SshRun run{.names = list.hosts,
             .hosts_min = plan.hosts_min,
             .environment = std::move(environment),
             .patience = std::chrono::seconds(arguments.join_timeout),
             .json = arguments.json};
  for (size_t i = 0; i < list.hosts.size(); ++i)
    run.commands.push_back(SshCommandFor(command, list, static_cast<int>(i)));
  return run;
}

absl::StatusOr<int> RunHere(const RunArguments& arguments, RunSurroundings surroundings,
                            const ClusterMaker& make_cluster, const Terminal& terminal) {
  MUSTER_ASSIGN_OR_RETURN(const Environment named,
                          NamedEnvironment(arguments.env, surroundings.environment));
  if (!arguments.hosts.empty() || !arguments.host_file.empty()) {
    MUSTER_ASSIGN_OR_RETURN(const SshRun run, PlanSsh(arguments, surroundings, named));
    return surroundings.run_over_ssh(run);
  }
  if (!arguments.exclude.empty())
    return absl::InvalidArgumentError(
        "--exclude is for --hosts and --hostfile: a launcher has chosen its hosts before this "
        "begins, and has an option of its own, such as srun --exclude");
  for (const auto& [name, value] : named) {
    surroundings.environment[name] = value;
    surroundings.set_environment(name, value);
  }
  MUSTER_ASSIGN_OR_RETURN(const RunPlan plan, PlanRun(arguments, surroundings));
  if (const auto devices = DevicesOf(plan.launch, surroundings.environment, surroundings.devices()))
    surroundings.set_environment("CUDA_VISIBLE_DEVICES", *devices);
  if (plan.launch.number != 0)
    return RunOther(arguments, plan, surroundings, make_cluster, terminal);
  return RunFirst(arguments, plan, surroundings, make_cluster, terminal);
}

}  // namespace

int Run(const RunArguments& arguments, const RunSurroundings& surroundings,
        const ClusterMaker& make_cluster, const Terminal& terminal) {
  const absl::StatusOr<int> code = RunHere(arguments, surroundings, make_cluster, terminal);
  if (code.ok()) return *code;
  terminal.err << "muster: " << PrintableLines(code.status().message()) << std::endl;
  return absl::IsCancelled(code.status()) ? kExitLater : ExitCodeOf(code.status());
}

}  // namespace muster::cli
