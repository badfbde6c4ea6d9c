// A cluster on this machine: the coordinator, which it keeps running, and this machine as its first
// host. Others may join. On the loop's thread, the main thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/runtime/host_agent.h"
#include "agent/runtime/run_folder.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct LocalClusterOptions {
  std::string folder;
  std::string http;  // address of the REST port; empty: any on loopback
  // `coordinator` is where the coordinator is to listen for agents and members; empty: any port on
  // loopback. Members listen on the same address.
  HostOptions host;
};

struct LocalClusterEvents {
  std::function<void(const ProcessKey&, pid_t)> on_start;
  std::function<void(const NoteExit&)> on_exit;
  std::function<void(const ProcessKey&, const Report&)> on_report;
  std::function<void(const FaultAction&)> on_fault;
  std::function<void(bool up)> on_coordinator;  // it listens; it has ended
  std::function<void()> on_stopped;
};

class LocalCluster {
 public:
  // kFailedPrecondition: the folder is in use; kNotFound: a program of ours is missing; others: the
  // folder cannot be written, or no port is free.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Make(EventLoop& loop, Transport& transport,
                                                            LocalClusterOptions options,
                                                            LocalClusterEvents events);

  void Start();
  // "http://127.0.0.1:PORT", the same as long as this lives.
  std::string url() const { return "http://" + addresses_.http; }
  const RunFolder& folder() const { return folder_; }
  HostAgent& host() const { return *host_; }

 private:
  LocalCluster(LocalClusterOptions options, LocalClusterEvents events, RunFolder folder,
               ClusterAddresses addresses);
  absl::Status MakeHost(EventLoop& loop, Transport& transport);
  std::vector<std::string> CoordinatorCommand() const;
  void OnReport(const ProcessKey& key, const Report& report);
  void OnExit(NoteExit note);
  absl::StatusOr<ClusterAddresses> OtherAddresses();
  std::string LeaveTakenAddresses();

  const LocalClusterOptions options_;
  const LocalClusterEvents events_;
  RunFolder folder_;
  ClusterAddresses addresses_;  // that of gRPC changes where nobody else was told it
  std::unique_ptr<HostAgent> host_;
};

}  // namespace muster::agent
