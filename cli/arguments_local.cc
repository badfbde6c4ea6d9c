// Commands that start processes on this machine: train, run, demo, up, agent.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/arguments_parts.h"
#include "lib/base/lease.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

constexpr char kTrainFooter[] =
    "Ctrl-C stops the job after a checkpoint. A second Ctrl-C stops at once. After either the exit "
    "code is 75,\n"
    "and the same command with the same --dir goes on. A directory holds one job: when it is "
    "started again\n"
    "there, the fields that decide the result must be equal.\n"
    "\n"
    "A fault plan is a YAML list. At a step or second, kill or pause a process, and keep it so for "
    "steps or seconds:\n"
    "  - {at_step: 40, kill: worker-1}\n"
    "  - {at_step: 60, kill: coordinator, for_steps: 20}\n"
    "  - {at_second: 12, pause: random worker, for_seconds: 3}\n"
    "  - {at_point: \"half_sent:3\", kill: worker-2}   # it kills itself at the 3rd pass of a "
    "failpoint\n"
    "\n"
    "Examples:\n"
    "  muster train examples/code-lm.yaml --workers 2\n"
    "  muster train examples/counting.yaml --faults plan.yaml --dir runs/counting\n"
    "  muster train examples/code-lm.yaml --set optimizer.learning_rate=0.0005 --set seed=7\n"
    "  muster train examples/code-lm.yaml --json | jq 'select(.event == \"result\")'";

constexpr char kDemoFooter[] =
    "Trains a small language model on C++ headers with three workers, kills one of them early and "
    "then the\n"
    "coordinator, which stays away for more than 20 steps. Then trains the same job undisturbed "
    "with one worker up\n"
    "to a common step and compares fingerprints. Exit code 0 only if they agree.\n"
    "\n"
    "Example:\n"
    "  muster demo --dir runs/demo";

constexpr char kAgentFooter[] =
    "The host takes members of jobs as the coordinator places them, and starts those that fail "
    "again. It says so\n"
    "when it has joined; without a coordinator its members train on, and after ten minutes it ends "
    "with exit code 75.\n"
    "Ctrl-C ends its members, whose work others take over.\n"
    "\n"
    "The programs, the data of jobs and the cluster's folder are at the same paths on each host, "
    "as on shared storage.\n"
    "\n"
    "Example, on two hosts, the first of which is 10.0.0.1 (docs/operations.md tells more):\n"
    "  muster up --dir cluster --coordinator 10.0.0.1:7070                             on one\n"
    "  muster agent --dir cluster --coordinator 10.0.0.1:7070 --host b --slots 4       on the "
    "other";

constexpr char kRunFooter[] =
    "The same command on each host, started by srun, mpirun, torchrun, mpiexec of PBS or an "
    "Indexed "
    "Job, whose\n"
    "variables say which host is the first. It holds the coordinator; the others join it, and all "
    "end with the\n"
    "job's exit code. --dir must be a folder that all of them see. Without a launcher it is one "
    "host, or --nnodes\n"
    "and --node-rank say which of several; --hosts and --hostfile start it on each by ssh, "
    "without passwords.\n"
    "\n"
    "SIGTERM to a host lets its members leave at a step boundary, for which others go on; it ends "
    "with exit code 75.\n"
    "The first host stays until the run is over, or stops the job after a checkpoint when it is "
    "told again. Told to\n"
    "all, it stops the job after a checkpoint, and all end with 75; so does SIGUSR1 or SIGUSR2 to "
    "the first, with\n"
    "which launchers say that time runs out. The same command with the same --dir goes on.\n"
    "\n"
    "Examples:\n"
    "  srun --nodes 4 --ntasks-per-node 1 muster run job.yaml --workers 16\n"
    "  mpirun -n 4 --bind-to none muster run job.yaml --workers 16\n"
    "  muster run job.yaml --nnodes 2 --node-rank 0 --dir runs/one    and --node-rank 1 on the "
    "other\n"
    "  muster run job.yaml --hosts node[01-04] --exclude node03 --dir runs/one --env "
    "OMP_NUM_THREADS";

constexpr char kUpFooter[] =
    R"(A job starts when its least number of workers and its servers fit into the free slots; until then it waits,
by priority, then first come first served. A fault plan is as for muster train; `job: ID` in a fault says
whose process and steps are meant.

