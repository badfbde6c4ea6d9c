#include "lib/launch/launch_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/digits.h"
#include "lib/base/hash.h"
#include "lib/base/loopback.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kLongestName = 255;      // of a machine, as in DNS
constexpr size_t kLongestList = 1 << 18;  // a node list of bytes
constexpr size_t kLongestRunId = 60;      // the name of the job comes before it

absl::Status Wrong(absl::string_view variable, absl::string_view value, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(variable, " is '", Cut(Printable(value)), "', which ", why));
}

std::string Value(const Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() ? "" : it->second;
}

bool Has(const Environment& environment, const std::string& name) {
  return environment.contains(name);
}

absl::StatusOr<int> Number(const Environment& environment, const std::string& name, int least,
                           int most, absl::string_view launcher) {
  if (!Has(environment, name))
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not set, which ", launcher,
                     " sets: start muster run by it, or give --nnodes, --node-rank and --dir"));
  const std::string text = Value(environment, name);
  int number = 0;
  if (text.empty() || !ParseDigits(text, &number) || number < least || number > most)
    return Wrong(
        name, text,
        absl::StrCat("is not a whole number from ", least, " to ", most, ": start muster run by ",
                     launcher, ", or unset it and give --nnodes, --node-rank and --dir"));
  return number;
}

// How many there are, and which of them we are.
struct Place {
  int number = 0;
  int size = 1;
};

