// The processes of one start of a job on this host: which run, which start again and when, which
// are given up. The coordinator, which serves all jobs, is such a group by itself. An object lives
// as long as this start of the job is wanted here, and until the last of its processes has ended;
// the next start, and a job that is wanted again later, begin with a new one, without back-off and
// with no failures counted. Pure.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/state/actions.h"

namespace muster::agent {

class ProcessesOfJob {
 public:
  using Actions = SupervisorActions;

  // `job` empty: the coordinator. `ended_before`: exits of the job's earlier starts that say what
  // workers had run, which a coordinator may have missed.
  ProcessesOfJob(std::string job, StartNumber start, const SupervisorOptions& options,
                 std::deque<ProcessExited> ended_before = {})
      : job_(std::move(job)),
        start_(start),
        options_(options),
        ended_before_(std::move(ended_before)) {}

  // The complete list: what is missing will be started, what is not listed is let go.
  void Want(const std::vector<ProcessWanted>& processes, Time now, Actions& out);
  void OnExit(const std::string& name, const Exit& exit, Time now, Actions& out);
  void OnSigned(const std::string& name, PlacementNumber placement, Time now, Actions& out);
  void OnSignFailed(const std::string& name, PlacementNumber placement, const std::string& why,
                    Time now, Actions& out);
  // A member of this job completed a step. True: no process of it had reported that step, or a
  // later one, here. One that is done again after a rewind is no progress.
  bool OnProgress(const std::string& name, Step step, Time now);
  void OnProgressOfMembers();  // of the coordinator: a job went on to a step that is new here
  void OnSessionUp(Actions& out);
  void KeepDown(const std::string& name);
  void Release(const std::string& name, Time now);
  void Stop(Time now, Actions& out);  // all, for good; a second time: at once
  void OnTick(Time now, Actions& out);
  // Starts those due for which `may_start` is true; it is asked for nobody else.
  using MayStart = std::function<bool(const std::string& name)>;
  void StartWhatIsDue(Time now, const MayStart& may_start, Actions& out);

  std::optional<Time> NextTick(const MayStart& may_start) const;
  // Those of the place of a process that waits to be started; empty: there is none of that name.
  const std::vector<std::string>& DevicesOf(const std::string& name) const;
  // By id, those that processes have which run.
  void AddHeld(std::map<std::string, PlacementNumber>& held) const;
  StartNumber start() const { return start_; }
  // What OnSessionUp tells of those that had run lanes.
  std::deque<ProcessExited> EndsToTell() const;
  size_t LettingGo() const;  // how many run and are wanted no more
  // How many run, or have run and wait to be started again: nobody else takes their places.
  size_t Places() const;
  bool HasPlace(const std::string& name) const;
  bool Runs(const std::string& name) const;
  bool IsSigning(const std::string& name) const;  // it was asked for, and not answered yet
  std::vector<ProcessKey> Running() const;
  // Nothing is wanted and nothing runs: this can go.
  bool over() const { return processes_.empty(); }

 private:
  enum class Phase { kWaiting, kSigning, kRunning, kLeaving, kStopping, kFinished, kGivenUp };
  struct Process {
    Role role = Role::kWorker;
    PlacementNumber placement{};  // of the process that runs, or that is to run next
    // Its name has another place by now: it is let go, and then a process of that place starts.
    std::optional<PlacementNumber> next_placement{};
    std::vector<std::string> devices{};       // of `placement`
    std::vector<std::string> next_devices{};  // of `next_placement`
    bool wanted = true;
    bool kept_down = false;
    bool has_run = false;
    Phase phase = Phase::kWaiting;
    Time since{};        // kRunning: of the start; kSigning: of the question
    Time due{};          // kWaiting: of the start; kLeaving: of SIGTERM; kStopping: of SIGKILL
    Duration backoff{};  // before the last start; zero: nothing failed since progress
    std::deque<Time> failures{};             // without progress in between
    std::optional<Time> host_fails_since{};  // likewise, and no failure of its own in between
    std::optional<Step> ended_at{};          // `reached_` when it ended last
    bool has_worked = false;                 // at any time: it completed a step, or is_up
    bool is_up = false;  // the coordinator, since its last start: it has spoken with us
    std::optional<Exit> last_exit{};
    // The last ones that say what a worker had run.
    std::deque<std::pair<PlacementNumber, Exit>> counted_exits{};
    void StartAfresh();  // no failures are counted any more
    // Nothing of before counts, but its counts.
    void BeginAt(PlacementNumber place, std::vector<std::string> devices_there, Time now);
  };

  ProcessKey KeyOf(const std::string& name) const { return {job_, name}; }
  bool is_coordinator() const { return job_.empty(); }
  void LetLeave(const std::string& name, Process& process, Time now, Actions& out);
  void StopOne(const std::string& name, Process& process, Time now, Actions& out);
  static bool HasPlace(const Process& process);
  static bool Ends(const Process& process);  // by itself or by us
  static bool Runs(const Process& process);
  Process* Signing(const std::string& name, PlacementNumber placement);  // null: it is not
  void Start(const std::string& name, Process& process, Time now, Actions& out) const;
  AfterExit Judge(Process& process, const Exit& exit, Time now) const;
  static bool IsOfTheHost(const Process& process, const Exit& exit);
  bool CountHostFailure(Process& process, Time now) const;
  bool CountFailure(Process& process, Time now) const;
  static Phase PhaseAfter(AfterExit after);
  Duration NextBackoff(const Process& process) const;
  ProcessExited ReportOf(const std::string& name, const Process& process, PlacementNumber placement,
                         const Exit& exit) const;

  const std::string job_;
  const StartNumber start_;
  const SupervisorOptions options_;
  const std::deque<ProcessExited> ended_before_;
  std::map<std::string, Process> processes_;  // by name
  std::optional<Step> reached_{};             // the highest step that any of them has reported
  bool stopping_ = false;
};

}  // namespace muster::agent
