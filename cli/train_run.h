// One job on a cluster of this machine, from start to end, shown on a screen: what `muster train`
// does, `muster demo` twice, and `muster run` on its first host. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cli/cluster.h"
#include "cli/job_result.h"
#include "cli/screen.h"
#include "lib/base/time.h"
#include "lib/domain/job.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

// The hosts of `muster run`, of which this is host 0.
struct HostsOfRun {
  LaunchPlan plan;
  std::string coordinator;  // HOST:PORT where the others find us; port 0: any
  std::string join;         // the same, where they join
  // What others find us by, in place of the address that this is now; empty: that address.
  std::string known_as{};
  std::string host;     // name of this one
  std::string node{};   // of its machine; empty: a name of its own
  int slots = 1;        // of each host
  Duration patience{};  // the job is not begun before the plan's least number of hosts is there
  std::function<void()> on_enough{};  // they are there; may be empty
};

struct JobRequest {
  JobSpec spec;  // complete
  std::string folder;
  std::string faults;  // a fault plan as YAML; empty: none
  std::string faults_source;
  // The job is cancelled once its fingerprint of this step or a later one is known; negative:
  // never.
  int64_t cancel_after = -1;
  std::string metrics_address{};       // as in ClusterOptions
  int metrics_port = 0;                // the same
  double lease = 0;                    // seconds, as in ClusterOptions
  int64_t thread_patience = 0;         // the same
  std::vector<std::string> plugins{};  // folders
  std::vector<std::string> accept{};   // as of RestClient::Submit
  MlflowServer mlflow{};
  bool shows_details = false;       // learning rate and gradient norm in the progress
  std::string id;                   // of the job, where the folder holds none yet; empty: a new one
  std::optional<HostsOfRun> hosts;  // other than this one
  bool shows_logs = false;          // what all members print
  bool bind_cores = false;          // each member to its share of the cores
  // The job is stopped after a checkpoint when so much time has gone by, as if by Ctrl-C.
  std::optional<Duration> stop_after{};
};

// When it returns, no process is left.
JobResult RunJob(const JobRequest& request, const ClusterMaker& make_cluster, Screen& screen);

}  // namespace muster::cli
