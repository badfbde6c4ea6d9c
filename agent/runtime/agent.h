// The host agent: parent of this host's processes. Joins the supervisor and the fault plan, which
// decide, to the processes and their pipes. All methods and all calls of AgentEvents happen on the
// loop's thread, the main thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/runtime/event_loop.h"
#include "agent/runtime/memory_watch.h"
#include "agent/runtime/process.h"
#include "agent/runtime/report.h"
#include "agent/state/faults.h"
#include "agent/state/supervisor.h"

namespace muster::agent {

struct AgentOptions {
  // The file to which a process prints, asked for when it is about to start; its folder exists.
  std::function<std::string(const Spawn&)> log_file;
  // Program and arguments of a process.
  std::function<std::vector<std::string>(const Spawn&)> command;
  // What of its environment is another than ours; may be null.
  std::function<std::map<std::string, std::string>(const Spawn&)> environment;
  // The cores that a process may run on, asked for when it is about to start; empty: ours. May be
  // null.
  std::function<std::vector<int>(const ProcessKey&)> cores;
  // What a worker that has ended had run; may be null.
  std::function<LaneCount(const ProcessKey&)> lanes;
  SupervisorOptions supervisor;
  FaultPlan faults;
};

struct NoteStart {  // for people
  ProcessKey key;
  PlacementNumber placement{};
  Incarnation incarnation{};  // zero: the process draws it itself
  pid_t pid = 0;
};

// Each may be null. They may call the agent's methods.
struct AgentEvents {
  std::function<void(NoteStart)> on_start;
  std::function<void(const NoteExit&)> on_exit;
  std::function<void(const ProcessKey&, const Report&)> on_report;
  std::function<void(const FaultAction&)> on_fault;
  std::function<void(const ProcessExited&)> tell_coordinator;
  std::function<void(const std::vector<HostDevice>&)> tell_devices;
  // Answered by Signed or SignFailed; set where the supervisor asks for certificates.
  std::function<void(const AskToSign&)> ask_to_sign;
  std::function<void()> on_stopped;  // after StopAll: no process is left
};

class Agent {
 public:
  Agent(EventLoop& loop, AgentOptions options, AgentEvents events);
  ~Agent();  // kills (SIGKILL) what still runs
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // WantCoordinator, WantMembers, Signed, SignFailed, SessionUp, StopAll; the rest comes from the
  // processes themselves.
  void Do(SupervisorEvent event);

  std::vector<ProcessKey> Running() const { return supervisor_.Running(); }
  // It runs, or waits for its certificate.
  bool Holds(const ProcessKey& key) const {
    return supervisor_.Runs(key) || supervisor_.IsSigning(key);
  }
  // What the fault plan has not done, for people.
  std::vector<std::string> MissedFaults() const { return faults_.Missed(); }
  void JobEndsAfter(const std::string& job, int64_t last_step) {
    faults_.JobEndsAfter(job, last_step);
  }
  // Whether the job is wanted here, or a process of it has not ended yet.
  bool Has(const std::string& job) const { return supervisor_.Has(job); }

 private:
  struct Child {
    ChildProcess process;
    LineReader lines;
    bool reports = true;  // the report pipe is watched
    bool killed_by_us = false;
    std::string sample;       // as it reported
    bool is_member = false;   // a program that says with which code it ends
    std::optional<int> code;  // as it said
  };

  void Drain();
  void Act(const Spawn& action);
  void Act(const AskToSign& action);
  void Act(const SendSignal& action);
  void Act(const ReportExit& action);
  void Act(const TellDevices& action);
  void Act(const NoteExit& action);
  static void Act(const NoteWait& action);
  void Send(const ProcessKey& key, int signal);
  void ReadReports(const ProcessKey& key);
  void OnReport(const ProcessKey& key, absl::string_view line);
  void OnEnd(const ProcessKey& key);
  void StopWatching(Child& child);
  void RunFaults();
  void SetTimer();

  EventLoop& loop_;
  const AgentOptions options_;
  const AgentEvents events_;
  Supervisor supervisor_;
  FaultDriver faults_;
  MemoryWatch memory_;
  std::map<ProcessKey, Child> children_;
  std::deque<SupervisorEvent> queue_;
  bool draining_ = false;
  bool stopping_ = false;
  bool told_stopped_ = false;
  std::map<std::string, int64_t> steps_;  // of each job that is here, the highest reported
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace muster::agent
