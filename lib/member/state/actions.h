// What goes into and what comes out of a member's state machine (member.h). Plain values: an input
// lives while it is handled, an outcome until it is carried out.
#pragma once

#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/domain/message.h"
#include "lib/domain/validation.h"
#include "lib/owner/state/sums.h"

namespace muster {

// ---- inputs

struct CoordinatorUp {};
struct CoordinatorSays {
  FromCoordinator message;
};
struct PeerUp {
  MemberId peer;
};
struct PeerDown {
  MemberId peer;
};
struct PeerSays {
  MemberId from;
  PeerMessage message;  // checksums are right already
};
// The last lane of Compute `id` has brought these chunks' subtrees to their final values. Phases
// are told apart from gradients, and all of them before the first gradient.
struct Ready {
  int64_t id = 0;
  std::vector<ChunkId> chunks;
  std::vector<Partial> partials;  // subtrees of all lanes held in the step, with weights and
                                  // losses, which are those of gradients; no checksums
};
struct Summed {  // answer to a FoldIn with a total: reduced, divided, measured
  Step step;
  ChunkId chunk;
  ResultMeta meta;
};
struct ChunksApplied {  // answer to ApplyChunks
  Step step;
  std::vector<ChunkResult> chunks;
  std::optional<MeasuredState>
      measured{};  // as state(step + 1) tells, where the sums are among them
};
struct Applied {  // answer to Apply: the member is at state(step + 1)
  Step step;
  std::vector<LaneId> not_finite;           // of the lanes that were to be examined
  std::optional<MeasuredState> measured{};  // as that state tells, where the job has validation
};
struct StepBoundaryDone {  // answer to StepBoundary
  Step step;
  std::optional<FingerprintPart> fingerprint;
};
struct Made {  // answer to Make; not OK: the checkpoint could not be loaded
  absl::Status status;
};
struct Abandoned {  // answer to Abandon: no lane that was issued before runs any more
  int64_t id = 0;
  int64_t lanes_run = 0;  // by this process in all
};
struct MeasureEnded {  // answer to MeasureHeld and StartMeasure; of one that was given up it may
                       // come or not
  int64_t id = 0;
  // kDataLoss: the checkpoint is damaged; others: this process could not read it, or was to give it
  // up.
  absl::StatusOr<MeasureSums> sums;
};
using Input = std::variant<CoordinatorUp, CoordinatorSays, PeerUp, PeerDown, PeerSays, Ready,
                           Summed, ChunksApplied, Applied, StepBoundaryDone, Made, Abandoned,
                           MeasureEnded, SegmentWritten, SegmentFailed>;

// ---- actions, carried out in order

struct Connect {  // hold sessions to exactly these
  std::vector<ViewMember> peers;
};
struct TellCoordinator {
  ToCoordinator message;
};
struct Send {  // the payload follows from the message
  MemberId to;
  PeerMessage message;
};
struct Compute {  // train thread: run these lanes of `step` and fold them with the step's earlier
                  // ones
  int64_t id = 0;
  Step step;
  std::vector<LaneId> lanes;
  std::vector<TreeNode> subtrees;  // of all lanes held in the step, these included
  std::vector<ChunkId> totals{};   // phases of the step whose result is here already
  // The number of samples as far as it is known (SamplesOf); whether the step after this one is
  // known, so that its lanes may be read ahead. Without a stream all are.
  uint64_t samples = 0;
  bool next_is_known = true;
};
struct GiveTotals {  // train thread: the results of these phases of the open step are here
  Step step;
  std::vector<ChunkId> chunks;
};
struct Abandon {  // train thread: forget the open step's lanes, also the running one
  int64_t id = 0;
};
struct FoldIn {  // partials of `chunk` just came (or are our own): add as told, then answer Summed
                 // if there is a total
  Step step;
  ChunkId chunk;
  bool own = false;  // ours: the subtrees stand in gradient memory
  std::vector<TreeNode> arrived;
  std::vector<Fold> folds;
  std::optional<Partial> total;
};
// The sum of what lanes measure of `step` is complete: what a follower measured takes the place of
// the zeros in it. Answered by Summed, with the new checksum.
struct WriteFact {
  Step step;
  ChunkId chunk;
  MeasureSums sums;
};
struct ForgetSums {};  // incomplete sums of the open step are thrown away
struct StoreResults {  // results of the message just received go to the receive buffer of `step`
  Step step;
  std::vector<ChunkId> chunks;
};
struct StorePieces {  // likewise values or slots go to the state
  PieceKind kind = PieceKind::kValues;
  int32_t slot = 0;
  Step step;
  std::vector<ChunkId> chunks;
};
struct ApplyChunks {  // owners that apply: state(step) → state(step + 1) of these chunks
  Step step;
  std::vector<ChunkId> chunks;
  std::optional<double> norm;
  bool skip = false;  // the step is not finite: state(step + 1) is state(step)
};
struct Apply {  // train thread: all results of `step` are here
  Step step;
  std::optional<double> norm;
  bool skip = false;  // likewise
  // Then: these lanes of ours are computed once more, each by itself, to find those that are not
  // finite.
  std::vector<LaneId> examine;
  uint64_t samples = 0;  // as of Compute
};
struct StepBoundary {  // train thread (servers: exchange thread), before anything changes
                       // state(step)
  Step step;
  bool fingerprint = false;
  std::vector<ChunkId> part;  // chunks to copy and write as a segment; empty: none
};
struct KeepParts {  // parts of other lineages that could not be written are not tried again
  LineageNumber lineage;
};
struct Make {  // train thread: state(step) from the specification, or from a checkpoint
  LineageNumber lineage;
  Step step;
  std::optional<Manifest> manifest;
  std::vector<ChunkId> chunks;  // all that this member needs
  bool slots = false;           // with their optimizer slots
};
struct MeasureHeld {  // train thread: measure state(step), the last one, which we hold
  int64_t id = 0;
  Step step;
};
struct GiveUpMeasure {  // what measures of lower ids find is of no use
  int64_t below = 0;
};
struct PrepareCopy {  // state(step) will come in pieces; slots start as zero
  LineageNumber lineage;
  Step step;
};
struct DropState {};
struct Completed {  // a step is done here: for progress, metrics and the agent
  StepRecord record;
};
struct Quit {
  int exit_code = 0;
  std::string reason;
};
using Action =
    std::variant<Connect, TellCoordinator, Send, Compute, GiveTotals, Abandon, FoldIn, WriteFact,
                 ForgetSums, KeepParts, StoreResults, StorePieces, ApplyChunks, Apply, StepBoundary,
                 Make, MeasureHeld, GiveUpMeasure, PrepareCopy, DropState, Completed, Quit>;

// What became of a peer's message.
enum class Fate {
  kTaken,
  kHold,     // too early: deliver it again after the next change of view or step; drop it when its
             // session breaks
  kDropped,  // of an old view, or a repetition: normal
  kRefused,  // wrong: break the session
};
struct Outcome {
  std::vector<Action> actions;
  Fate fate = Fate::kTaken;
  std::string reason;  // of kDropped and kRefused

  void Do(Action action) { actions.push_back(std::move(action)); }
  void Do(std::vector<Action> more) {
    actions.insert(actions.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  }
  void Hold() { fate = Fate::kHold; }
  void Drop(std::string why) {
    fate = Fate::kDropped;
    reason = std::move(why);
  }
  void Refuse(std::string why) {
    fate = Fate::kRefused;
    reason = std::move(why);
  }
};

}  // namespace muster
