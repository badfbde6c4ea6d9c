// One host of a cluster: its agent, the folder in which its members' files lie, and its session
// with the coordinator, wherever that is. On the loop's thread, the main thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/runtime/agent.h"
#include "agent/runtime/link.h"
#include "agent/runtime/log_follower.h"
#include "agent/runtime/member_identities.h"
#include "agent/runtime/run_folder.h"
#include "agent/state/core_shares.h"
#include "lib/identity/identity_source.h"
#include "lib/transport/transport.h"

namespace muster::agent {

struct HostOptions {
  std::string programs;     // folder with muster-worker and muster-server
  std::string name;         // of the host; empty: that of the machine
  std::string node;         // hosts of one machine have the same; empty: OwnNode
  std::string coordinator;  // HOST:PORT (gRPC), or several with commas
  // Where members listen, without a port: an address at which those of other hosts reach them.
  // Empty: the one by which this host reaches the coordinator that answers first.
  std::string address = "127.0.0.1";
  // Where members serve metrics, likewise; empty: there, or on loopback where they have
  // certificates, as metrics are plain text that nobody is asked for.
  std::string metrics_address{};
  // There, the coordinator that runs beside this agent serves them at this port, and members at the
  // next ones: each at the first that no other of this host has. 0: any.
  int metrics_port = 0;
  // Whether members may listen at an address that was found so; may be null.
  std::function<absl::Status(const std::string& address)> check_address;
  std::vector<std::string> arguments;  // further ones of every process
  std::vector<std::string> plugins{};  // folders from which workers may read plug-ins
  int slots = 1;                       // how many members this host holds
  std::vector<std::string> devices{};  // ids; empty: it has none, and leaves members their GPUs
  std::vector<int> cores;  // of which each slot gets an equal share; empty: nobody is bound
  // Of this host, and the folder that it is read from: then its members have certificates, too, and
  // speak TLS. Null: nobody has.
  std::shared_ptr<IdentitySource> identity = nullptr;
  std::string identity_folder{};
  FaultPlan faults;
  SupervisorOptions supervisor;
};

// Each may be null.
struct HostEvents {
  std::function<void(NoteStart)> on_start;
  std::function<void(NoteExit)> on_exit;
  std::function<void(const ProcessKey&, const Report&)> on_report;
  std::function<void(const FaultAction&)> on_fault;
  std::function<void()> on_stopped;
  // The coordinator has let us in; we lost the session with it, or could not get one, with the
  // reason, which comes again with each try.
  std::function<void()> on_session;
  std::function<void(const absl::Status&)> on_no_session;
  // Whom to trust by now (AuthorityIs): our own certificate should come with that.
  std::function<void(const std::string& hash)> on_trust;
  // The command of the coordinator, where this host starts it.
  std::function<std::vector<std::string>()> coordinator_command;
};

class HostAgent {
 public:
  // `folder` outlives it. kInvalidArgument: the name; others: the folder cannot be written.
  static absl::StatusOr<std::unique_ptr<HostAgent>> Make(EventLoop& loop, Transport& transport,
                                                         const RunFolder& folder,
                                                         HostOptions options, HostEvents events);
  ~HostAgent();
  HostAgent(const HostAgent&) = delete;
  HostAgent& operator=(const HostAgent&) = delete;

  // Before anything is written. kFailedPrecondition: too few descriptors for the slots; kNotFound:
  // a program of ours is missing.
  static absl::Status Check(const HostOptions& options, bool with_coordinator);

  // That of the machine, where it can be one.
  static std::string OwnHostName();
  // The one that is given, or that the certificate proves. kInvalidArgument: they differ, or the
  // certificate is no host's.
  static absl::StatusOr<std::string> NameOf(const HostOptions& options);