Ctrl-C stops everything without a checkpoint and names the jobs that it cuts off; the same command goes on
with them.

Example, the second line from another terminal:
  muster up --dir cluster --listen 127.0.0.1:8080 --slots 4
  muster submit examples/counting.yaml --dir cluster)";

constexpr char kWhoseLog[] = "the processes' logs";

void AddMembers(CLI::App& command, MemberArguments& arguments) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1e3;
  };
  command
      .add_option("--lease", arguments.lease,
                  absl::StrCat("seconds that a process may be silent before it counts as lost "
                               "(default: ",
                               seconds(kDefaultLease), ")"))
      ->check(CLI::Validator(
          [=](const std::string& text) {
            double number = 0;
            const bool is_decimal = text.find_first_not_of("0123456789.") == std::string::npos;
            const bool fits = is_decimal && absl::SimpleAtod(text, &number) &&
                              number >= seconds(kShortestLease) && number <= seconds(kLongestLease);
            return fits ? std::string()
                        : absl::StrCat("'", text, "' is not ", seconds(kShortestLease), " to ",
                                       seconds(kLongestLease), " seconds");
          },
          absl::StrCat(seconds(kShortestLease), " to ", seconds(kLongestLease))))
      ->type_name("SECONDS");
  command
      .add_option("--thread-patience", arguments.thread_patience,
                  absl::StrCat("seconds that one piece of a process's work, such as a lane, may "
                               "take before the process counts as lost (default: ",
                               kDefaultThreadPatience.count(), ")"))
      ->check(CLI::Range(kShortestThreadPatience.count(), kLongestThreadPatience.count()))
      ->type_name("SECONDS");
  AddPlugins(command, arguments.plugins);
}

// Of train and run.
void AddMlflow(CLI::App& command, MlflowServer& server) {
  CLI::Option* const url =
      command
          .add_option("--mlflow", server.url,
                      "an MLflow tracking server, at which each job is a run, too; a token, or a "
                      "user and a password, come from the environment, as for MLflow's own clients")
          ->type_name("URL");
  command
      .add_option("--mlflow-experiment", server.experiment,
                  "the experiment of these runs (default: muster-NAMESPACE, of the job)")
      ->type_name("NAME")
      ->needs(url);
  command
      .add_option("--mlflow-token-file", server.token_file,
                  "a file with the token, which only this user may read")
      ->type_name("FILE")
      ->needs(url);
}

void AddJob(CLI::App& command, JobArguments& arguments) {
  AddSpec(command, arguments.spec);
  AddProcesses(command, arguments.workers, arguments.servers);
  AddSettings(command, arguments.settings);
  AddAccept(command, arguments.accept);
  AddMembers(command, arguments);
  AddMlflow(command, arguments.mlflow);
  command.add_flag("--details", arguments.details, kAboutDetails);
  command.add_flag("--json", arguments.json,
                   "one JSON object per event, for programs; the last one is the result");
}

void AddNode(CLI::App& command, std::string& node) {
  command
      .add_option("--node", node,
                  "name of this machine, the same for all hosts on it: workers of a job are placed "
                  "node by node (default: made of the kernel's boot and the network namespace, so "
                  "that machines of one name are two)")
      ->type_name("NAME");
}

void AddMetricsAddress(CLI::App& command, std::string& address, int& port) {
  command
      .add_option("--metrics-address", address,
                  "where processes of this host serve metrics, in plain text and for everybody who "
                  "reaches it: an address of this machine, or an interface or a network, whose "
                  "address is taken (default: 127.0.0.1)")
      ->type_name("IP|NAME|CIDR");
  command
      .add_option("--metrics-port", port,
                  "port there: the coordinator, if this host has one, serves its metrics at it, "
                  "and members theirs at the next ones, the first that no member of this host has "
                  "(default: any)")
      ->check(CLI::Range(1, 65535 - kMaxProcesses))
      ->type_name("PORT");
}

