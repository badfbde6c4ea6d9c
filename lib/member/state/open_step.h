// What belongs to the open step of a state. An OpenStep lives from the moment that the member is at
// state(step) until it is at the next state (Close) or forgets it; a change of view does not end
// it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/known_steps.h"
#include "lib/member/state/seat.h"
#include "lib/owner/state/sums.h"

namespace muster {

// What must be known of all chunks of a step before an owner applies one of them.
struct StepNorm {
  double norm = 0;     // of the whole gradient; 0 where the job does not measure it
  bool finite = true;  // gradient and loss are
  bool operator==(const StepNorm&) const = default;
};

// The step before the open one. Lives as long as that open step: until then others may need it.
struct ClosedStep {
  Step step;
  std::vector<ResultMeta> meta;             // by chunk
  std::vector<JobCommand> commands;         // they take effect at the boundary after this step
  std::optional<StepNorm> global_norm;      // where it was needed to apply
  std::optional<StepRecord> record;         // for members that catch up
  bool skipped = false;                     // not finite: the state is that of the step before
  bool ends_job = false;                    // because it was not finite
  std::optional<MeasuredState> measured{};  // as state(step + 1) tells
  bool measures = false;                    // the step brought what stands there

  bool Stops() const;        // nothing is computed after it
  bool FindsEnough() const;  // what it measured is the last that the job waits for
};

class OpenStep {
 public:
  OpenStep(ConfigPtr config, Step step);

  Step step() const { return step_; }
  const std::vector<LaneId>& lanes() const { return lanes_.issued; }  // given to the train thread
  const ChunkSet& results() const { return results_; }
  bool HasResult(ChunkId c) const { return results_[Index(c)]; }
  const ResultMeta& MetaOf(ChunkId c) const { return meta_[Index(c)]; }
  const ResultMeta& SumMetaOf(ChunkId c) const { return sum_meta_[Index(c)]; }
  std::vector<ChunkId> CompleteSums() const;  // of an owner that applies
  const std::vector<JobCommand>& commands() const { return commands_; }
  std::optional<StepNorm> global_norm() const { return global_norm_; }
  bool computed() const;  // every chunk's subtrees over our lanes are final
  bool applying() const;  // an owner that applies has begun the next state
  int64_t result_count() const;
  bool HasAll(const std::vector<ChunkId>& chunks) const;

  // ---- our lanes

  // Sums that are not complete belong to one view: those of the view before are forgotten.
  void BeginIn(const Seat& seat);
  // The lanes that this view gives us and that were not issued; nothing when there are none, or
  // when every chunk is done.
  std::optional<Compute> IssueLanes(const Seat& seat, int64_t id);
  // Totals of phases that have come since lanes were issued, once; nothing: there are none.
  std::optional<GiveTotals> TakeTotals();
  // False: of lanes that were given up or added to.
  bool Finish(const Ready& ready);
  std::vector<ChunkId> ReadyChunks() const;
  // The first phase that all our lanes have brought and whose total is not here.
  std::optional<ChunkId> AwaitedPhase() const;
  // For people, whom its total waits for: its owner, or who has not brought their part to us.
  int32_t MissingOf(const Seat& seat, ChunkId c) const;
  // What goes to the owner of a ready chunk; empty when we contribute nothing to it.
  std::vector<Partial> PartialsOf(ChunkId c) const;

  // ---- sums of the chunks that we own

  bool HasPartialsFrom(int32_t sender, ChunkId c) const { return incomplete_.HasFrom(sender, c); }
  // kAlreadyExists: a repetition. kInvalidArgument: not what the sender holds.
  absl::Status CheckPartials(int32_t sender, const ChunkPartials& arrival) const {
    return incomplete_.Check(sender, arrival);
  }
  // Of what CheckPartials refuses nothing is taken.
  absl::StatusOr<FoldIn> Fold(int32_t sender, const ChunkPartials& arrival, bool own);
  void AddSum(ChunkId c, const ResultMeta& meta);
  // Sums that may be applied now and were not.
  ApplyChunks BeginApplying();

  // ---- the global norm, where owners apply

  void AddNorms(const std::vector<ChunkResult>& norms);
  bool DecideGlobalNorm();  // true when it was not known, and every chunk's norm is in now
  void SetGlobalNorm(StepNorm norm) { global_norm_ = norm; }

  // ---- results

  // `commands`: those that ride in the result of chunk 0; ignored for another chunk.
  void AddResult(const ChunkResult& result, std::vector<JobCommand> commands);
  // Of a worker, when every result is here.
  std::optional<Apply> ApplyWhenComplete() const;
  // What the sums in state(step + 1) tell, once it is there.
  void SetMeasured(std::optional<MeasuredState> measured) {
    if (measured) measured_ = std::move(measured);
  }
  // A member that catches up hears from its donor who did this step.
  void SetRecord(StepRecord record) { record_ = std::move(record); }

  ClosedStep Close() &&;

 private:
  double NormOfResults() const;
  bool Skips() const;
  static size_t Index(ChunkId c) { return static_cast<size_t>(c.value()); }

  // What the train thread has been given; a new one for each Compute.
  struct Lanes {
    int64_t id = 0;              // of the Compute; 0: none
    std::vector<LaneId> issued;  // ascending
    ChunkSet ready;              // chunks whose subtrees are final
    std::vector<Partial> partials;
    std::vector<ChunkId> totals;  // that have come and were not given
  };

  ConfigPtr config_;
  Step step_;
  Lanes lanes_;
  Sums incomplete_;
  ChunkSet sums_;
  std::vector<ResultMeta> sum_meta_;
  ChunkSet applied_;                     // of those, given to ApplyChunks
  std::map<ChunkId, ResultMeta> norms_;  // owner of chunk 0
  std::optional<StepNorm> global_norm_;
  ChunkSet results_;
  std::vector<ResultMeta> meta_;
  std::vector<JobCommand> commands_;
  std::optional<StepRecord> record_;
  std::optional<MeasuredState> measured_;
};

// The state that a member holds. Lives until it is forgotten; Advance makes new steps of it.
struct HeldState {
  LineageNumber lineage;
  OpenStep open;                     // the state is state(open.step())
  std::optional<ClosedStep> closed;  // nothing: all that is known of the step before is the state

  Step step() const { return open.step(); }
  // The state is at the next step: the open one closes, and the one before it is given up.
  void Advance(const ConfigPtr& config);
  // Nothing more is computed in this view: it is the end, or a command stopped us.
  bool HaltsIn(const View& view, const KnownSteps& known) const {
    return step() >= known.EndIn(view) || (closed && closed->Stops());
  }
};

// Weight, loss, measures and what was left out of a step, as its results tell. Those of a buffer
// are of lane 0 alone, so who has no result of a parameter knows neither; and where there are sums
// only those know all who have them.
void TakeWeight(const MemberConfig& config, const View& view, const ClosedStep& done,
                StepRecord& record);
// The record of a step that was done in this view, and so was known.
StepRecord RecordOf(const MemberConfig& config, const KnownSteps& known, const View& view,
                    LineageNumber lineage, const ClosedStep& done);

}  // namespace muster
