// A cluster on this machine: the agent, the folder it works in, and its session with the
// coordinator that it itself keeps running. On the loop's thread, the main thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/runtime/agent.h"
#include "agent/runtime/link.h"
#include "agent/runtime/run_folder.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct LocalClusterOptions {
  std::string folder;
  std::string programs;  // folder with muster-coordinator, muster-worker, muster-server
  std::string http;      // address of the REST port; empty: any on loopback
  std::vector<std::string> arguments;              // further ones of every process
  std::vector<std::string> coordinator_arguments;  // and of the coordinator alone
  int slots = 1;                                   // how many members this host holds
  FaultPlan faults;
  SupervisorOptions supervisor;
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
  void Stop();  // politely; a second time: at once
  // "http://127.0.0.1:PORT", the same as long as this lives.
  std::string url() const { return "http://" + addresses_.http; }
  const RunFolder& folder() const { return folder_; }
  // Whose processes the coordinator wants to run, by what it said last: they are under way.
  std::vector<std::string> WantedJobs() const;
  std::vector<std::string> MissedFaults() const { return agent_.MissedFaults(); }
  void JobEndsAfter(const std::string& job, int64_t last_step) {
    agent_.JobEndsAfter(job, last_step);
  }

 private:
  LocalCluster(EventLoop& loop, Transport& transport, LocalClusterOptions options,
               LocalClusterEvents events, RunFolder folder, ClusterAddresses addresses);
  std::vector<std::string> CommandFor(const Spawn& spawn) const;
  std::vector<std::string> CoordinatorCommand() const;
  std::vector<std::string> MemberCommand(const Spawn& spawn) const;
  void OnReport(const ProcessKey& key, const Report& report);
  void OnExit(NoteExit note);
  std::string LeaveTakenAddresses();
  bool MembersRun() const;
  void OnWanted(const Wanted& wanted);
  LaneCount LanesOf(const ProcessKey& key);
  void WriteTargets();

  using LanesByName = std::vector<std::pair<std::string, LaneCount>>;
  // What this host knows of a job, as long as it is wanted or a process of it runs.
  struct Job {
    bool is_wanted = false;  // if not, its last processes are ending
    StartNumber first_start;
    LanesByName run_before;    // by workers that ended together with an earlier agent of the folder
    bool told_before = false;  // … to the coordinator of this session
    std::map<std::string, Incarnation> counted;  // by worker, the last one whose lanes were told
  };
  static std::map<std::string, LanesByName> LanesRunBefore(const RunFolder& folder);
  void Begin(const JobProcesses& wanted);
  void MakeFolder(const std::string& id, const Job& job) const;
  std::string LogFile(const ProcessKey& key) const;
  void TellLanesRunBefore(const std::string& id, Job& job);

  const LocalClusterOptions options_;
  const LocalClusterEvents events_;
  RunFolder folder_;
  ClusterAddresses addresses_;  // that of gRPC changes where nobody else was told it
  const std::string node_;
  std::map<std::string, LanesByName> run_before_;  // of jobs that have not been wanted yet
  std::map<std::string, Job> jobs_;
  std::map<ProcessKey, std::string> metrics_;  // of processes that run
  Agent agent_;
  CoordinatorLink link_;
};

}  // namespace muster::agent
