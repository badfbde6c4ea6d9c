// What launchers that are not at hand put into the environment of a process, as their documentation
// gives it.
#pragma once

#include <string>

#include "lib/launch/launch_plan.h"

namespace muster {

struct RankOfLauncher {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
};

inline Environment Torchrun(RankOfLauncher at = {6, 8, 2, 4}) {
  return {{"MASTER_ADDR", "node-a"},
          {"MASTER_PORT", "29500"},
          {"WORLD_SIZE", std::to_string(at.size)},
          {"RANK", std::to_string(at.rank)},
          {"LOCAL_RANK", std::to_string(at.local_rank)},
          {"GROUP_RANK", std::to_string(at.rank / at.local_size)},
          {"LOCAL_WORLD_SIZE", std::to_string(at.local_size)},
          {"TORCHELASTIC_RUN_ID", "none"}};
}

inline Environment Pals(RankOfLauncher at = {1, 4, 1, 2}) {
  return {{"PBS_JOBID", "123.head"},
          {"PBS_NODEFILE", "/var/spool/pbs/aux/123.head"},
          {"PALS_RANKID", std::to_string(at.rank)},
          {"PALS_LOCAL_RANKID", std::to_string(at.local_rank)},
          {"PALS_LOCAL_SIZE", std::to_string(at.local_size)},
          {"PALS_APID", "f00-1"},
          {"PMI_RANK", std::to_string(at.rank)},
          {"PMI_SIZE", std::to_string(at.size)}};
}

inline Environment Hydra(RankOfLauncher at = {2, 3, 0, 1}) {
  return {{"PMI_RANK", std::to_string(at.rank)},
          {"PMI_SIZE", std::to_string(at.size)},
          {"PMI_FD", "7"},
          {"MPI_LOCALRANKID", std::to_string(at.local_rank)},
          {"MPI_LOCALNRANKS", std::to_string(at.local_size)}};
}

// mpiexec of MPICH or of Intel MPI in an allocation of PBS.
inline Environment HydraInPbs(RankOfLauncher at = {1, 4, 1, 2}) {
  Environment environment = Hydra(at);
  environment["PBS_JOBID"] = "123.head";
  environment["PBS_NODEFILE"] = "/var/spool/pbs/aux/123.head";
  return environment;
}

}  // namespace muster
