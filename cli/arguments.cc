#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "cli/cluster_folder.h"
#include "lib/base/digits.h"
#include "lib/base/exit_codes.h"
#include "lib/base/lease.h"
#include "lib/base/loopback.h"
#include "lib/base/version.h"
#include "lib/config/field_error.h"
#include "lib/launch/command_line.h"
#include "lib/wire/job_codec.h"

namespace muster::cli {
namespace {

constexpr char kAbout[] =
    "Muster trains neural networks on many processes, with the same bits on any number of\n"
    "workers, through crashes of any of them.";

constexpr char kExamples[] =
    "Examples:\n"
    "  muster train examples/code-lm.yaml                    train here, with as many workers as "
    "the file says\n"
    "  muster train job.yaml --workers 2 --set steps=50      change a field without editing the "
    "file\n"
    "  muster train job.yaml --dir runs/one                  start again there to go on after a "
    "stop or a crash\n"
    "  muster up                                             a cluster that waits for jobs; from "
    "another terminal:\n"
    "  muster submit job.yaml && muster list && muster watch JOB\n"
    "  muster logs JOB --follow                              what the members of a job print\n"
    "  muster stop JOB                                       it goes on with muster resume JOB; "
    "muster cancel JOB ends it for good\n"
    "  muster top                                            hosts and jobs, each second; muster "
    "drain HOST empties a host\n"
    "\n"
    "muster COMMAND --help explains a command. Exit codes: 0 done, 64 bad configuration, 65 bad "
    "data, 66 a step\n"
    "was not finite, 67 a person stopped or cancelled the job, 75 a signal ended it and "
    "it can go on,\n"
    "78 another numeric environment than its job's, 1 otherwise; of a worker or server also 69 "
    "another process\n"
    "has taken its place.";

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
    "SIGTERM to a host lets its members leave at a step boundary; to the first host, or to all, it "
    "stops the job\n"
    "after a checkpoint. Either ends with exit code 75, and the same command with the same --dir "
    "goes on. SIGUSR1 and\n"
    "SIGUSR2, with which launchers say that time runs out, are taken likewise.\n"
    "\n"
    "Examples:\n"
    "  srun --nodes 4 --ntasks-per-node 1 muster run job.yaml --workers 16\n"
    "  mpirun -n 4 --bind-to none muster run job.yaml --workers 16\n"
    "  muster run job.yaml --nnodes 2 --node-rank 0 --dir runs/one    and --node-rank 1 on the "
    "other\n"
    "  muster run job.yaml --hosts node[01-04] --exclude node03 --dir runs/one --env "
    "OMP_NUM_THREADS";

constexpr char kUpFooter[] =
    "A job starts when its least number of workers and its servers fit into the free slots; until "
    "then it waits,\n"
    "first come first served. A fault plan is as for muster train; `job: ID` in a fault says whose "
    "process and\n"
    "steps are meant.\n"
    "\n"
    "Ctrl-C stops everything without a checkpoint and names the jobs that it cuts off; the same "
    "command goes on\n"
    "with them.\n"
    "\n"
    "Example, the second line from another terminal:\n"
    "  muster up --dir cluster --listen 127.0.0.1:8080 --slots 4\n"
    "  muster submit examples/counting.yaml --dir cluster";

constexpr char kSubmitFooter[] =
    "Prints the id that the job has. It trains when its turn comes, also when this terminal is "
    "closed.\n"
    "Exit code 0 once the cluster has taken it; of an id that is over, the exit code of that job.\n"
    "\n"
    "Examples:\n"
    "  muster submit examples/counting.yaml\n"
    "  muster submit job.yaml --id mine --set steps=500 && muster watch mine";

constexpr char kAdoptFooter[] =
    "FOLDER is a job's folder of checkpoints (CHECKPOINTS/JOB), which another cluster left. The "
    "coordinator\n"
    "must be able to read it: on another machine the path is that machine's. The newest checkpoint "
    "that is whole\n"
    "is copied, so FOLDER may go afterwards; the job goes on from there, with the same bits.\n"
    "\n"
    "Examples:\n"
    "  muster adopt old-cluster/checkpoints/count-1\n"
    "  muster adopt /shared/checkpoints/count-1 --as count-2 --to 10.0.0.1:8080";

constexpr char kListFooter[] =
    "Examples:\n"
    "  muster list\n"
    "  muster list --state running --json | jq -r .id";

constexpr char kStatusFooter[] =
    "Exit code 0 also of a job that has failed: --json has its exit_code.\n"
    "\n"
    "Examples:\n"
    "  muster status count-1\n"
    "  muster status --dir runs/one        of the one job there, also when nothing runs";

constexpr char kWatchFooter[] =
    "Ctrl-C ends the watching, not the job. At the end of the job its exit code is that of this "
    "command:\n"
    "0 done, 67 stopped or cancelled, 1, 64, 65, 66 or 78 failed.\n"
    "\n"
    "Examples:\n"
    "  muster watch count-1\n"
    "  muster watch count-1 --json | jq 'select(.event == \"checkpoint\")'";

constexpr char kResumeFooter[] =
    "It goes on from its newest checkpoint, with the specification that it has. One that runs is "
    "left alone.\n"
    "A job of muster train goes on with the same muster train command and its --dir.\n"
    "\n"
    "Example:\n"
    "  muster resume count-1 && muster watch count-1";

constexpr char kCancelFooter[] =
    "No checkpoint is written, and the job cannot go on; muster stop is for that.\n"
    "Exit code 1 if it was over before.\n"
    "\n"
    "Example:\n"
    "  muster cancel count-1";

constexpr char kDigestFooter[] =
    "Of the newest checkpoint. Equal digests are equal bits.\n"
    "\n"
    "Examples:\n"
    "  muster digest count-1\n"
    "  muster digest --dir runs/one --json | jq -r .digest";

constexpr char kAuditFooter[] =
    "Reads the ledger, which is written while the job trains. Exit code 0 if it proves that, else "
    "65.\n"
    "\n"
    "Examples:\n"
    "  muster audit count-1\n"
    "  muster audit --dir runs/one";

constexpr char kStopFooter[] =
    "The job stops at its next step, after a checkpoint. A job that has ended stays as it is.\n"
    "\n"
    "Examples:\n"
    "  muster stop count-1        muster resume count-1 lets it go on\n"
    "  muster stop --dir runs/one of a muster train, which goes on with the same command";

constexpr char kDeleteFooter[] =
    "The job must have ended. Its records and checkpoints go, and its logs, where --dir is the "
    "folder of the\n"
    "cluster. Nothing brings them back. Exit code 67 if you say no.\n"
    "\n"
    "Example:\n"
    "  muster delete count-1            asks first\n"
    "  muster delete count-1 --yes";

constexpr char kLogsFooter[] =
    "Prints what the workers and servers of a job wrote, those of all its starts on this machine: "
    "why one failed\n"
    "stands in its last lines. The lines of all members come in the order of their times, each "
    "after its member's\n"
    "name; with --member one member's alone, without its name; with --json each as an object, "
    "member and line.\n"
    "\n"
    "The files lie in the folder of the cluster (--dir), as jobs/JOB/logs/NAME.log. They stay when "
    "the job is over\n"
    "and when nothing runs there. JOB may be left out with --dir where the folder holds one job. "
    "What the\n"
    "coordinator wrote is in logs/coordinator.log.\n"
    "\n"
    "With --to, or where the folder has no log of the job, the coordinator is asked: it keeps the "
    "newest lines of\n"
    "the members on all hosts, and --follow goes on with those of all hosts, wherever members "
    "move and also when it\n"
    "is started again. \"... N lines (M bytes) are left out here\" stands where lines came faster "
    "than they were\n"
    "kept or read, or got lost with a session.\n"
    "--tail and --since begin later; a line without a time counts with the line before it.\n"
    "\n"
    "Examples:\n"
    "  muster logs count-1                               of the cluster in muster-cluster\n"
    "  muster logs --dir runs/one                        of the only job of a muster train\n"
    "  muster logs count-1 --member worker-0 --follow    one member's, until the job is over\n"
    "  muster logs count-1 --to 10.0.0.1:8080            from another machine, of all hosts\n"
    "  muster logs count-1 --to 10.0.0.1:8080 --follow --tail 20\n"
    "                                                    the same, the last lines and what "
    "follows\n"
    "  muster logs count-1 --since 15m                   of the last quarter of an hour\n"
    "  muster logs count-1 | grep -v ' info '            warnings and errors";

constexpr char kLedgerFooter[] =
    "Steps and samples are counted from 0. Steps that a rewind left out are not in the ledger.\n"
    "\n"
    "Examples:\n"
    "  muster ledger count-1 --step 12             who computed which lane, and of which samples\n"
    "  muster ledger --dir runs/one --sample 4711  every use of one sample";

constexpr char kHistoryFooter[] =
    "The history is made of the ledger: steps that a rewind left out are not in it. The gradient's "
    "norm is not\n"
    "known where nobody measures it: with on_nan: continue, and without clip_norm.\n"
    "\n"
    "Examples:\n"
    "  muster history count-1 --csv > loss.csv\n"
    "  muster history --dir runs/one --json | jq .loss";

constexpr char kHostsFooter[] =
    "A host is an agent: one of muster up or of muster agent. It is away while the coordinator has "
    "no "
    "session with its\n"
    "agent; its members train on. One that drains takes no new members.\n"
    "\n"
    "Examples:\n"
    "  muster hosts\n"
    "  muster hosts --json | jq -r 'select(.up) | .name'";

constexpr char kDrainFooter[] =
    "Nothing new is placed on that host, and the members there leave at a step boundary: no step "
    "is "
    "lost. This command\n"
    "waits until none is left. Ctrl-C ends the waiting, not the draining; --undo ends that. The "
    "host "
    "stays drained,\n"
    "also when it comes back, until it is told otherwise.\n"
    "Exit code 0 once nothing is left there, 1 if somebody else has undone it meanwhile or nothing "
    "leaves for ten minutes.\n"
    "\n"
    "Examples:\n"
    "  muster drain b              before the machine is switched off\n"
    "  muster drain b --undo       it takes members again, also one that was left out for all jobs";

constexpr char kScaleFooter[] =
    "The job grows when slots are free, and shrinks at a step boundary; the result has the same "
    "bits. N is one to N\n"
    "workers, as `workers` in a job's file. Servers cannot be scaled.\n"
    "Exit code 0 once the cluster has taken it.\n"
    "\n"
    "Examples:\n"
    "  muster scale count-1 --workers 8\n"
    "  muster scale count-1 --workers 2:4   at least 2, at most 4";

constexpr char kQueueFooter[] =
    "What is not named stays as it is. It may be changed at any time, also while the job runs: a "
    "higher priority takes\n"
    "places of running jobs with a lower one, which then wait and go on later.\n"
    "Exit code 0 once the cluster has taken it.\n"
    "\n"
    "Examples:\n"
    "  muster queue count-1 --priority 10\n"
    "  muster queue count-1 --deadline 3600 --label team=vision --no-label draft";

constexpr char kQuotaFooter[] =
    "Running jobs are not stopped for a quota that was lowered; those that can shrink do. Jobs "
    "keep "
    "the priority that\n"
    "they have. Operators and admins may give any.\n"
    "\n"
    "Examples:\n"
    "  muster quota\n"
    "  muster quota vision --slots 8 --queued 100\n"
    "  muster quota vision --slots none\n"
    "  muster quota vision --priority 10";

constexpr char kTopFooter[] =
    "On a terminal it is drawn anew each second until Ctrl-C; elsewhere it is printed once. --json "
    "prints a line each\n"
    "second, {\"hosts\": […], \"jobs\": […]}. Jobs that are over are in muster list.\n"
    "\n"
    "Examples:\n"
    "  muster top\n"
    "  muster top --once --json | jq '.hosts | length'";

constexpr char kTokenFooter[] =
    "A coordinator that was started with --tokens asks who calls. The token of its first admin is "
    "in\n"
    "identity/admin.token of its --dir. muster sends the token that lies in the file which "
    "MUSTER_TOKEN_FILE\n"
    "names, else the first admin's in --dir, else that in ~/.config/muster/token; over https:// to "
    "the\n"
    "coordinator of that cluster (--authority), or on its own machine.\n"
    "\n"
    "Examples:\n"
    "  (umask 077; muster token make ada --role submitter --namespace default > ada.token)\n"
    "  muster token list\n"
    "  MUSTER_TOKEN_FILE=ada.token muster list";

constexpr char kHostTokenFooter[] =
    "The token is printed once, and is for one host of that name, which takes jobs of one "
    "namespace "
    "only. It binds to\n"
    "the first key that joins with it; a new one takes the place of that before.\n"
    "\n"
    "Examples:\n"
    "  (umask 077; muster token host node7 --namespace vision > node7.token)\n"
    "  muster token revoke node7";

constexpr char kCertsFooter[] =
    "A coordinator with --authority makes the authority of its cluster by itself. init makes it "
    "before, so that its\n"
    "certificate can be given to others first.\n"
    "\n"
    "Examples:\n"
    "  muster certs init --dir coordinator --cluster-id c1\n"
    "  muster certs show coordinator/identity";

constexpr char kCertsUserFooter[] =
    "Programs that speak gRPC to a coordinator with certificates need one of a user. It is made "
    "with the token that\n"
    "muster sends (muster token --help), is of that user, and may what that token may, for 24 "
    "hours "
    "and as long as\n"
    "nobody revokes the token. The same command makes the next one.\n"
    "\n"
    "With --role an admin makes a token for USER first, which then lies in FOLDER/token.\n"
    "\n"
    "Examples:\n"
    "  muster certs user --identity ada-identity --to https://10.0.0.1:7080\n"
    "  muster certs user ada --role submitter --namespace default --identity ada-identity\n"
    "  MUSTER_TOKEN_FILE=ada-identity/token muster certs user --identity ada-identity";

constexpr char kCertsChangeFooter[] =
    "The key of a cluster's own authority is changed while jobs run: because somebody may have it, "
    "or a rule asks\n"
    "for it. The one before is trusted for 25 hours more, until all that it has signed has ended; "
    "finish ends that\n"
    "sooner. Hosts, members and the coordinator get new certificates by themselves; users ask for "
    "new ones, and\n"
    "copies of authority.pem are replaced.\n"
    "\n"
    "Examples:\n"
    "  muster certs change\n"
    "  muster certs status\n"
    "  muster certs finish";

constexpr char kMissingHost[] = "host is required: the name of a host (muster hosts shows them)";

constexpr char kMissingJob[] = "job is required: the id of a job (muster list shows them)";

constexpr char kAboutDetails[] = "progress shows learning rate and gradient norm, too";

constexpr char kWhoseLog[] = "the processes' logs";

void AddPatience(CLI::App& command, double& lease, int64_t& thread_patience) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return static_cast<double>(time.count()) / 1e3;
  };
  command
      .add_option("--lease", lease,
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
      .add_option("--thread-patience", thread_patience,
                  absl::StrCat("seconds that one piece of a process's work, such as a lane, may "
                               "take before the process counts as lost (default: ",
                               kDefaultThreadPatience.count(), ")"))
      ->check(CLI::Range(kShortestThreadPatience.count(), kLongestThreadPatience.count()))
      ->type_name("SECONDS");
}

// Digits that fit: CLI11 takes the largest number for one that is too large, and 010 for 8.
CLI::Validator WholeNumber() {
  const auto read = [](std::string& text) -> std::string {
    int64_t number = 0;
    if (!ParseDigits(text, &number))
      return absl::StrCat("'", text, "' is not a whole number from 0 to ",
                          std::numeric_limits<int64_t>::max());
    text = absl::StrCat(number);
    return "";
  };
  return {read, "", ""};
}

// Of train and run.
template <class Arguments>
void AddJob(CLI::App& command, Arguments& arguments) {
  command
      .add_option("spec", arguments.spec,
                  "the job: a YAML or JSON file (docs/job-spec.md explains every field)")
      ->required()
      ->type_name("SPEC.yaml");
  command.add_option("--workers", arguments.workers, "worker processes, in place of the file's")
      ->check(CLI::Range(1, kMaxProcesses))
      ->type_name("N");
  command
      .add_option("--servers", arguments.servers,
                  "server processes, in place of the file's (sync: server)")
      ->check(CLI::Range(0, kMaxProcesses))
      ->type_name("M");
  command.add_option("--set", arguments.settings, "set a field of the file; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  AddPatience(command, arguments.lease, arguments.thread_patience);
  command.add_flag("--details", arguments.details, kAboutDetails);
  command.add_flag("--json", arguments.json,
                   "one JSON object per event, for programs; the last one is the result");
}

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

void AddSlots(CLI::App& command, int& slots) {
  command
      .add_option("--slots", slots,
                  "how many workers and servers may run here at once (default: the number of "
                  "cores)")
      ->check(CLI::Range(1, kMaxProcesses))
      ->type_name("N");
}

void AddDevices(CLI::App& command, std::string& devices) {
  command
      .add_option("--devices", devices,
                  "GPUs of this host for jobs with `devices`, each for one worker at a time: none, "
                  "how many, or their ids with commas. auto: those of CUDA_VISIBLE_DEVICES, else "
                  "all")
      ->capture_default_str()
      ->type_name("auto|none|N|LIST");
}

void AddHost(CLI::App& command, std::string& host) {
  command
      .add_option("--host", host,
                  "name of this host, unique in the cluster (default: the machine's)")
      ->type_name("NAME");
}

void AddNode(CLI::App& command, std::string& node) {
  command
      .add_option("--node", node,
                  "name of this machine, the same for all hosts on it: workers of a job are placed "
                  "node by node (default: made of the kernel's boot and the network namespace, so "
                  "that machines of one name are two)")
      ->type_name("NAME");
}

void AddMetricsAddress(CLI::App& command, std::string& address) {
  command
      .add_option("--metrics-address", address,
                  "where processes of this host serve metrics, in plain text and for everybody who "
                  "reaches it: an address of this machine, or an interface or a network, whose "
                  "address is taken (default: 127.0.0.1)")
      ->type_name("IP|NAME|CIDR");
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
  command->add_flag("--tokens", up.tokens,
                    "ask whoever calls by REST or gRPC for a token (muster token --help), as is "
                    "done where --listen is beyond loopback; without tokens nobody has a "
                    "certificate for gRPC");
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
  AddHost(*command, up.host);
  AddNode(*command, up.node);
  AddSlots(*command, up.slots);
  AddDevices(*command, up.devices);
  AddMetricsAddress(*command, up.metrics_address);
  AddPatience(*command, up.lease, up.thread_patience);
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
  AddHost(*command, agent.host);
  AddNode(*command, agent.node);
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
  AddSlots(*command, agent.slots);
  AddDevices(*command, agent.devices);
  AddMetricsAddress(*command, agent.metrics_address);
  AddPatience(*command, agent.lease, agent.thread_patience);
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
  AddMetricsAddress(*command, run.metrics_address);
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

CLI::App* AddRemote(CLI::App& app, const char* name, const char* about, RemoteArguments& remote) {
  CLI::App* command = app.add_subcommand(name, about);
  command
      ->add_option("--to", remote.to, "REST interface of the cluster; https:// may stand before it")
      ->capture_default_str()
      ->type_name("HOST:PORT");
  command
      ->add_option("--authority", remote.authority,
                   "whom to trust at https://: authority.pem of the cluster's identity (default: "
                   "MUSTER_AUTHORITY, the one in --dir, ~/.config/muster/authority.pem)")
      ->type_name("FILE");
  command
      ->add_option("--dir", remote.dir,
                   "in place of --to: the folder of a cluster that runs on this machine (default: "
                   "muster-cluster, where one runs in that)")
      ->default_str("")
      ->type_name("DIR")
      ->excludes("--to");
  command->add_flag("--json", remote.json, "JSON, for programs");
  return command;
}

// Of the commands that a folder can answer in place of its cluster.
CLI::App* AddRunFolder(CLI::App* command) {
  command->get_option("--dir")->description(
      "in place of --to: the folder of a run or a cluster on this machine, also when nothing runs "
      "there");
  return command;
}

void AddFolder(CLI::App& command, RemoteArguments& remote) {
  command.remove_option(command.get_option("--dir"));
  command
      .add_option("--dir", remote.dir,
                  "the folder of the cluster (--dir of muster up); it says where --to is, too")
      ->capture_default_str()
      ->type_name("DIR");
}

// Of the commands that no folder can answer, or that delete.
CLI::App* NeedsJob(CLI::App* command) {
  command->get_option("job")->required()->description("id of the job (muster list shows them)");
  return command;
}

constexpr int64_t kMostTail = 10'000;

// "90s", "15m", "2h", "3d", or seconds, as seconds.
CLI::Validator Period() {
  const auto read = [](std::string& text) -> std::string {
    constexpr int64_t kLongest = 1'000'000'000;
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string unit = text.substr(digits);
    const int64_t seconds = unit.empty() || unit == "s" ? 1
                            : unit == "m"               ? 60
                            : unit == "h"               ? 3600
                            : unit == "d"               ? 86400
                                                        : 0;
    int64_t number = 0;
    if (seconds == 0 || !ParseDigits(text.substr(0, digits), &number) || number < 1 ||
        number > kLongest / seconds)
      return absl::StrCat("'", text, "' is no time; write 90s, 15m, 2h or 3d");
    text = absl::StrCat(number * seconds);
    return "";
  };
  return CLI::Validator(read, "");
}

void AddJobCommands(CLI::App& app, RemoteArguments& remote) {
  const auto with_job = [&](const char* name, const char* about) {
    CLI::App* command = AddRemote(app, name, about, remote);
    command
        ->add_option("job", remote.job,
                     "id of the job (muster list shows them); with --dir it may be left out where "
                     "the folder holds one job")
        ->type_name("JOB");
    return command;
  };
  AddRunFolder(with_job("status", "show how a job stands, and its members"))->footer(kStatusFooter);
  CLI::App* watch = NeedsJob(with_job("watch", "follow a job's events until it is over"));
  watch->add_flag("--details", remote.details, kAboutDetails);
  watch->footer(kWatchFooter);
  AddRunFolder(with_job("stop", "stop a job after a checkpoint; it can go on later"))
      ->footer(kStopFooter);
  NeedsJob(with_job("resume", "let a job go on that was stopped or has failed"))
      ->footer(kResumeFooter);
  NeedsJob(with_job("cancel", "end a job for good, also one that was stopped or failed"))
      ->footer(kCancelFooter);
  CLI::App* remove =
      NeedsJob(with_job("delete", "delete a job that has ended, with its checkpoints"));
  remove->add_flag("--yes", remote.yes, "do not ask");
  remove->footer(kDeleteFooter);
  AddFolder(*remove, remote);
  CLI::App* logs = with_job("logs", "print what the members of a job printed");
  logs->add_option("--member", remote.member, "only of this member, such as worker-0 or server-1")
      ->type_name("NAME");
  logs->add_flag("--follow", remote.follow, "go on with new lines until the job is over");
  logs->add_option("--tail", remote.tail, "only the last so many lines of each member")
      ->check(CLI::Range(int64_t{1}, kMostTail))
      ->type_name("N");
  logs->add_option("--since", remote.since, "only lines of the last 90s, 15m, 2h or 3d")
      ->transform(Period())
      ->type_name("TIME");
  logs->footer(kLogsFooter);
  AddFolder(*logs, remote);
  AddRunFolder(with_job("digest", "show the SHA-256 of a job's parameters and optimizer state"))
      ->footer(kDigestFooter);
  AddRunFolder(
      with_job("audit",
               "prove that each sample was used once per epoch, or name the first that was not"))
      ->footer(kAuditFooter);
  CLI::App* ledger =
      AddRunFolder(with_job("ledger", "show which samples each step used, and who computed them"));
  ledger->add_option("--step", remote.step, "of this step only")
      ->transform(WholeNumber())
      ->type_name("N");
  ledger->add_option("--sample", remote.sample, "only of the steps that used this sample")
      ->transform(WholeNumber())
      ->type_name("ID");
  ledger->footer(kLedgerFooter);
  CLI::App* history = AddRunFolder(
      with_job("history", "show loss, learning rate, gradient norm and speed of each step"));
  history->add_flag("--csv", remote.csv, "comma-separated values, with a head")->excludes("--json");
  history->footer(kHistoryFooter);
}

void AddRemotes(CLI::App& app, RemoteArguments& remote) {
  CLI::App* submit = AddRemote(app, "submit", "hand a job to a cluster", remote);
  submit->add_option("spec", remote.spec, "the job: a YAML or JSON file")
      ->required()
      ->type_name("SPEC.yaml");
  submit->add_option("--set", remote.settings, "set a field of the file; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  submit
      ->add_option("--id", remote.job,
                   "id of the job (default: made of its name); the same id twice is one job")
      ->type_name("ID");
  submit->footer(kSubmitFooter);
  CLI::App* adopt =
      AddRemote(app, "adopt", "take over a job from checkpoints of a cluster that is gone", remote);
  adopt->add_option("folder", remote.checkpoints, "the job's folder of checkpoints")
      ->required()
      ->type_name("FOLDER");
  adopt->add_option("--as", remote.job, "id that it gets (default: the one it had)")
      ->type_name("JOB_ID");
  AddRunFolder(adopt)->footer(kAdoptFooter);
  CLI::App* list = AddRemote(app, "list", "show the jobs of a cluster", remote);
  list->add_option(
          "--state", remote.state,
          "only jobs in this state: queued, starting, running, recovering, stopping, done, "
          "stopped, failed or cancelled")
      ->type_name("STATE");
  list->add_option("--namespace", remote.name_space, "only jobs in this namespace")
      ->type_name("NAMESPACE");
  list->add_option("--label", remote.labels, "only jobs with this label; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  AddRunFolder(list)->footer(kListFooter);
  AddJobCommands(app, remote);
}

// N, or MIN:MAX. The option is checked when it is read, so what is wrong names it.
CLI::Validator WorkerRange(RemoteArguments& remote) {
  const auto read = [&remote](const std::string& text) -> std::string {
    const size_t colon = text.find(':');
    const bool is_range = colon != std::string::npos;
    int64_t least = 1;
    int64_t most = 0;
    const bool are_digits = ParseDigits(is_range ? text.substr(colon + 1) : text, &most) &&
                            (!is_range || ParseDigits(text.substr(0, colon), &least));
    if (!are_digits || least < 1 || most < 1 || least > kMaxProcesses || most > kMaxProcesses)
      return absl::StrCat("'", text, "' is neither N nor MIN:MAX, each from 1 to ", kMaxProcesses);
    if (least > most)
      return absl::StrCat("'", text, "': ", least, " is more than ", most, "; write MIN:MAX");
    remote.workers_min = least;
    remote.workers_max = most;
    return "";
  };
  return CLI::Validator(read, "");
}

// A number, or "none". The option is checked when it is read, so what is wrong names it.
CLI::Validator Bound() {
  const auto read = [](std::string& text) -> std::string {
    int64_t number = 0;
    if (text == "none")
      text = "-1";
    else if (!ParseDigits(text, &number))
      return absl::StrCat("'", text, "' is neither a number nor none");
    return "";
  };
  return CLI::Validator(read, "");
}

void AddQueueCommands(CLI::App& app, RemoteArguments& remote) {
  CLI::App* queue =
      AddRemote(app, "queue", "change a job's priority, deadline, retries or labels", remote);
  queue->add_option("job", remote.job, "id of the job (muster list shows them)")
      ->required()
      ->type_name("JOB");
  queue->add_option("--priority", remote.priority, "-1000 to 1000; higher ones go first")
      ->type_name("N");
  queue->add_option("--deadline", remote.deadline, "how long it may run in all; 0: without end")
      ->type_name("SECONDS");
  queue
      ->add_option("--time-to-live", remote.time_to_live,
                   "how long after its end it is kept; 0: until it is deleted")
      ->type_name("SECONDS");
  queue
      ->add_option("--retries", remote.retries,
                   "how often it goes back into the queue after it failed")
      ->type_name("N");
  queue->add_option("--label", remote.labels, "give it this label; may be given again")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  queue->add_option("--no-label", remote.no_labels, "take this label away; may be given again")
      ->type_name("KEY")
      ->allow_extra_args(false);
  queue->footer(kQueueFooter);
  CLI::App* quota =
      AddRemote(app, "quota", "show or set how much the jobs of a namespace may hold", remote);
  quota->add_option("namespace", remote.name_space, "name of the namespace (default: show all)")
      ->type_name("NAMESPACE");
  quota->add_option("--slots", remote.quota_slots, "slots that its running jobs may hold")
      ->transform(Bound())
      ->type_name("N|none");
  quota->add_option("--queued", remote.quota_queued, "jobs of it that may wait")
      ->transform(Bound())
      ->type_name("N|none");
  quota
      ->add_option("--priority", remote.priority,
                   "the highest priority that its submitters may give: -1000 to 1000, at first 0")
      ->type_name("N");
  quota->footer(kQuotaFooter);
}

void AddHostCommands(CLI::App& app, RemoteArguments& remote, std::string& workers) {
  AddRemote(app, "hosts", "show the hosts of a cluster, and who is placed there", remote)
      ->footer(kHostsFooter);
  CLI::App* drain =
      AddRemote(app, "drain", "let all members of a host leave, and place nothing there", remote);
  drain->add_option("host", remote.host, "name of the host (muster hosts shows them)")
      ->required()
      ->type_name("HOST");
  CLI::Option* undo = drain->add_flag("--undo", remote.undo, "the host takes members again");
  drain->add_flag("--no-wait", remote.no_wait, "do not wait until nothing is left there")
      ->excludes(undo);
  drain->footer(kDrainFooter);
  CLI::App* scale = AddRemote(app, "scale", "change how many workers a job may have", remote);
  scale->add_option("job", remote.job, "id of the job (muster list shows them)")
      ->required()
      ->type_name("JOB");
  scale->add_option("--workers", workers, "how many")
      ->required()
      ->check(WorkerRange(remote))
      ->type_name("N|MIN:MAX");
  scale->footer(kScaleFooter);
  AddQueueCommands(app, remote);
  CLI::App* top = AddRemote(app, "top", "show hosts and jobs as they are, each second", remote);
  top->add_flag("--once", remote.once, "once, in place of each second");
  top->footer(kTopFooter);
}

void AddTokenCommands(CLI::App& app, RemoteArguments& remote) {
  CLI::App* token =
      app.add_subcommand("token", "make, list and revoke tokens of people, and of hosts");
  token->require_subcommand(1);
  token->footer(kTokenFooter);
  CLI::App* make = AddRemote(*token, "make", "make a token, which is printed once", remote);
  make->add_option("user", remote.user, "whose it is")->required()->type_name("USER");
  make->add_option("--role", remote.role, "viewer, submitter, operator or admin")
      ->required()
      ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin"}))
      ->type_name("ROLE");
  make->add_option("--namespace", remote.name_space, "where it is of use; * for all")
      ->required()
      ->type_name("NAME");
  make->footer(kTokenFooter);
  AddRemote(*token, "list", "show what tokens there are, without their secrets", remote);
  CLI::App* host = AddRemote(*token, "host", "make the token with which a host joins", remote);
  host->add_option("host", remote.host, "its name (--host of muster agent)")
      ->required()
      ->type_name("HOST");
  host->add_option("--namespace", remote.name_space,
                   "jobs of which it takes (default: those of the namespace default)")
      ->type_name("NAME");
  host->add_flag("--certified", remote.certified,
                 "it has a certificate of an authority from outside, and needs no token");
  host->footer(kHostTokenFooter);
  CLI::App* revoke =
      AddRemote(*token, "revoke", "take a token away, or a host out of the cluster", remote);
  revoke
      ->add_option("id", remote.token_id,
                   "id of the token (muster token list shows them), or the name of a host")
      ->required()
      ->type_name("ID|HOST");
}

void AddCerts(CLI::App& app, CertsArguments& certs, RemoteArguments& remote) {
  const auto add = [](CLI::App* above, const char* name, const char* about) {
    return above->add_subcommand(name, about);
  };
  CLI::App* command = app.add_subcommand("certs", "make an authority, make and show certificates");
  command->require_subcommand(1);
  command->footer(kCertsFooter);
  CLI::App* init = add(command, "init", "make the authority of a cluster that is begun next");
  init->add_option("--dir", certs.dir, "what will be --dir of muster-coordinator")
      ->capture_default_str()
      ->type_name("DIR");
  init->add_option("--cluster-id", certs.cluster,
                   "the cluster, as certificates name it (default: random)")
      ->type_name("ID");
  CLI::App* show = add(command, "show", "show who an identity folder is, until when");
  show->add_option("folder", certs.folder, "the identity folder")->required()->type_name("FOLDER");
  show->add_flag("--json", certs.json, "one object in JSON");
  CLI::App* user = AddRemote(*command, "user", "make the certificate of a user, for gRPC", remote);
  CLI::Option* name =
      user->add_option("user", remote.user, "who it is (default: the user of the token)")
          ->type_name("USER");
  user->add_option("--identity", remote.identity,
                   "the identity folder that it is put into, with its key")
      ->required()
      ->type_name("FOLDER");
  CLI::Option* role =
      user->add_option("--role", remote.role,
                       "make a token for it first: viewer, submitter, operator or admin")
          ->check(CLI::IsMember({"viewer", "submitter", "operator", "admin"}))
          ->needs(name)
          ->type_name("ROLE");
  CLI::Option* name_space =
      user->add_option("--namespace", remote.name_space, "where that is of use; * for all")
          ->needs(role)
          ->type_name("NAME");
  role->needs(name_space);
  user->footer(kCertsUserFooter);
  CLI::App* status =
      AddRemote(*command, "status", "show who signs in a cluster, and who has heard", remote);
  status->footer(kCertsChangeFooter);
  AddRemote(*command, "change", "make another authority, which signs from now on", remote)
      ->footer(kCertsChangeFooter);
  CLI::App* finish = AddRemote(*command, "finish", "trust the authority before it no more", remote);
  finish->add_flag("--force", remote.force,
                   "also where hosts have no new certificates yet: they join again");
  finish->footer(kCertsChangeFooter);
}

RemoteArguments::Command RemoteCommand(const std::string& name) {
  using Command = RemoteArguments::Command;
  if (name == "token make") return Command::kMakeToken;
  if (name == "token host") return Command::kHostToken;
  if (name == "token list") return Command::kListTokens;
  if (name == "token revoke") return Command::kRevokeToken;
  if (name == "certs user") return Command::kCertifyUser;
  if (name == "certs status") return Command::kShowAuthority;
  if (name == "certs change") return Command::kChangeAuthority;
  if (name == "certs finish") return Command::kFinishAuthority;
  if (name == "submit") return Command::kSubmit;
  if (name == "adopt") return Command::kAdopt;
  if (name == "status") return Command::kStatus;
  if (name == "watch") return Command::kWatch;
  if (name == "stop") return Command::kStop;
  if (name == "resume") return Command::kResume;
  if (name == "cancel") return Command::kCancel;
  if (name == "delete") return Command::kDelete;
  if (name == "logs") return Command::kLogs;
  if (name == "digest") return Command::kDigest;
  if (name == "audit") return Command::kAudit;
  if (name == "ledger") return Command::kLedger;
  if (name == "history") return Command::kHistory;
  if (name == "hosts") return Command::kHosts;
  if (name == "drain") return Command::kDrain;
  if (name == "scale") return Command::kScale;
  if (name == "top") return Command::kTop;
  if (name == "queue") return Command::kQueue;
  if (name == "quota") return Command::kQuota;
  return Command::kList;
}

// "127.0.0.1:8080" → "https://127.0.0.1:8080".
std::string UrlFrom(std::string to) {
  const bool is_address = to.find(':') != std::string::npos && to.find("://") == std::string::npos;
  if (is_address) to.insert(0, "https://");
  while (!to.empty() && to.back() == '/') to.pop_back();
  return to;
}

std::string WrongAddress(const std::string& command, const std::string& to) {
  const absl::string_view scheme = absl::StartsWith(to, "https://") ? "https://" : "http://";
  const absl::string_view rest = absl::StripPrefix(to, scheme);
  const absl::string_view address = rest.substr(0, rest.find('/'));
  const absl::Status wrong =
      absl::StrContains(address, "@")
          ? absl::InvalidArgumentError(
                "a user or a password in the address is not taken; write https://HOST:PORT")
          : ParseHostPort(address).status();
  if (absl::StartsWith(to, scheme) && wrong.ok()) return "";
  return absl::StrCat("muster ", command, ": --to: ",
                      absl::StartsWith(to, scheme)
                          ? std::string(wrong.message())
                          : absl::StrCat("'", to, "' is not an address; write HOST:PORT, such as ",
                                         RemoteArguments().to),
                      "\nmuster ", command, " --help explains what is allowed.\n");
}

bool NeedsJob(RemoteArguments::Command command) {
  using Command = RemoteArguments::Command;
  return command != Command::kList && command != Command::kSubmit && command != Command::kAdopt &&
         !IsAboutHosts(command) && !IsAboutTokens(command);
}

// Where it is left out the folder says it.
std::string MissingJob(const std::string& command, const RemoteArguments& remote) {
  using Command = RemoteArguments::Command;
  const bool needs_none = !NeedsJob(remote.command);
  const bool has_folder = remote.has_dir && remote.command != Command::kDelete;
  if (needs_none || has_folder || !remote.job.empty()) return "";
  return absl::StrCat("muster ", command, ": ", kMissingJob, "\nmuster ", command,
                      " --help explains what is allowed.\n");
}

// CLI11 says only that a command is missing.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return "";
  const std::string hint = DidYouMean(argv[1], names);
  return absl::StrCat("muster: '", argv[1], "' is not a command", hint.empty() ? "." : hint,
                      " Commands: ", absl::StrJoin(names, ", "),
                      ". muster --help explains them.\n");
}

// CLI11 says what is missing before what is wrong: who mistypes an option is told of that first.
std::string UnknownOption(const CLI::App& command) {
  for (const std::string& word : command.remaining()) {
    if (word.empty() || word[0] != '-') continue;
    std::vector<std::string> names;
    for (const CLI::Option* option : command.get_options()) names.push_back(option->get_name());
    return absl::StrCat(word, ": there is no such option", DidYouMean(word, names));
  }
  return "";
}

std::string FailureText(const CLI::App* app, const CLI::Error& error) {
  const std::vector<CLI::App*> given = app->get_subcommands();
  const std::string command =
      given.empty() ? "muster" : absl::StrCat("muster ", given.front()->get_name());
  std::string why = UnknownOption(given.empty() ? *app : *given.front());
  if (why.empty() && given.empty()) why = "say what to do, such as muster train job.yaml";
  if (why.empty()) why = error.what();
  if (why == "job is required") why = kMissingJob;
  if (why == "host is required") why = kMissingHost;
  return absl::StrCat(command, ": ", why, "\n", command, " --help explains what is allowed.\n");
}

}  // namespace

Parsed ParseArguments(int argc, const char* const* argv) {
  TrainArguments train;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  RunArguments run;
  UpArguments up{.slots = cores};
  AgentArguments agent{.slots = cores};
  RemoteArguments remote;
  DemoArguments demo;
  CertsArguments certs;
  CLI::App app(kAbout, "muster");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.failure_message(FailureText);
  Parsed parsed;
  AddTrain(app, train, parsed.log);
  AddRun(app, run, parsed.log);
  AddDemo(app, demo, parsed.log);
  AddUp(app, up, parsed.log);
  AddAgent(app, agent, parsed.log);
  AddRemotes(app, remote);
  std::string workers;  // of scale, which `remote` has as numbers
  AddHostCommands(app, remote, workers);
  AddTokenCommands(app, remote);
  AddCerts(app, certs, remote);
  app.footer(kExamples);
  if (std::string unknown = UnknownCommand(app, argc, argv); !unknown.empty())
    return {.exit_code = kExitBadConfiguration, .text = std::move(unknown)};
  // Scripts for torchrun are full of -nr, which is no option of one letter.
  std::vector<const char*> words(argv, argv + argc);
  if (argc > 1 && absl::string_view(argv[1]) == "run")
    std::replace_if(
        words.begin() + 2, words.end(),
        [](const char* word) { return absl::string_view(word) == "-nr"; }, "--node-rank");
  try {
    ParseCommandLine(app, argc, words.data());
  } catch (const CLI::ParseError& error) {
    std::ostringstream out;
    const int code = app.exit(error, out, out);
    parsed.exit_code = code == 0 ? kExitDone : kExitBadConfiguration;
    parsed.text = out.str();
    return parsed;
  }
  const CLI::App& first = *app.get_subcommands().front();
  const bool is_pair = !first.get_subcommands().empty();
  const CLI::App& given = is_pair ? *first.get_subcommands().front() : first;
  const std::string name =
      is_pair ? absl::StrCat(first.get_name(), " ", given.get_name()) : first.get_name();
  if (name == "train") {
    parsed.arguments = train;
  } else if (name == "run") {
    if (run.epochs) run.settings.push_back(absl::StrCat("epochs=", *run.epochs));
    run.words.assign(words.begin() + 2, words.end());
    parsed.arguments = run;
  } else if (name == "demo") {
    parsed.arguments = demo;
  } else if (name == "up") {
    parsed.arguments = up;
  } else if (name == "agent") {
    parsed.arguments = agent;
  } else if (name == "certs init" || name == "certs show") {
    certs.command =
        name == "certs init" ? CertsArguments::Command::kInit : CertsArguments::Command::kShow;
    parsed.arguments = certs;
  } else {
    remote.command = RemoteCommand(name);
    remote.has_dir = given.get_option_no_throw("--dir") != nullptr && given.count("--dir") > 0;
    if (std::string missing = MissingJob(name, remote); !missing.empty())
      return {.exit_code = kExitBadConfiguration, .text = std::move(missing)};
    remote.has_to = given.count("--to") > 0;
    // A folder says where its cluster answers, unless the command line does.
    const bool has_folder = remote.command == RemoteArguments::Command::kDelete ||
                            remote.command == RemoteArguments::Command::kLogs;
    const bool says_nothing = !remote.has_dir && !remote.has_to && IsInUse(remote.dir);
    const std::string url = has_folder || says_nothing ? UrlOfCluster(remote.dir) : "";
    if (!url.empty() && given.count("--to") == 0) remote.to = url;
    remote.to = UrlFrom(remote.to);
    if (std::string wrong = given.count("--to") > 0 ? WrongAddress(name, remote.to) : "";
        !wrong.empty())
      return {.exit_code = kExitBadConfiguration, .text = std::move(wrong)};
    parsed.arguments = remote;
  }
  return parsed;
}

}  // namespace muster::cli
