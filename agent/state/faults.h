// A fault plan: at a step or second, kill or pause a process and keep it so for some steps or
// seconds. Pure: told how far training is and what runs, it says what to do to whom. A random
// target follows from the seed and the plan alone as long as the same workers run. A FaultDriver
// lives as long as its agent.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "agent/state/supervisor.h"
#include "lib/base/time.h"

namespace muster::agent {

inline constexpr char kRandomWorker[] = "random worker";
inline constexpr Duration kNoStepPatience = std::chrono::seconds(60);

struct Fault {
  enum class Kind { kKill, kPause };
  Kind kind = Kind::kKill;
  std::string target;  // a member's name, "coordinator" or kRandomWorker
  // The job whose process and whose steps are meant; empty: whichever has them.
  std::string job{};
  // Exactly one of the three says when: at the first completed step from `at_step` on; `at_time`
  // after the plan began; or at "POINT:N", the N-th pass of a failpoint (lib/base/failpoint.h), at
  // which the named process kills itself. A process's first fault of that kind is for its first
  // start, its second one for its second start, and so on.
  std::optional<int64_t> at_step{};
  std::optional<Duration> at_time{};
  std::optional<std::string> at_point{};
  // At most one, and none with `at_point`: how long a killed process is kept down (neither: started
  // again as after any failure) or a paused one stands still (exactly one is needed). A fault
  // for steps also ends when no step was completed for kNoStepPatience, or for ten times as long as
  // the last step took: the steps may be waiting for the end of the fault.
  std::optional<int64_t> for_steps{};
  std::optional<Duration> for_time{};
  bool operator==(const Fault&) const = default;
};

struct FaultPlan {
  std::vector<Fault> faults;
  uint64_t seed = 0;  // chooses random workers
  bool operator==(const FaultPlan&) const = default;
};

// What to do, in order. A killed process that is to stay down is kept down before it is killed.
struct FaultAction {
  enum class Do { kKeepDown, kKill, kRelease, kPause, kContinue };
  Do what = Do::kKill;
  ProcessKey key;
  std::string text;  // for people; empty: nothing to tell
  bool operator==(const FaultAction&) const = default;
};

// Each fault happens once; one whose target does not run waits until it does.
class FaultDriver {
 public:
  FaultDriver() = default;
  FaultDriver(FaultPlan plan, Time began);

  // `steps`: of each job that runs here, the highest completed step so far. `running`: ascending.
  std::vector<FaultAction> Step(const std::map<std::string, int64_t>& steps,
                                const std::vector<ProcessKey>& running, Time now);

  // A process is about to be started: the failpoint that this start is armed with, if any.
  std::optional<std::string> Arm(const ProcessKey& starting);
  // A fault that lasts for steps ends with the job's last step at the latest.
  void JobEndsAfter(const std::string& job, int64_t last_step) { last_steps_[job] = last_step; }
  // The process has reached a failpoint ("half_sent").
  void Passed(const ProcessKey& process, absl::string_view point);

  std::optional<Time> NextTick() const;     // of what goes by the clock and lies ahead
  std::vector<std::string> Missed() const;  // what has not happened, for people

 private:
  enum class Phase { kAhead, kArmed, kGoing, kOver };
  struct Progress {
    Phase phase = Phase::kAhead;
    ProcessKey victim{};
    std::string job{};  // whose steps count
    Time since{};       // this and the next two (one is set) are for kGoing
    std::optional<int64_t> until_step{};
    std::optional<Time> until_time{};
  };

  // How fast a job goes; forgotten when the job does not run here any more.
  struct Pace {
    int64_t step = 0;  // the last one that was told,
    Time since{};      // when that was,
    Duration took{};   // and how long after the one before
  };

  void Note(const std::map<std::string, int64_t>& steps, Time now);
  bool IsDue(const Fault& fault, const std::string& job, Time now) const;
  std::optional<std::string> JobInTime(const Fault& fault, Time now) const;
  std::optional<ProcessKey> Victim(size_t index, const std::vector<ProcessKey>& running,
                                   Time now) const;
  void Begin(size_t index, const ProcessKey& victim, Time now, std::vector<FaultAction>& out);
  bool IsOver(const Progress& progress, Time now) const;
  Time WaitsUntil(const Progress& progress) const;  // of what is for steps
  void End(size_t index, Time now, std::vector<FaultAction>& out);

  FaultPlan plan_;
  Time began_{};
  std::vector<Progress> progress_;
  std::map<std::string, int64_t> last_steps_;  // by job
  std::map<std::string, Pace> paces_;          // by job
  Time last_{};                                // of the latest Step
};

}  // namespace muster::agent
