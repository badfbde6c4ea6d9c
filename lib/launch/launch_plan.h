// How `muster run` finds the hosts of a run: what the launcher that started this process says in
// its environment, and the options, made into one plan. Pure: nothing is looked up, opened or
// resolved here.
//
// Sources: torchrun's "Environment Variables"; Slurm's srun(1), "OUTPUT ENVIRONMENT VARIABLES"; the
// manuals of PBS and PALS; Open MPI's mpirun(1); Hydra's launcher; Kubernetes' "Indexed Job".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

inline constexpr int kMostHosts = 4096;  // of one run
inline constexpr int kMostSlotsOfHost = 4096;

using Environment = std::map<std::string, std::string>;

enum class Launcher {
  kNone,  // one host
  kOptions,
  kTorchrun,
  kOpenMpi,
  kPals,
  kHydra,
  kSlurm,
  kPbs,
  kKubernetes,
};
// For people.
absl::string_view NameOf(Launcher launcher);

struct LaunchOptions {
  std::string hosts;          // --nnodes: N or MIN:MAX; empty: as the launcher says
  std::optional<int> number;  // --node-rank
  std::optional<int> slots;   // --nproc-per-node
  std::string coordinator;    // HOST:PORT; empty: as the launcher says
  std::string run_id;         // empty: as the launcher says
};

struct LaunchPlan {
  Launcher launcher = Launcher::kNone;
  // What no other run has that may see the same folder; fit for the id of a job and for a path.
  // Empty: the launcher gives none, so the folder has to name the run.
  std::string run_id;
  int hosts_min = 1;
  int hosts_max = 1;
  int number = 0;  // of this host: 0 holds the coordinator
  // Where host 0 is, as the launcher calls it: a name or an address without a port. Empty: the
  // launcher does not say; the shared folder does.
  std::string first;
  int port = 0;              // of the coordinator, where a person has named it
  std::optional<int> slots;  // that a person has named, for each host
  int local_rank = 0;        // of this host among those of its machine
  int local_size = 0;        // how many those are; 0: the launcher does not say
  bool one_machine = false;  // all hosts are known to be on this one
  // What tells this host from others of its machine, after the machine's name: "-3". Ranks of
  // torchrun move when it starts anew, so there it is the rank on the machine.
  std::string suffix;
  std::vector<std::string> machines;  // in their order, where the launcher lists them
  std::vector<std::string> notes;     // for people
  // A host that ends is started again elsewhere, under its name and on its own, while the others
  // run, as pods are. So the first one is to be found by a name and not by an address.
  bool comes_again = false;
  // When the launcher ends what still runs, in seconds since 1970; nothing: it does not say.
  std::optional<int64_t> ends_at;
};

// kInvalidArgument: what is wrong, in which variable or option, and what to do.
absl::StatusOr<LaunchPlan> PlanLaunch(const Environment& environment, const LaunchOptions& options);

// "node[01-03,7],x[1-2]y" → node01 node02 node03 node7 x1y x2y, at most kMostHosts. Several
// brackets in one name are taken as Slurm takes them: the last one counts fastest.
// kInvalidArgument: what is wrong.
absl::StatusOr<std::vector<std::string>> ExpandNodeList(absl::string_view list);

// The machines of a PBS node file, each once, in their order. kInvalidArgument: there is none, a
// line is no name, or they are too many.
absl::StatusOr<std::vector<std::string>> MachinesOf(absl::string_view node_file);

// Whether the file that PBS_NODEFILE names is of use to this host, the first one: mpiexec does not
// say where that is. PBS has the file on the machine only where the job's script runs.
bool ReadsNodeFile(const LaunchPlan& plan);
// What it says goes into the plan; where a person has named the coordinator, that stays.
absl::Status TakeNodeFile(absl::string_view node_file, LaunchPlan& plan);

// The name of a host: that of its machine, with what tells it from others there. It is a part of
// paths, so that what a machine may be called beyond that is replaced.
std::string HostNameIn(const LaunchPlan& plan, absl::string_view machine);

// What CUDA_VISIBLE_DEVICES is to be on this host; it may be empty. mpirun, mpiexec and torchrun
// let all hosts of a machine see the same devices: then it is an equal share, by the local rank, of
// those that it names so far, else of `on_machine`, all that this machine has. Nothing: as it is,
// because the launcher has shared them out itself (it names fewer than hosts), or there are none.
std::optional<std::string> DevicesOf(const LaunchPlan& plan, const Environment& environment,
                                     const std::vector<std::string>& on_machine);

// --env NAME or NAME=VALUE: what the processes of a run get beside what they have. NAME alone is
// the value that it has in `environment`. kInvalidArgument: it has none there, or no name.
absl::StatusOr<Environment> NamedEnvironment(const std::vector<std::string>& names,
                                             const Environment& environment);

// Which hosts of the plan are not among these, for people: ", without 2 (on node03) and 5". Empty:
// their names do not tell.
std::string MissingHosts(const LaunchPlan& plan, const std::vector<std::string>& names);

}  // namespace muster