// Of up and agent.
void AddHost(CLI::App& command, HostArguments& host) {
  command
      .add_option("--host", host.host,
                  "name of this host, unique in the cluster (default: the machine's)")
      ->type_name("NAME");
  AddNode(command, host.node);
  command
      .add_option("--slots", host.slots,
                  "how many workers and servers may run here at once (default: the number of "
                  "cores)")
      ->check(CLI::Range(1, kMaxProcesses))
      ->type_name("N");
  command
      .add_option("--devices", host.devices,
                  "GPUs of this host for jobs with `devices`, each for one worker at a time: none, "
                  "how many, or their ids with commas. auto: those of CUDA_VISIBLE_DEVICES, else "
                  "all")
      ->capture_default_str()
      ->type_name("auto|none|N|LIST");
  AddMetricsAddress(command, host.metrics_address, host.metrics_port);
  AddMembers(command, host);
}

}  // namespace

void AddTrain(CLI::App& app, TrainArguments& train, LogFlags& log) {
  CLI::App* command = app.add_subcommand("train", "train a job on this machine, from start to end");
  AddJob(*command, train);
  command
      ->add_option(
          "--dir", train.dir,
          "where logs, checkpoints and state go (default: a fresh folder under muster-runs/, "
          "which is named)")
      ->type_name("DIR");
  command->add_option("--faults", train.faults, "kill and pause processes as this file says")
      ->type_name("PLAN.yaml");
  AddLogFlags(*command, kWhoseLog, log);
  command->footer(kTrainFooter);
}

void AddUp(CLI::App& app, UpArguments& up, LogFlags& log) {
  CLI::App* command =
      app.add_subcommand("up", "start a cluster on this machine that waits for jobs");
  command->add_option("--dir", up.dir, "where logs, checkpoints and state go")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--listen", up.listen, "address of the REST interface")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  command
      ->add_option("--coordinator", up.coordinator,
                   "where the coordinator listens for agents of other hosts, and on whose address "
                   "the members of this one listen (default: any port on loopback)")
      ->type_name("HOST:PORT");
  command
      ->add_option("--join-listen", up.join_listen,
                   "where other hosts join (default: any port on the address of --coordinator, if "
                   "that is given)")
      ->type_name("HOST:PORT");
  command
      ->add_option("--webhooks", up.webhooks,
                   "who is told of what happens to jobs, by signed HTTPS requests, as this file "
                   "says (docs/webhooks.md); it is read again when it changes")
      ->type_name("WEBHOOKS.yaml");
  AddMlflow(*command, up.mlflow);
  AddHost(*command, up);
  command->add_option("--faults", up.faults, "kill and pause processes as this file says")
      ->type_name("PLAN.yaml");
  AddLogFlags(*command, kWhoseLog, log);
  command->footer(kUpFooter);
}

void AddAgent(CLI::App& app, AgentArguments& agent, LogFlags& log) {
  CLI::App* command =
      app.add_subcommand("agent", "join a cluster with this machine as one more host");
  command
      ->add_option(
          "--coordinator", agent.coordinator,
          "where the coordinator listens, as `muster up --coordinator` was told, or with the name "
          "of that host; several, with commas, are tried in turn: it may move from one to another")
      ->required()
      ->type_name("HOST:PORT[,HOST:PORT...]");
  command
      ->add_option("--dir", agent.dir,
                   "where logs and state of this host go, in hosts/NAME; hosts may share it")
      ->capture_default_str()
      ->type_name("DIR");
  command
      ->add_option("--address", agent.address,
                   "address of this host for the members of others (default: the one by which it "
                   "reaches the coordinator)")
      ->type_name("IP");
  CLI::Option* identity =
      command
          ->add_option("--identity", agent.identity,
                       "folder with the certificate of this host, on the machine's own disk; it "
                       "has the name that stands there; --join fills it and renews what is in it "
                       "(default: one that is removed at the end, where --dir is the folder of "
                       "muster up and says how to join)")
          ->type_name("FOLDER");
  CLI::Option* join =
      command
          ->add_option("--join", agent.join,
                       "where the coordinator lets hosts join (its --join-listen); several, with "
                       "commas, are tried in turn")
          ->type_name("HOST:PORT[,HOST:PORT...]")
          ->needs(identity);
  command
      ->add_option("--join-token-file", agent.join_token_file,
                   "file with the token of this host (muster token host); it is kept in --identity "
                   "from then on")
      ->type_name("FILE")
      ->needs(join);
  AddHost(*command, agent);
  AddLogFlags(*command, kWhoseLog, log);
  command->footer(kAgentFooter);
}