absl::StatusOr<Place> PlaceOf(const Environment& environment, const std::string& number,
                              const std::string& size, absl::string_view launcher) {
  Place place;
  MUSTER_ASSIGN_OR_RETURN(place.size, Number(environment, size, 1, kMostHosts, launcher));
  MUSTER_ASSIGN_OR_RETURN(place.number, Number(environment, number, 0, kMostHosts - 1, launcher));
  if (place.number < place.size) return place;
  return absl::InvalidArgumentError(
      absl::StrCat(number, " is ", place.number, ", but ", size, " says that there are only ",
                   place.size, ": unset both, or start muster run by ", launcher));
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

bool IsMachineName(absl::string_view name) {
  return !name.empty() && name.size() <= kLongestName && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

// Whatever a launcher calls the run, as a part of ids and paths. One that had to be changed gets a
// number of all its bytes, so that two do not become one.
std::string RunIdFrom(absl::string_view launcher, absl::string_view id) {
  std::string text;
  bool is_same = id.size() <= kLongestRunId - launcher.size() - 1;
  for (const char c : id.substr(0, 24)) {
    const bool fits = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
    text += fits ? absl::ascii_tolower(static_cast<unsigned char>(c)) : '-';
    is_same = is_same && fits && !absl::ascii_isupper(static_cast<unsigned char>(c));
  }
  if (id.size() <= 24 && is_same) return absl::StrCat(launcher, "-", text);
  return absl::StrFormat("%s-%s-%08x", std::string(launcher), text,
                         static_cast<uint32_t>(HashBytes({id.data(), id.size()})));
}

struct HostRange {
  int min = 1;
  int max = 1;
};

absl::StatusOr<HostRange> ParseHosts(const std::string& text) {
  const size_t colon = text.find(':');
  const bool is_range = colon != std::string::npos;
  const std::string least = is_range ? text.substr(0, colon) : text;
  const std::string most = is_range ? text.substr(colon + 1) : text;
  HostRange range;
  const bool sound = !least.empty() && !most.empty() && ParseDigits(least, &range.min) &&
                     ParseDigits(most, &range.max) && range.min >= 1 && range.max <= kMostHosts &&
                     range.min <= range.max;
  if (sound) return range;
  return Wrong("--nnodes", text,
               absl::StrCat("is neither N nor MIN:MAX, each from 1 to ", kMostHosts));
}

// What a launcher said of numbers goes into the plan.
void Take(const Place& place, LaunchPlan& plan) {
  plan.number = place.number;
  plan.hosts_min = plan.hosts_max = place.size;
}

// How many hosts this machine has, where the launcher says it.
void TakeLocalSize(const Environment& environment, const std::string& name, LaunchPlan& plan) {
  const std::string text = Value(environment, name);
  int size = 0;
  if (text.empty() || !ParseDigits(text, &size) || size < 1 || size > kMostHosts) return;
  plan.local_size = size;
  plan.one_machine = size == plan.hosts_max;
}

absl::StatusOr<LaunchPlan> FromOptions(const LaunchOptions& options) {
  LaunchPlan plan{.launcher = Launcher::kOptions};
  if (options.hosts.empty())
    return absl::InvalidArgumentError(
        "--node-rank says which host this is, but not of how many: give --nnodes N or MIN:MAX");
  MUSTER_ASSIGN_OR_RETURN(const HostRange range, ParseHosts(options.hosts));
  plan.hosts_min = range.min;
  plan.hosts_max = range.max;
  if (!options.number && range.max > 1)
    return absl::InvalidArgumentError(
        "--nnodes is given, but not which of them this host is: give --node-rank, from 0 on the "
        "first host");
  plan.number = options.number.value_or(0);
  if (plan.number < 0 || plan.number >= range.max)
    return Wrong("--node-rank", absl::StrCat(plan.number),
                 absl::StrCat("is not from 0 to ", range.max - 1, ", as --nnodes says"));
  plan.suffix = absl::StrCat("-", plan.number);
  return plan;
}

absl::StatusOr<LaunchPlan> FromTorchrun(const Environment& environment) {
  constexpr char kName[] = "torchrun";
  LaunchPlan plan{.launcher = Launcher::kTorchrun};
  MUSTER_ASSIGN_OR_RETURN(const Place place, PlaceOf(environment, "RANK", "WORLD_SIZE", kName));
  Take(place, plan);
  MUSTER_ASSIGN_OR_RETURN(plan.local_rank,
                          Number(environment, "LOCAL_RANK", 0, kMostHosts - 1, kName));
  plan.first = Value(environment, "MASTER_ADDR");
  if (plan.first.empty())
    return absl::InvalidArgumentError(
        "MASTER_ADDR is empty or not set, which torchrun sets: it says where rank 0 is");
  plan.suffix = absl::StrCat("-", plan.local_rank);
  TakeLocalSize(environment, "LOCAL_WORLD_SIZE", plan);
  // MASTER_PORT may be torchrun's own, and is left alone.
  const std::string id = Value(environment, "TORCHELASTIC_RUN_ID");
  if (!id.empty() && id != "none") plan.run_id = RunIdFrom("torchrun", id);
  return plan;
}

// Of a run in an allocation of Slurm or PBS: its job's id is part of the run's.
std::string AllocationOf(const Environment& environment) {
  for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID"})
    if (std::string id = Value(environment, name); !id.empty()) return id;
  return "";
}

absl::StatusOr<LaunchPlan> FromOpenMpi(const Environment& environment) {
  constexpr char kName[] = "Open MPI's mpirun";
  LaunchPlan plan{.launcher = Launcher::kOpenMpi};
  MUSTER_ASSIGN_OR_RETURN(const Place place, PlaceOf(environment, "OMPI_COMM_WORLD_RANK",
                                                     "OMPI_COMM_WORLD_SIZE", kName));
  Take(place, plan);
  MUSTER_ASSIGN_OR_RETURN(
      plan.local_rank, Number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", 0, kMostHosts - 1, kName));
  plan.suffix = absl::StrCat("-", plan.number);
  TakeLocalSize(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", plan);
  // Open MPI 4 makes the namespace of a process number, which comes again; its key is random.
  std::string id = absl::StrCat(Value(environment, "PMIX_NAMESPACE"),
                                Value(environment, "OMPI_MCA_orte_precondition_transports"));
  if (!id.empty()) plan.run_id = RunIdFrom("mpi", absl::StrCat(id, AllocationOf(environment)));
  return plan;
}

// PALS and Hydra tell each process its number; the node file, where there is one, who is first.
absl::StatusOr<LaunchPlan> FromPmi(const Environment& environment, Launcher launcher) {
  const bool is_pals = launcher == Launcher::kPals;
  const std::string name(NameOf(launcher));
  LaunchPlan plan{.launcher = launcher};
  MUSTER_ASSIGN_OR_RETURN(
      const Place place,
      PlaceOf(environment, is_pals ? "PALS_RANKID" : "PMI_RANK", "PMI_SIZE", name));
  Take(place, plan);
  const std::string local = is_pals ? "PALS_LOCAL_RANKID" : "MPI_LOCALRANKID";
  if (Has(environment, local)) {
    MUSTER_ASSIGN_OR_RETURN(plan.local_rank, Number(environment, local, 0, kMostHosts - 1, name));
  }
  plan.suffix = absl::StrCat("-", plan.number);
  TakeLocalSize(environment, is_pals ? "PALS_LOCAL_SIZE" : "MPI_LOCALNRANKS", plan);
  // Each mpiexec of PALS has an id of its own; one of Hydra has none.
  if (const std::string id = Value(environment, "PALS_APID"); is_pals && !id.empty())
    plan.run_id = RunIdFrom("pals", absl::StrCat(AllocationOf(environment), "-", id));
  return plan;
}

absl::StatusOr<LaunchPlan> FromSlurm(const Environment& environment) {
  constexpr char kName[] = "srun";
  LaunchPlan plan{.launcher = Launcher::kSlurm};
  const std::string job = Value(environment, "SLURM_JOB_ID");
  const std::string step = Value(environment, "SLURM_STEP_ID");
  if (job.empty() || step.empty())
    return absl::InvalidArgumentError(
        "SLURM_STEP_NODELIST is set, but SLURM_JOB_ID or SLURM_STEP_ID is not, which srun sets: "
        "start muster run by srun, or unset it");
  MUSTER_ASSIGN_OR_RETURN(const Place place,
                          PlaceOf(environment, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", kName));
  Take(place, plan);
  MUSTER_ASSIGN_OR_RETURN(plan.local_rank,
                          Number(environment, "SLURM_LOCALID", 0, kMostHosts - 1, kName));
  const auto machines = ExpandNodeList(Value(environment, "SLURM_STEP_NODELIST"));
  MUSTER_RETURN_IF_ERROR(Prefix("SLURM_STEP_NODELIST", machines.status()));
  plan.machines = *machines;
  MUSTER_ASSIGN_OR_RETURN(const int nodes,
                          Number(environment, "SLURM_STEP_NUM_NODES", 1, kMostHosts, kName));
  if (static_cast<size_t>(nodes) != plan.machines.size())
    return absl::InvalidArgumentError(absl::StrCat(
        "SLURM_STEP_NODELIST names ", plan.machines.size(), " nodes, but SLURM_STEP_NUM_NODES is ",
        nodes, ": unset them, or start muster run by srun"));
  plan.first = plan.machines.front();
  plan.suffix = absl::StrCat("-", plan.number);
  plan.run_id = RunIdFrom("slurm", absl::StrCat(job, "-", step));
  return plan;
}

absl::StatusOr<LaunchPlan> FromKubernetes(const Environment& environment,
                                          const LaunchOptions& options) {
  LaunchPlan plan{.launcher = Launcher::kKubernetes, .comes_again = true};
  if (options.hosts.empty())
    return absl::InvalidArgumentError(
        "JOB_COMPLETION_INDEX says which pod this is, but not of how many: give --nnodes N or "
        "MIN:MAX, with the job's `completions`");
  MUSTER_ASSIGN_OR_RETURN(const HostRange range, ParseHosts(options.hosts));
  plan.hosts_min = range.min;
  plan.hosts_max = range.max;
  MUSTER_ASSIGN_OR_RETURN(plan.number, Number(environment, "JOB_COMPLETION_INDEX", 0, range.max - 1,
                                              "an Indexed Job of Kubernetes"));
  // The pod's name, JOB-INDEX, is its host's: the suffix is in it already.
  const std::string host = Value(environment, "HOSTNAME");
  const std::string index = absl::StrCat("-", plan.number);
  if (!absl::EndsWith(host, index) || host.size() == index.size() || !IsMachineName(host))
    return Wrong("HOSTNAME", host,
                 absl::StrCat("does not end with ", index,
                              ", as the host name of a pod of an Indexed Job does: leave "
                              "`hostname` out of the pod's template, or give --coordinator"));
  plan.first = absl::StrCat(host.substr(0, host.size() - index.size()), "-0");
  return plan;
}

// Nobody started us on several hosts.
LaunchPlan OneHost(const Environment& environment) {
  LaunchPlan plan;
  if (const std::string job = Value(environment, "SLURM_JOB_ID"); !job.empty()) {
    plan.launcher = Launcher::kSlurm;
    plan.run_id = RunIdFrom("slurm", job);
    plan.notes.push_back(
        "this is no step of the Slurm job: it trains on this host alone; srun muster run trains on "
        "all");
  } else if (const std::string pbs = Value(environment, "PBS_JOBID"); !pbs.empty()) {
    plan.launcher = Launcher::kPbs;
    plan.run_id = RunIdFrom("pbs", pbs);
    plan.notes.push_back(
        "mpiexec has not started this: it trains on this host alone; mpiexec muster run trains on "
        "all");
  }
  return plan;
}

// The innermost launcher counts: mpirun may run in a step of Slurm, torchrun in either.
absl::StatusOr<LaunchPlan> FromLauncher(const Environment& environment,
                                        const LaunchOptions& options) {
  if (options.number || (!options.hosts.empty() && !Has(environment, "JOB_COMPLETION_INDEX")))
    return FromOptions(options);
  // Batch scripts set some of torchrun's variables themselves; its ranks come from torchrun alone.
  if (Has(environment, "RANK") && Has(environment, "WORLD_SIZE") && Has(environment, "LOCAL_RANK"))
    return FromTorchrun(environment);
  if (Has(environment, "OMPI_COMM_WORLD_RANK")) return FromOpenMpi(environment);
  if (Has(environment, "PALS_RANKID")) return FromPmi(environment, Launcher::kPals);
  if (Has(environment, "MPI_LOCALRANKID") && Has(environment, "PMI_RANK"))
    return FromPmi(environment, Launcher::kHydra);
  if (Has(environment, "SLURM_STEP_NODELIST")) return FromSlurm(environment);
  if (Has(environment, "PMI_RANK")) return FromPmi(environment, Launcher::kHydra);
  if (Has(environment, "JOB_COMPLETION_INDEX")) return FromKubernetes(environment, options);
  return OneHost(environment);
}

// "01-03" or "7", appended as they are to be written.
absl::Status ExpandRange(absl::string_view range, std::vector<std::string>& out) {
  const size_t dash = range.find('-');
  const absl::string_view first = range.substr(0, dash);
  const absl::string_view last = dash == absl::string_view::npos ? first : range.substr(dash + 1);
  int64_t from = 0;
  int64_t to = 0;
  constexpr size_t kMostDigits = 12;
  if (first.empty() || last.empty() || first.size() > kMostDigits || last.size() > kMostDigits ||
      !ParseDigits(first, &from) || !ParseDigits(last, &to) || from > to)
    return absl::InvalidArgumentError(absl::StrCat(
        "has '", Cut(Printable(range)), "' in brackets, which is neither N nor FROM-TO"));
  if (to - from >= kMostHosts - static_cast<int64_t>(out.size()))
    return absl::InvalidArgumentError(absl::StrCat("names more than ", kMostHosts, " nodes"));
  const int width = static_cast<int>(first.size());
  for (int64_t n = from; n <= to; ++n) out.push_back(absl::StrFormat("%0*d", width, n));
  return absl::OkStatus();
}

// One entry of a node list, which may have several brackets.
absl::Status ExpandEntry(absl::string_view entry, std::vector<std::string>& out) {
  std::vector<std::string> names = {""};
  while (!entry.empty()) {
    const size_t open = entry.find('[');
    for (std::string& name : names) absl::StrAppend(&name, entry.substr(0, open));
    if (open == absl::string_view::npos) break;
    const size_t close = entry.find(']', open);
    if (close == absl::string_view::npos)
      return absl::InvalidArgumentError("has a bracket that is not closed");
    std::vector<std::string> numbers;
    for (const absl::string_view range :
         absl::StrSplit(entry.substr(open + 1, close - open - 1), ','))
      MUSTER_RETURN_IF_ERROR(ExpandRange(range, numbers));
    if (names.size() * numbers.size() + out.size() > kMostHosts)
      return absl::InvalidArgumentError(absl::StrCat("names more than ", kMostHosts, " nodes"));
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& number : numbers) longer.push_back(name + number);
    names = std::move(longer);
    entry.remove_prefix(close + 1);
  }
  for (std::string& name : names) {
    if (!IsMachineName(name))
      return absl::InvalidArgumentError(
          absl::StrCat("has '", Cut(Printable(name)), "', which is not the name of a node"));
    out.push_back(std::move(name));
  }
  if (out.size() > kMostHosts)
    return absl::InvalidArgumentError(absl::StrCat("names more than ", kMostHosts, " nodes"));
  return absl::OkStatus();
}

}  // namespace

absl::string_view NameOf(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone: return "none";
    case Launcher::kOptions: return "options";
    case Launcher::kTorchrun: return "torchrun";
    case Launcher::kOpenMpi: return "Open MPI";
    case Launcher::kPals: return "PALS";
    case Launcher::kHydra: return "Hydra";
    case Launcher::kSlurm: return "Slurm";
    case Launcher::kPbs: return "PBS";
    case Launcher::kKubernetes: return "Kubernetes";
  }
  return "none";
}

absl::StatusOr<LaunchPlan> PlanLaunch(const Environment& environment,
                                      const LaunchOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(LaunchPlan plan, FromLauncher(environment, options));
  if (options.slots && (*options.slots < 1 || *options.slots > kMostSlotsOfHost))
    return Wrong("--nproc-per-node", absl::StrCat(*options.slots),
                 absl::StrCat("is not from 1 to ", kMostSlotsOfHost));
  plan.slots = options.slots;
  const std::string end = Value(environment, "SLURM_JOB_END_TIME");
  int64_t ends = 0;
  if (ParseDigits(end, &ends) && ends > 0)
    plan.ends_at = ends;
  else if (!end.empty() && end != "0" && end != "Unlimited")
    plan.notes.push_back(absl::StrCat("SLURM_JOB_END_TIME: '", Cut(Printable(end)),
                                      "' is no time in seconds since 1970: the run is not stopped "
                                      "before the allocation ends"));
  plan.one_machine =
      plan.one_machine || plan.hosts_max == 1 || (plan.machines.size() == 1 && !plan.first.empty());
  if (!options.run_id.empty()) plan.run_id = RunIdFrom("run", options.run_id);
  if (!options.coordinator.empty()) {
    const absl::StatusOr<HostPort> named = ParseHostPort(options.coordinator);
    MUSTER_RETURN_IF_ERROR(Prefix("--coordinator", named.status()));
    plan.first = named->host;
    plan.port = named->port;
  }
  return plan;
}

absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list) {
  if (list.empty()) return absl::InvalidArgumentError("is empty: it is to name the nodes");
  if (list.size() > kLongestList)
    return absl::InvalidArgumentError(absl::StrCat("has more than ", kLongestList, " bytes"));
  std::vector<std::string> nodes;
  size_t begin = 0;
  bool is_inside = false;  // of brackets, where commas part no entries
  for (size_t i = 0; i <= list.size(); ++i) {
    if (i == list.size() || (list[i] == ',' && !is_inside)) {
      MUSTER_RETURN_IF_ERROR(ExpandEntry(list.substr(begin, i - begin), nodes));
      begin = i + 1;
      continue;
    }
    if (list[i] == '[') is_inside = true;
    if (list[i] == ']') is_inside = false;
  }
  return nodes;
}

absl::StatusOr<std::vector<std::string>> MachinesOf(absl::string_view node_file) {
  std::vector<std::string> machines;
  std::set<std::string> seen;
  for (absl::string_view line : absl::StrSplit(node_file, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    if (!IsMachineName(line))
      return Wrong("a line of the node file", line, "is not the name of a host");
    if (!seen.emplace(line).second) continue;
    machines.emplace_back(line);
    if (machines.size() > kMostHosts)
      return absl::InvalidArgumentError(absl::StrCat("the node file names more than ", kMostHosts,
                                                     " hosts, which are the most of a run"));
  }
  if (machines.empty())
    return absl::InvalidArgumentError(
        "the node file names no host: unset PBS_NODEFILE, or have it name the hosts, one a line");
  return machines;
}

bool ReadsNodeFile(const LaunchPlan& plan) {
  const bool is_by_mpiexec = plan.launcher == Launcher::kPals || plan.launcher == Launcher::kHydra;
  return is_by_mpiexec && plan.number == 0;
}

absl::Status TakeNodeFile(absl::string_view node_file, LaunchPlan& plan) {
  MUSTER_ASSIGN_OR_RETURN(plan.machines, MachinesOf(node_file));
  if (plan.first.empty()) plan.first = plan.machines.front();
  plan.one_machine = plan.one_machine || plan.machines.size() == 1;
  return absl::OkStatus();
}

std::string HostNameIn(const LaunchPlan& plan, absl::string_view machine) {
  std::string name;
  for (const char c : machine.substr(0, kLongestName - plan.suffix.size())) {
    const bool fits = IsNameCharacter(c) && !(name.empty() && (c == '.' || c == '-'));
    name += fits ? c : '_';
  }
  return absl::StrCat(name.empty() ? "host" : name, plan.suffix);
}

std::optional<std::string> DevicesOf(const LaunchPlan& plan, const Environment& environment,
                                     const std::vector<std::string>& on_machine) {
  // What Slurm shows to a task is that task's, and pods have devices of their own.
  const bool shares = plan.launcher == Launcher::kOpenMpi || plan.launcher == Launcher::kPals ||
                      plan.launcher == Launcher::kHydra || plan.launcher == Launcher::kTorchrun;
  const auto hosts = static_cast<size_t>(plan.local_size);
  const auto rank = static_cast<size_t>(plan.local_rank);
  const auto named = environment.find("CUDA_VISIBLE_DEVICES");
  const bool is_named = named != environment.end();
  const std::vector<std::string> devices =
      is_named ? std::vector<std::string>(absl::StrSplit(named->second, ',')) : on_machine;
  if (!shares || hosts < 2 || rank >= hosts || devices.empty()) return std::nullopt;
  if (is_named && devices.size() < hosts) return std::nullopt;  // they have been shared out
  const auto from = [&](size_t r) {
    return devices.begin() + static_cast<std::ptrdiff_t>(r * devices.size() / hosts);
  };
  return absl::StrJoin(from(rank), from(rank + 1), ",");
}

absl::StatusOr<Environment> NamedEnvironment(const std::vector<std::string>& names,
                                             const Environment& environment) {
  Environment named;
  for (const std::string& text : names) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.empty())
      return Wrong("--env", text, "has no name: give --env NAME or --env NAME=VALUE");
    if (equals != std::string::npos) {
      named[name] = text.substr(equals + 1);
    } else if (Has(environment, name)) {
      named[name] = Value(environment, name);
    } else {
      return Wrong("--env", text, "is not set here: set and export it, or give --env NAME=VALUE");
    }
  }
  return named;
}

std::string MissingHosts(const LaunchPlan& plan, const std::vector<std::string>& names) {
  // Ranks of one machine come again on each other one.
  if (plan.launcher == Launcher::kTorchrun || plan.hosts_max < 2) return "";
  std::vector<bool> is_there(static_cast<size_t>(plan.hosts_max), false);
  for (const std::string& name : names) {
    const size_t dash = name.rfind('-');
    size_t number = 0;
    if (dash != std::string::npos && ParseDigits(name.substr(dash + 1), &number) &&
        number < is_there.size())
      is_there[number] = true;
  }
  // With several hosts on a machine the launcher does not say which is where.
  const bool has_machines = plan.machines.size() == is_there.size();
  constexpr size_t kMostNamed = 20;
  std::vector<std::string> missing;
  for (size_t i = 0; i < is_there.size(); ++i)
    if (!is_there[i])
      missing.push_back(has_machines ? absl::StrCat(i, " (on ", plan.machines[i], ")")
                                     : absl::StrCat(i));
  if (missing.empty()) return "";
  const size_t more = missing.size() > kMostNamed ? missing.size() - kMostNamed : 0;
  missing.resize(missing.size() - more);
  return absl::StrCat(", without ", absl::StrJoin(missing, ", "),
                      more > 0 ? absl::StrCat(" and ", more, " more") : "");
}

}  // namespace muster
