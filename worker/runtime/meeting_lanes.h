// The lanes of one step that meet in phases (docs/decisions/0110): each runs on a thread of its own
// until it has brought its terms of a phase, and goes on when the phase's total is here. Owns their
// threads, and what they have brought to the end of the step: other subtrees may be asked for then.
// The owner's thread only, but for what lanes do in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/base/ids.h"
#include "lib/domain/lanes.h"
#include "muster/task.h"
#include "worker/runtime/lane_threads.h"

namespace muster::worker {

using Exchange = decltype(LaneInput::exchange);

struct PhaseList {
  std::vector<TensorSpec> all;  // as Syncs::Phases()
  // Those that a lane meets, in that order. All lanes bring +0.0 to the others at once.
  std::vector<size_t> order;
};

class MeetingLanes {
 public:
  // A lane, from its begin to its end.
  using Work = std::function<absl::StatusOr<LaneOutput>(const Exchange& exchange)>;

  // `begin` is called once on each thread that runs lanes.
  MeetingLanes(PhaseList phases, std::function<void()> begin)
      : phases_(std::move(phases)), threads_(std::move(begin)) {}
  ~MeetingLanes() { GiveUp(); }

  const PhaseList& phases() const { return phases_; }

  // From now on lanes are of this step; those of another are given up.
  void Begin(Step step);
  // It begins at its first Run.
  void Add(LaneId lane, Work work);
  // One without samples: it has ended, and brings +0.0 to every phase.
  void AddEmpty(LaneId lane);
  // `total` stays as it is until lanes are given up. One that is here already is not taken.
  void Give(size_t phase, absl::Span<const float> total);

  // The lane that can go on, and of several the one at the earliest phase; nothing: all wait or
  // have ended.
  std::optional<LaneId> Next() const;
  // Until it has brought its terms of another phase, or has ended. Errors of the lane;
  // kFailedPrecondition: its phases are not those of the order. What it throws is thrown here.
  absl::Status Run(LaneId lane);

  std::vector<LaneId> lanes() const;
  bool IsEmpty() const { return lanes_.empty(); }
  bool HasEnded(LaneId lane) const { return lanes_.at(lane).ended; }
  bool HaveAllBrought(size_t phase) const;
  bool HasAllTotals() const;  // of the order
  // Of lanes that all have brought it, in the canonical tree. `sum`: as many floats as the phase
  // has.
  void SumOf(size_t phase, TreeNode node, absl::Span<float> sum) const;

  // No lane is under way afterwards, and all that they have brought is forgotten.
  void GiveUp();

 private:
  struct Lane {
    size_t thread = 0;
    size_t met = 0;  // how many of the order
    bool begun = false;
    bool ended = false;
    std::map<size_t, std::vector<float>> terms;  // by phase
    absl::StatusOr<LaneOutput> output = LaneOutput{};
    absl::Status refused;  // its phases are not those of the order
  };

  absl::StatusOr<absl::Span<const float>> Meet(LaneId id, Lane& lane, size_t phase,
                                               absl::Span<const float> terms);
  absl::Status CheckMet(const Lane& lane, size_t phase, absl::Span<const float> terms) const;
  absl::Status CheckEnd(const Lane& lane) const;
  std::string Named(LaneId lane) const;
  void BringNothingTo(Lane& lane, size_t phase) const;

  const PhaseList phases_;
  LaneThreads threads_;
  Step step_;
  std::map<LaneId, Lane> lanes_;
  std::map<size_t, absl::Span<const float>> totals_;
  bool given_up_ = false;  // those that are under way
};

}  // namespace muster::worker
