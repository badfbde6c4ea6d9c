// The folder of a local cluster, and of a host that has joined another one (only what its agent
// writes: agent, jobs, lock, muster-folder, prometheus-targets.json and terms):
//
//   cluster.json              addresses of the coordinator, kept so that they survive restarts
//   job.json                  the job it holds (muster train): id and specification
//   result.json               how it ended (muster train)
//   logs/coordinator.log      what the coordinator printed
//   jobs/JOB/logs/NAME.log    what each process of a job printed
//   jobs/JOB/run/NAME.lanes   how many lanes each worker of a job has run
//   jobs/JOB/metrics.jsonl    the job's history, by the coordinator
//   jobs/JOB/history_of       which job of that id it is of, likewise
//   tensorboard/JOB/          the same for TensorBoard, likewise
//   jobs/JOB/first_start      which job of that id it is: the number of its first start
//   store/                    the coordinator's; store/identity/ is the authority of the cluster
//   keys/                     of this host and its members, while they run
//   checkpoints/
//   prometheus-targets.json   for Prometheus' file_sd_configs: who serves metrics now
//   muster-folder             says that Muster fills the folder: it is no training data
//   hosts/HOST/               folders of agents of other hosts, where they share this one
//   agent                     the incarnation of the agent that uses the folder, or used it last
//   terms                     of one that has joined: the highest term of each cluster that agents
//                             of this folder have obeyed
//   lock                      held by the one agent that uses the folder
//
// Files are replaced whole, so that no reader sees half of one. Not thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/state/obedience.h"
#include "agent/state/supervisor.h"
#include "lib/base/descriptor.h"

namespace muster::agent {

struct ClusterAddresses {
  std::string grpc;  // 127.0.0.1:PORT
  std::string http;
  std::string join;  // where other hosts join; empty: nobody does
  bool operator==(const ClusterAddresses&) const = default;
};

class RunFolder {
 public:
  // Makes what is missing and takes the lock. kAlreadyExists: another agent holds it (the message
  // has its process id); kFailedPrecondition: the folder holds files of somebody else; kDataLoss:
  // something lies in the place of a file of it; kPermissionDenied and others: cannot be written.
  static absl::StatusOr<RunFolder> Open(const std::string& path);
  // The same for one host of a cluster that is elsewhere: hosts/HOST of `path`, which other hosts
  // may share.
  static absl::StatusOr<RunFolder> OpenHost(const std::string& path, const std::string& host);
  RunFolder(RunFolder&&) = default;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }     // absolute
  std::string logs() const { return path_ + "/logs"; }  // the coordinator's
  std::string jobs() const { return path_ + "/jobs"; }
  std::string job(const std::string& id) const { return jobs() + "/" + id; }
  std::string tensorboard() const { return path_ + "/tensorboard"; }
  std::string LogFile(const ProcessKey& key) const;
  std::string store() const { return path_ + "/store"; }
  std::string authority() const { return store() + "/identity"; }
  std::string keys() const { return path_ + "/keys"; }
  std::string checkpoints() const { return path_ + "/checkpoints"; }
  std::string targets() const { return path_ + "/prometheus-targets.json"; }

  // The addresses of the last time where they are still free, else new ones: no other agent picks
  // them as long as this lives, and they never have one port. `http` and `grpc` are the addresses
  // asked for: port 0 means any port of that host, empty any port of loopback; of `join` empty
  // means none. kInvalidArgument: it is not an address, or two are to have one port; kUnavailable:
  // it is not an address of this machine; kResourceExhausted: no port can be had.
  absl::StatusOr<ClusterAddresses> PickAddresses(const std::string& http = "",
                                                 const std::string& grpc = "",
                                                 const std::string& join = "");
  // Whether another program has one that was picked.
  static bool IsTaken(const std::string& address);

  // Writes down who uses the folder now. The agent that used it before, which has ended, and its
  // processes with it; zero: there was none.
  absl::StatusOr<Incarnation> Follow(Incarnation agent) const;

  std::string terms() const { return path_ + "/terms"; }
  // kDataLoss: something else lies in its place.
  absl::StatusOr<KnownTerms> ReadTerms() const;
  absl::Status WriteTerms(const KnownTerms& terms) const;

  // What lies there was left by another job of that id, which has been deleted since.
  bool HoldsAnotherJob(const std::string& id, StartNumber first_start) const;
  // Makes the folders of a job's processes. What another job of that id left there is removed.
  absl::Status MakeJob(const std::string& id, StartNumber first_start) const;

  // Who serves metrics where.
  absl::Status WriteTargets(const std::map<ProcessKey, std::string>& addresses) const;

 private:
  RunFolder(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  static absl::StatusOr<RunFolder> Take(const std::string& absolute);
  // Whether nobody else has the address, which is ours from then on.
  bool Reserve(const std::string& address);
  // One with the port in effect, which is neither one of ours nor `other`, of the host of
  // `address`, which names port 0.
  absl::StatusOr<std::string> TakeAny(const std::string& address, int other);
  absl::StatusOr<std::string> PickJoin(const std::string& wish, const std::string& before,
                                       const ClusterAddresses& others);

  std::string path_;
  Descriptor lock_;
  std::map<int, Descriptor> ports_;  // of ours, so that no other agent takes them
};

}  // namespace muster::agent
