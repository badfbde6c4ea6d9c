// The train thread of a worker: makes the task, runs lanes, folds them into the canonical tree,
// applies updates, takes fingerprints and copies of checkpoint parts, and measures the last state.
// That of a follower reads checkpoints and measures them. Carries out the exchange thread's
// commands in order and decides nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/failpoint.h"
#include "lib/domain/job.h"
#include "lib/lane_counter/lane_counter.h"
#include "lib/member/runtime/events.h"
#include "lib/member/runtime/member_metrics.h"
#include "lib/optim/update.h"
#include "muster/task.h"
#include "worker/runtime/first_state.h"
#include "worker/runtime/gradient_tree.h"
#include "worker/runtime/lane_measures.h"
#include "worker/runtime/lane_runner.h"
#include "worker/runtime/leaving_lane.h"
#include "worker/runtime/phased_lanes.h"

namespace muster::worker {

// `part`: of the job's data; more than one may be made. `spool`: as TaskOptions has it.
using MakeTrained = std::function<absl::StatusOr<std::unique_ptr<Task>>(
    const TrainingSpec&, DataPart part, std::shared_ptr<const SpoolMap> spool)>;

struct TrainerParts {
  TrainPort* port = nullptr;
  std::shared_ptr<EventBox> events;
  CopyCounter* copied = nullptr;
  Metrics* metrics = nullptr;
  Failpoints* failpoints = nullptr;
  LaneCounter* lanes = nullptr;  // null: lanes are not counted
  bool follows = false;          // a follower's: it measures, and trains nothing
  MakeTrained make_task;
  // Told of each job before its task is made. May be empty.
  std::function<void(const JobSpec& job)> comes{};
  // Properties of the library that the task computes with, one "name value" per line; may be empty.
  std::function<std::string()> library_properties;
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Until the port's box is closed. The calling thread is the train thread from then on.
  void Run();

 private:
  void Do(const DoPrepare& command);
  void Do(const DoCompute& command);
  void Do(const DoGiveTotals& command);
  void Do(const DoAbandon& command);
  void Do(const DoApply& command);
  void Do(const DoStepBoundary& command);
  void Do(const DoMake& command);
  void Do(const DoGenerate& command);
  void Do(const DoMeasure& command);

  absl::StatusOr<SetupPtr> Prepare(const DoPrepare& command);
  absl::Status PrepareMeasures(const TrainingSpec& training, std::vector<TensorSpec>& tensors);
  absl::Status PreparePhases(const JobSpec& spec, std::vector<TensorSpec>& tensors);
  void PrepareToTrain();
  absl::Span<float> ModelIn(const FlatBuffer& flat) const;  // without the sums
  absl::StatusOr<std::map<std::string, std::string>> NumericProperties(const Setup& setup);
  absl::StatusOr<std::string> ProbeLane(const Setup& setup);
  absl::StatusOr<std::string> ProbeMeasures(const Setup& setup);
  absl::Status RunInner(const DoCompute& command, LaneId lane);
  absl::Status RunLast(const DoCompute& command, LaneId lane);
  void Reach(const absl::Status& status);
  absl::StatusOr<StateMemory> MakeState(const Make& make);
  StateMemory Unlent(const StateMemory& state);
  absl::StatusOr<std::vector<LaneId>> LanesNotFinite(const DoApply& command);
  double RateOf(const DoApply& command) const;
  void Skip(const DoApply& command);
  absl::StatusOr<StateMemory> LoadMeasured(const Manifest& manifest);
  void GoOn();  // between the parts of long work
  void ForgetLanes();
  void Fail(const absl::Status& why);

  const TrainerParts parts_;
  TrainMetrics metrics_;
  std::unique_ptr<Task> task_;
  TrainingSpec validated_;                  // what measures_ refers to
  std::unique_ptr<LaneMeasures> measures_;  // null: of a job without validation
  std::optional<FirstState> first_state_;   // with task_
  SetupPtr setup_;
  std::vector<std::vector<ChunkId>> buckets_;
  std::unique_ptr<LaneRunner> runner_;
  std::unique_ptr<GradientTree> tree_;
  std::unique_ptr<Updater> updater_;
  GradientWay way_;
  std::vector<size_t> phase_order_;      // of the probe lane
  std::unique_ptr<PhasedLanes> phased_;  // null: lanes do not meet
  Step tree_step_;                       // whose lanes stand in tree_
  bool waits_ = false;                   // lanes are done, results are not here
  bool failed_ = false;
};

}  // namespace muster::worker
