// The train thread of a simulated worker. As in worker/runtime/trainer.h it takes its commands one
// after the other, each takes time, and its answers come to the exchange thread in that order.
// Lives as long as the worker.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "tests/sim/checkpoint_files.h"
#include "tests/sim/schedule.h"

namespace muster::sim {

struct SubtreeSum {
  std::vector<Value> sums;  // by chunk
  int64_t weight = 0;
  double loss = 0;
};
using SubtreeSums = std::map<TreeNode, SubtreeSum>;

// ---- exchange thread → train thread

struct DoCompute {
  Compute compute;
  LineageNumber lineage;
  Buffer values;  // of state(step)
};
struct DoAbandon {
  int64_t id = 0;
};
struct DoApply {
  Apply apply;
  Buffer results;  // null where servers apply: nothing is to be done
  SimState state;
};
struct DoStepBoundary {
  StepBoundary boundary;
  LineageNumber lineage;
  SimState state;
};
struct DoMake {
  Make make;
};
using TrainCommand = std::variant<DoCompute, DoAbandon, DoApply, DoStepBoundary, DoMake>;

// ---- train thread → exchange thread

struct GradientsReady {
  Ready ready;
  std::shared_ptr<const SubtreeSums> sums;  // the chunks of `ready` are final
};
struct StateApplied {
  Step step;
  SimState state;
  std::vector<LaneId> not_finite;
};
struct LanesAbandoned {
  Abandoned abandoned;
};
struct StepBoundaryTaken {
  StepBoundaryDone done;
  std::optional<PartCopy> part;
};
struct StateMade {
  absl::Status status;
  Step step;
  SimState state;
};
using TrainEvent =
    std::variant<GradientsReady, StateApplied, LanesAbandoned, StepBoundaryTaken, StateMade>;

class TrainThread {
 public:
  struct Parts {
    Schedule* schedule;
    Runner* runner;
    const Terms* terms;
    std::function<absl::StatusOr<SimState>(const Make&)> load;
    std::function<void(TrainEvent)> post;
    std::function<void()> busy_beyond_lease;
    int64_t fingerprint_ms = 0;  // at least
  };
  TrainThread(Parts parts, Incarnation incarnation);

  void Do(TrainCommand command);
  // Overtakes the queue: lanes of computes with a lower id need not be run any more.
  void AbandonBelow(int64_t id) { abandoned_ = id; }
  const LaneCount& lane_count() const { return count_; }
  // What it does now it never gets done, nor what it is given.
  void Hang() { hangs_ = true; }
  // For how many milliseconds it has stood still; nothing if it has no work.
  std::optional<int64_t> StoodStill() const {
    return busy_ ? std::optional(parts_.schedule->now() - went_on_at_) : std::nullopt;
  }

 private:
  struct Lanes {  // a compute under way
    DoCompute command;
    std::vector<LaneId> order;
    size_t next = 0;
    std::shared_ptr<const SubtreeSums> sums;  // all lanes are in
    int32_t announced = 0;                    // chunks
  };
  void Next();
  void After(int64_t delay, std::function<void()> run);
  void Run(const DoCompute& command);
  void Run(const DoAbandon& command);
  void Run(const DoApply& command);
  void Run(const DoStepBoundary& command);
  void Run(const DoMake& command);
  void RunLane(const std::shared_ptr<Lanes>& lanes);
  void EndLane(const std::shared_ptr<Lanes>& lanes);
  void Announce(const std::shared_ptr<Lanes>& lanes);
  void Count(const DoCompute& command);
  void AddLane(const DoCompute& command, LaneId lane);

  Parts parts_;
  const Terms& terms_;
  std::deque<TrainCommand> commands_;
  bool busy_ = false, hangs_ = false;
  int64_t went_on_at_ = 0;
  int64_t abandoned_ = 0;
  SubtreeSums tree_;  // of the lanes run in tree_step_
  std::optional<Step> tree_step_;
  LaneCount count_;
};

}  // namespace muster::sim
