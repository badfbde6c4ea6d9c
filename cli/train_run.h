// One job on a cluster of this machine, from start to end, shown on a screen: what `muster train`
// does, `muster demo` twice, and `muster run` on its first host. Main thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cli/cluster.h"
#include "cli/follower.h"
#include "cli/progress.h"
#include "cli/rest_client.h"
#include "cli/screen.h"
#include "lib/base/exit_codes.h"
#include "lib/base/time.h"
#include "lib/domain/job.h"
#include "lib/launch/launch_plan.h"

namespace muster::cli {

// The hosts of `muster run`, of which this is host 0.
struct HostsOfRun {
  LaunchPlan plan;
  std::string coordinator;  // HOST:PORT where the others find us; port 0: any
  std::string join;         // the same, where they join
  std::string host;         // name of this one
  std::string node{};       // of its machine; empty: a name of its own
  int slots = 1;            // of each host
  Duration patience{};      // the job is not begun before the plan's least number of hosts is there
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
  std::string metrics_address{};    // as in ClusterOptions
  double lease = 0;                 // seconds, as in ClusterOptions
  int64_t thread_patience = 0;      // the same
  bool shows_details = false;       // learning rate and gradient norm in the progress
  std::string id;                   // of the job, where the folder holds none yet; empty: a new one
  std::optional<HostsOfRun> hosts;  // other than this one
  bool shows_logs = false;          // what all members print
  bool bind_cores = false;          // each member to its share of the cores
  // The job is stopped after a checkpoint when so much time has gone by, as if by Ctrl-C.
  std::optional<Duration> stop_after{};
};

struct JobResult {
  // Not OK: the run ended before its job. The cluster could not be made, the folder holds another
  // training specification, the job was refused, the coordinator would not stay up, or the run was
  // interrupted (kCancelled).
  absl::Status error;
  // As last heard. Where the run ended before its job, the state is "interrupted" or "failed".
  JobAnswer job;
  std::vector<StepFingerprint> fingerprints;
  std::optional<double> first_loss;
  int64_t steps_before = 0;     // of the job, from earlier runs; nothing of them is in `seconds`
  bool was_over = false;        // before this run
  double seconds = 0;           // from the start of the cluster to the end of the job
  int exit_code = kExitFailed;  // of `muster train`
  std::string sample;           // text that the trained model made, fit for a terminal; empty: none
  std::string folder;
  // When a process was lost, a view changed or the coordinator came back.
  int64_t last_disturbed_step = 0;
  int64_t steps_without_coordinator = 0;   // that were shown while it was down
  std::vector<std::string> missed_faults;  // of the fault plan, that did not happen
};

// When it returns, no process is left.
JobResult RunJob(const JobRequest& request, const ClusterMaker& make_cluster, Screen& screen);

// Of a run that could not even begin.
JobResult FailedResult(const absl::Status& error);

// The last object of --json.
std::string ResultJson(const JobResult& result);
// The same for people, in a few lines.
std::string ResultText(const JobResult& result);

}  // namespace muster::cli