  void Start() { link_.Start(); }
  void StartCoordinator();               // and keep it running
  void Stop() { agent_.Do(StopAll{}); }  // politely; a second time: at once
  // Its members leave for good. Then it stops, as if it was said; but one that keeps a coordinator
  // goes last: it stays until it is told to stop.
  void Leave();
  void GoTo(const std::string& coordinator);  // it listens there from now on
  bool MembersRun() const;
  void WriteTargets();  // who serves metrics where
  void CoordinatorServesAt(const std::string& http);
  const std::string& name() const { return options_.name; }
  const std::string& coordinator() const { return options_.coordinator; }
  const std::vector<std::string>& devices() const { return options_.devices; }
  // Whose processes the coordinator wants to run here, by what it said last: they are under way.
  std::vector<std::string> WantedJobs() const;
  std::vector<std::string> MissedFaults() const { return agent_.MissedFaults(); }
  void JobEndsAfter(const std::string& job, int64_t last_step) {
    agent_.JobEndsAfter(job, last_step);
  }

 private:
  using LanesByName = std::vector<std::pair<std::string, LaneCount>>;
  // What this host knows of a job, as long as it is wanted or a process of it runs.
  struct Job {
    bool is_wanted = false;  // if not, its last processes are ending
    StartNumber first_start;
    LanesByName run_before;    // by workers that ended together with an earlier agent of the folder
    bool told_before = false;  // … to the coordinator of this session
    std::map<std::string, Incarnation> counted;  // by worker, the last one whose lanes were told
  };

  HostAgent(EventLoop& loop, Transport& transport, const RunFolder& folder, HostOptions options,
            HostEvents events, AgentHello hello, KnownTerms known,
            std::unique_ptr<MemberIdentities> identities);
  static std::map<std::string, LanesByName> LanesRunBefore(const RunFolder& folder);
  std::vector<std::string> CommandFor(const Spawn& spawn);
  std::vector<std::string> CommandOfMember(const Spawn& spawn);
  std::string MetricsAddress() const;  // without a port
  int MetricsPortFor(const ProcessKey& member);
  std::map<std::string, std::string> EnvironmentOf(const Spawn& spawn) const;
  void OnStart(NoteStart note);
  void OnReport(const ProcessKey& key, const Report& report);
  void OnExit(NoteExit note);
  absl::Status FindAddress(const std::string& coordinator);
  void OnNoSession(const absl::Status& why);
  void OnWanted(const Wanted& wanted);
  void StopWhenEmpty();
  void AskToSign(const ProcessKey& key, PlacementNumber placement);
  void Follow(std::optional<SupervisorEvent> event);
  void DropIdentities();
  void OnAuthority(const AuthorityIs& authority);
  void TellTrust();
  LaneCount LanesOf(const ProcessKey& key);
  void Begin(const JobProcesses& wanted);
  void MakeFolder(const std::string& id, const Job& job) const;
  std::string LogFile(const Spawn& spawn);
  void Look();
  void KeepTerms();
  void TellLanesRunBefore(const std::string& id, const LanesByName& before);

  EventLoop& loop_;
  HostOptions options_;
  bool finds_address_ = false;  // nobody has said it, and no coordinator has answered yet
  const HostEvents events_;
  const RunFolder& folder_;
  std::map<std::string, LanesByName> run_before_;  // of jobs that have not been wanted yet
  std::map<std::string, Job> jobs_;
  std::map<ProcessKey, std::string> metrics_;  // of processes that run
  std::map<ProcessKey, int> metrics_ports_;    // that were given to members, which still run
  bool leaves_ = false;                        // its members are to leave
  std::optional<KnownTerms> unkept_;           // what the folder is to know and does not yet
  bool is_unkept_said_ = false;
  Time keep_again_;
  CoreShares cores_;
  LogFollower logs_;
  std::optional<EventLoop::TimerId> next_look_;
  const std::unique_ptr<MemberIdentities> identities_;  // null: members have none
  std::string trust_;                  // whom to trust by now; empty: nobody has said
  std::optional<Time> trusted_since_;  // by all that is written here; nothing: not by all
  bool is_trust_said_ = false;         // that all here do, in this session
  Agent agent_;
  CoordinatorLink link_;
};

}  // namespace muster::agent
