// What `muster` is started with: its command line, the environment in which a launcher starts it,
// and a file of hosts. The first byte of the input says which of them the rest is; words of a
// command line, and variables, are lines.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cli/arguments.h"
#include "lib/base/exit_codes.h"
#include "lib/launch/host_list.h"
#include "lib/launch/launch_plan.h"
#include "tests/fuzz/fuzz.h"

namespace muster::fuzz {
namespace {

enum Kind { kCommandLine, kEnvironment, kHostFile, kKinds };

// A list of hosts is at most kMostHosts names, each of which may be as long as the input.
constexpr size_t kMostHeld = size_t{16} << 20;
constexpr size_t kMostHeldPerByte = 2000;

const std::vector<std::string>& CommandLines() {
  static const auto& lines = *new std::vector<std::string>{
      "train\njob.yaml\n--workers\n2\n--set\nsteps=50\n--dir\nruns/one\n--json",
      "run\njob.yaml\n--nnodes\n1:4\n--node-rank\n1\n--nproc-per-node\n2\n--coordinator\na:7070",
      "run\njob.yaml\n--hosts\nnode[01-04]\n--exclude\nnode03\n--env\nA=b\n-nr\n2",
      "demo\n--set\nsteps=9",
      "up\n--listen\n127.0.0.1:0\n--slots\n4\n--devices\n0,2\n--lease\n2.5",
      "agent\n--coordinator\na:7070,b:7070\n--dir\nc\n--join\na:7071\n--join-token-file\nt",
      "submit\njob.yaml\n--id\none\n--to\n127.0.0.1:8080",
      "list\n--to\nhttps://[::1]:8080\n--json",
      "scale\none\n2:4",
      "queue\none\n--priority\n3\n--deadline\n60",
      "quota\nvision\n--slots\n8",
      "logs\none\n--follow\n--member\nworker-0",
      "drain\nnode7\n--undo",
      "token\nmake\nada\n--role\nviewer\n--namespace\n*",
      "token\nhost\nnode7\n--namespace\nvision",
      "certs\nuser\nada\n--identity\nada-identity",
      "certs\nfinish\n--force",
      "adopt\nfolder\n--as\ntwo",
      "check\njob.yaml\n--plugins\nbuild\n--gradients",
      "data\nhash\njob.yaml\n--set\ndata.verify=quick\n--json",
      "export\none\n--dir\nc\n--step\n500\n--format\npt\n--optimizer\n-o\nstate.pt",
      "checkpoints\nkeep\none\n--dir\nc\n--step\n500\n--name\nbefore-cut",
      "checkpoints\ndelete\none@500\n--to\n127.0.0.1:9\n--force",
      "generate\n--dir\nruns/one\n--prompt\nint main(\n--bytes\n200\n--seed\n7",
      "plot\none\ntwo\n--series\ngradient_norm\n--log\n-o\nnorm.svg",
      "doctor\n--coordinator\n10.0.0.1:7070\n--identity\nid\n--listen\n10.0.0.1:8080",
      "--help",
      "train\n--help"};
  return lines;
}

// One launcher each, as lines.
const std::vector<std::string>& Environments() {
  static const auto& all = *new std::vector<std::string>{
      "A=b",
      "RANK=3\nWORLD_SIZE=4\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nGROUP_RANK=1\nGROUP_WORLD_SIZE=2\n"
      "MASTER_ADDR=n1\nMASTER_PORT=29500\nTORCHELASTIC_RUN_ID=one",
      "OMPI_COMM_WORLD_RANK=3\nOMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"
      "OMPI_COMM_WORLD_LOCAL_SIZE=2\nPMIX_NAMESPACE=90767361",
      "PALS_RANKID=1\nPALS_NODEID=1\nPALS_LOCAL_RANKID=0\nPALS_LOCAL_SIZE=1\nPALS_APID=a-1",
      "PMI_RANK=1\nPMI_SIZE=2\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2",
      "SLURM_JOB_ID=17\nSLURM_STEP_ID=2\nSLURM_STEP_NODELIST=n[1-3],x[1-2]y\n"
      "SLURM_STEP_NUM_NODES=3\nSLURM_STEP_NUM_TASKS=6\nSLURM_PROCID=5\nSLURM_LOCALID=1\n"
      "SLURM_NODEID=2\nSLURMD_NODENAME=n3\nSLURM_JOB_END_TIME=1790000000",
      "PBS_JOBID=17.server\nPBS_NODEFILE=/f\nPBS_NODENUM=0",
      "JOB_COMPLETION_INDEX=1\nKUBERNETES_SERVICE_HOST=10.0.0.1",
  };
  return all;
}

const std::vector<std::string>& HostFiles() {
  static const auto& all = *new std::vector<std::string>{
      "a\nb slots=2 # two\n", "n[01-12,40] slots=4\n", "x[1-2]y[1-3]", "a\na\na\n"};
  return all;
}

const std::vector<std::string>& Of(Kind kind) {
  return kind == kCommandLine   ? CommandLines()
         : kind == kEnvironment ? Environments()
                                : HostFiles();
}

Kind KindOf(std::string_view input) {
  return static_cast<Kind>(static_cast<unsigned char>(input[0]) % kKinds);
}

std::string Make(Random& random) {
  const auto kind = static_cast<Kind>(Below(random, kKinds));
  const std::vector<std::string>& all = Of(kind);
  return std::string(1, static_cast<char>(kind)) + all[Below(random, all.size())];
}

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{"[",
                                                           "]",
                                                           "-",
                                                           "--",
                                                           "=",
                                                           ",",
                                                           "0",
                                                           "-1",
                                                           "4096",
                                                           "4097",
                                                           "99999999999999999999",
                                                           "nan",
                                                           "1e999",
                                                           "a[1-4096]",
                                                           "[0-9][0-9][0-9][0-9]",
                                                           "--dir",
                                                           "--json",
                                                           "--to",
                                                           "--nnodes",
                                                           "1:0",
                                                           "::",
                                                           "/",
                                                           "..",
                                                           "muster",
                                                           "\n",
                                                           "*",
                                                           "\xff",
                                                           "\x1b",
                                                           "%s"};
  return words;
}

std::string Change(const std::string& input, Random& random) {
  if (input.empty()) return "";
  const Kind kind = KindOf(input);
  return input.substr(0, 1) + ChangedWords(std::string_view(input).substr(1), Words(), random) +
         (Below(random, 4) == 0 ? "\n" + Of(kind)[Below(random, Of(kind).size())] : "");
}

const Form kForm = {Make, Change};

void ExpectAll() {
  Expect("end",
         {"command", "help", "command refused", "plan", "plan refused", "hosts", "hosts refused"});
  Expect("launcher", {"none", "torchrun", "Open MPI", "PALS", "Hydra", "Slurm"});
  ExpectAtLeast("error", 12);
}

void ReadCommandLine(std::string_view text) {
  std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  words.insert(words.begin(), "muster");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  const cli::Parsed parsed = cli::ParseArguments(static_cast<int>(words.size()), argv.data());
  if (!parsed.exit_code) return Reach("end", "command");
  Check(!parsed.text.empty(), "an end has words");
  Check(*parsed.exit_code == kExitDone || *parsed.exit_code == kExitBadConfiguration,
        "a command line is right or wrong");
  Reach("end", *parsed.exit_code == kExitDone ? "help" : "command refused");
  if (*parsed.exit_code != kExitDone) ReachError(parsed.text);
}

bool IsPartOfPath(const std::string& name) {
  return !absl::StrContains(name, '/') && name != "." && name != "..";
}

void ReadEnvironment(std::string_view text) {
  Environment environment;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    const std::pair<std::string, std::string> both = absl::StrSplit(line, absl::MaxSplits('=', 1));
    environment.insert(both);
  }
  auto plan = PlanLaunch(environment, {});
  Reach("end", plan.ok() ? "plan" : "plan refused");
  if (!plan.ok()) {
    Check(plan.status().code() == absl::StatusCode::kInvalidArgument, "what is wrong is said");
    return ReachError(plan.status().message());
  }
  Reach("launcher", std::string(NameOf(plan->launcher)));
  if (ReadsNodeFile(*plan)) Check(TakeNodeFile("a\nb\n", *plan).ok(), "its names are hosts");
  Check(plan->hosts_min >= 1 && plan->hosts_min <= plan->hosts_max, "hosts are in order");
  Check(plan->hosts_max <= kMostHosts, "hosts are bounded");
  Check(plan->number >= 0 && plan->number < plan->hosts_max, "this host is one of them");
  Check(IsPartOfPath(plan->run_id), "an id is a part of a path");
  Check(IsPartOfPath(HostNameIn(*plan, "node7")), "a name is a part of a path");
  DevicesOf(*plan, environment, {"0", "1", "2"});
  MissingHosts(*plan, {"node7"});
}

void ReadHosts(std::string_view text) {
  const auto named = ParseHostFile(absl::string_view(text.data(), text.size()));
  Reach("end", named.ok() ? "hosts" : "hosts refused");
  if (!named.ok()) return ReachError(named.status().message());
  Check(!named->hosts.empty() && named->hosts.size() <= kMostHosts, "hosts are bounded");
  WithoutHosts(*named, {named->hosts.front()}).status().IgnoreError();
}

void Run(std::string_view input) {
  if (input.empty()) return;
  const std::string_view text = input.substr(1);
  const MemoryLimit limit(kMostHeld + kMostHeldPerByte * input.size());
  switch (KindOf(input)) {
    case kCommandLine: return ReadCommandLine(text);
    case kEnvironment: return ReadEnvironment(text);
    default: return ReadHosts(text);
  }
}

}  // namespace
}  // namespace muster::fuzz

MUSTER_FUZZ_TARGET(muster::fuzz::kForm, muster::fuzz::ExpectAll, muster::fuzz::Run);
