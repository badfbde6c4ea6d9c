// What a worker computes of a step whose lanes meet in phases (docs/decisions/0110): carries the
// exchange thread's commands about them to the lanes, tells it sums of phases, and at last the
// gradients. Owns gradients of lanes until they are in the tree. Lives as long as the job; train
// thread only, but for what lanes do on their threads, one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "lib/domain/layout.h"
#include "lib/member/runtime/events.h"
#include "worker/runtime/lane_runner.h"
#include "worker/runtime/leaving_lane.h"
#include "worker/runtime/meeting_lanes.h"

namespace muster::worker {

// A lane's terms are the total: of one that runs alone. They stay until no copy of the exchange is
// left. Appends each phase to `met`; a phase that is met twice is refused.
Exchange AloneIn(const std::vector<TensorSpec>& phases, std::vector<size_t>& met);

class PhasedLanes {
 public:
  // `way`, `runner` and `port` outlive it. `order`: of the layout's phases, as MeetingLanes takes
  // it.
  PhasedLanes(const GradientWay& way, LaneRunner& runner, const TrainPort& port, int32_t lanes,
              std::vector<size_t> order);
  ~PhasedLanes() { Forget(); }  // lanes that wait write into what is held of them
  PhasedLanes(const PhasedLanes&) = delete;
  PhasedLanes& operator=(const PhasedLanes&) = delete;

  // Runs lanes until all of them wait or have ended, or the compute is given up. Errors as of
  // LaneRunner::Run, and kFailedPrecondition.
  absl::Status Compute(const DoCompute& command);
  absl::Status Give(const DoGiveTotals& command);
  // No lane runs afterwards, and those of the step are forgotten.
  void Forget();

  // Of a lane that is examined beside all totals of its step: `names_it` becomes true where its own
  // terms are not finite at the first phase whose total is not. Nothing: all totals are finite.
  std::optional<size_t> FirstNotFinite(const FlatBuffer& results) const;
  Exchange Examining(const FlatBuffer& results, std::optional<size_t> first, bool& names_it) const;

 private:
  // A lane whose gradient is in no tree.
  struct Held {
    FlatPtr gradient;
    std::optional<LaneOutput> outcome;
    std::vector<size_t> final_tensors;
    std::unique_ptr<LeavingLane> leaving;  // of the last one
  };

  absl::Status GoOn();
  bool MayLeave() const;
  void FoldEnded();
  void LetLeave(LaneId lane, Held& held);
  GradientSink SinkOf(Held& held);
  absl::Status StartLane(const DoCompute& command, LaneId lane);
  void Take(absl::Span<const ChunkId> chunks, const FlatPtr& totals);
  void TellPhases();
  void Tell(size_t phase);
  absl::Span<float> In(const FlatBuffer& flat, size_t phase) const;

  const GradientWay& way_;
  const Layout& layout_;
  LaneRunner& runner_;
  const TrainPort& port_;
  const int32_t lanes_of_job_;
  MeetingLanes meeting_;
  Step step_;
  int64_t compute_ = 0;        // its id
  std::vector<bool> is_told_;  // by phase, under that id
  std::map<ChunkId, size_t> phase_of_;
  std::vector<int32_t> missing_;  // by phase: chunks of its total that are not here
  std::vector<bool> has_chunk_;   // by chunk: of a total
  std::vector<FlatPtr> totals_;   // where those stand that lanes were given
  std::map<LaneId, Held> held_;
};

}  // namespace muster::worker