// Names as those of torchrun and of what people write around it, too.
void AddRun(CLI::App& app, RunArguments& run, LogFlags& log) {
  CLI::App* command = app.add_subcommand(
      "run", "train a job on the hosts of a launcher: Slurm, MPI, torchrun, PBS, Kubernetes");
  AddJob(*command, run);
  command
      ->add_option("--dir", run.dir,
                   "where logs, checkpoints and state go: a folder that all hosts see (default: "
                   "under muster-runs/, named after the launcher's run)")
      ->type_name("DIR");
  command
      ->add_option("--nnodes,--nodes", run.launch.hosts,
                   "how many hosts take part, or the least and the most (default: as the launcher "
                   "says)")
      ->type_name("N|MIN:MAX");
  command
      ->add_option("--node-rank,--node_rank", run.launch.number,
                   "which of them this is, from 0 (default: as the launcher says)")
      ->type_name("I");
  command
      ->add_option("--nproc-per-node,--nproc_per_node,--gpus", run.launch.slots,
                   "how many workers and servers may run on each host (default: as many as the job "
                   "needs)")
      ->type_name("N");
  command
      ->add_option("--coordinator", run.launch.coordinator,
                   "where the coordinator listens, on the first host (default: as the launcher "
                   "says, any port)")
      ->type_name("HOST:PORT");
  command
      ->add_option("--run-id", run.launch.run_id,
                   "what no other run that sees this folder has (default: as the launcher says)")
      ->type_name("ID");
  command
      ->add_option("--interface", run.interface,
                   "the network that hosts speak over: an interface's name or an address range")
      ->type_name("NAME|CIDR");
  AddNode(*command, run.node);
  AddMetricsAddress(*command, run.metrics_address, run.metrics_port);
  command
      ->add_option("--host-suffix", run.host_suffix,
                   "what comes after the launcher's name of the first host, to name its address "
                   "in a faster network, such as -ib")
      ->type_name("TEXT");
  command
      ->add_option("--join-timeout", run.join_timeout,
                   "how long hosts that are missing are waited for")
      ->check(CLI::Range(int64_t{1}, int64_t{86400}))
      ->capture_default_str()
      ->type_name("SECONDS");
  command
      ->add_option("--hosts", run.hosts,
                   "start on these hosts by ssh, the first of which has the coordinator: names as "
                   "ssh knows them, such as a,b[1-3]")
      ->type_name("NAMES");
  command
      ->add_option("--hostfile", run.host_file,
                   "the same of a file with a name on each line, and perhaps slots=N")
      ->type_name("FILE");
  command->add_option("--exclude", run.exclude, "leave these hosts out; may be given again")
      ->type_name("NAMES")
      ->allow_extra_args(false);
  command
      ->add_option("--env", run.env,
                   "a variable for all processes of the run; without a value, that which it has "
                   "here; may be given again")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  command->add_flag("--bind-cores", run.bind_cores,
                    "each member runs on an equal share of the cores that its host may use");
  command->add_flag("--logs", run.logs, "show what all members print, on the first host");
  command
      ->add_option("--stop-before-end", run.stop_before_end,
                   "how long before the end of the allocation, where the launcher says when that "
                   "is, the job is stopped after a checkpoint")
      ->check(CLI::Range(int64_t{0}, int64_t{86400}))
      ->capture_default_str()
      ->type_name("SECONDS");
  command->add_flag("--over-ssh", run.over_ssh, "what --hosts gives to the hosts")->group("");
  command->add_option("--epochs", run.epochs, "as --set epochs=N")
      ->transform(WholeNumber())
      ->type_name("N");
  AddLogFlags(*command, kWhoseLog, log);
  command->footer(kRunFooter);
}

void AddDemo(CLI::App& app, DemoArguments& demo, LogFlags& log) {
  CLI::App* command = app.add_subcommand(
      "demo", "see it train through kills, and prove that the result is the same");
  command->add_option("--spec", demo.spec, "the job, of 80 steps at least")
      ->capture_default_str()
      ->type_name("SPEC.yaml");
  command->add_option("--set", demo.settings, "set a field of the job; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--dir", demo.dir,
                   "where both runs go (default: a fresh folder under muster-runs/, which is "
                   "named)")
      ->type_name("DIR");
  AddLogFlags(*command, kWhoseLog, log);
  command->footer(kDemoFooter);
}

}  // namespace muster::cli
