// The train thread of a simulated worker. As in worker/runtime/trainer.h it takes its commands one
// after the other, each takes time, and its answers come to the exchange thread in that order.
// Lives as long as the worker.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/sim/checkpoint_files.h"
#include "tests/sim/coverage.h"
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
  Buffer totals;  // where compute.totals stand
};
struct DoGiveTotals {
  GiveTotals given;
  LineageNumber lineage;
  Buffer totals;
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
struct DoMeasure {
  MeasureHeld measure;
  Buffer values;
};
using TrainCommand =
    std::variant<DoCompute, DoGiveTotals, DoAbandon, DoApply, DoStepBoundary, DoMake, DoMeasure>;

// ---- train thread → exchange thread

using PhaseSums = std::map<std::pair<ChunkId, TreeNode>, Value>;
struct GradientsReady {
  Ready ready;
  std::shared_ptr<const SubtreeSums> sums;  // the chunks of `ready` are final
  PhaseSums phases;                         // or these: of the phases of `ready`
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
struct StateMeasured {
  MeasureEnded ended;
};
using TrainEvent = std::variant<GradientsReady, StateApplied, LanesAbandoned, StepBoundaryTaken,
                                StateMade, StateMeasured>;

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
    // Is this what the phase comes to?
    std::function<bool(Step step, ChunkId chunk, Value total)> is_total;
    std::function<void(const std::string&)> violate;
    Coverage* coverage = nullptr;
    std::function<void(const Compute&, LaneId)> read;  // the samples of a lane that begins
  };
  TrainThread(Parts parts, Incarnation incarnation);

  void Do(TrainCommand command);
  // Overtakes the queue: lanes of computes, and measures, with a lower id need not be run any more.
  void AbandonBelow(int64_t id) { abandoned_ = id; }
  const LaneCount& lane_count() const { return count_; }
  // What it does now it never gets done, nor what it is given.
  void Hang() { hangs_ = true; }
  // For how many milliseconds it has stood still; nothing if it has no work.
  std::optional<int64_t> StoodStill() const {
    return busy_ ? std::optional(parts_.schedule->now() - went_on_at_) : std::nullopt;
  }

 private:
  // A lane that was begun, or is about to be, and has not ended.
  struct Lane {
    LaneId id;
    bool is_empty = false;
    bool is_begun = false;
    size_t at = 0;  // phases of the order that it has brought
    Value totals = Terms::kNoTotals;
  };
  // The lanes of one step. Where they sync, one may wait for a total, and another go on.
  struct Lanes {
    DoCompute command;  // the last one of the step
    std::vector<Lane> running;
    std::vector<LaneId> all;                            // those that have ended, too
    std::map<size_t, std::map<LaneId, Value>> brought;  // by chunk
    std::map<size_t, Value> totals;
    std::set<size_t> told;                    // phases, under this id
    SubtreeSums tree;                         // of the lanes that have ended
    std::shared_ptr<const SubtreeSums> sums;  // all lanes are in
    int32_t announced = 0;                    // chunks
    bool is_done = false;
  };
  void Next();
  void After(int64_t delay, std::function<void()> run);
  void Run(const DoCompute& command);
  void Run(const DoGiveTotals& command);
  void Run(const DoAbandon& command);
  void Run(const DoApply& command);
  void Run(const DoStepBoundary& command);
  void Run(const DoMake& command);
  void Run(const DoMeasure& command);
  void GoOnMeasuring(const DoMeasure& command, int64_t batches);
  void GoOn();
  Lane* WhoCanGoOn();
  void EndSegment(LaneId id);
  void Bring(Lane& lane);
  void Learn(const std::vector<ChunkId>& chunks, const Buffer& values);
  void TellPhases();
  Value TermsOver(size_t chunk, TreeNode node) const;
  bool HasAllTotals() const;
  void Announce();
  void Count(const DoCompute& command);
  void AddLane(const Lane& lane);

  Parts parts_;
  const Terms& terms_;
  std::deque<TrainCommand> commands_;
  bool busy_ = false, hangs_ = false;
  int64_t went_on_at_ = 0;
  int64_t abandoned_ = 0;
  const std::vector<size_t> order_;  // of phases
  std::optional<Lanes> lanes_;
  LaneCount count_;
};

}  // namespace muster::sim
