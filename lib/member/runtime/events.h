// What the threads of a member say to each other. The exchange thread owns the state machine, the
// sessions and the receive buffer; the train thread owns the task and the partial sums it folds.
// Memory changes hands inside these messages: the header of each says who may do what with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/mailbox.h"
#include "lib/checkpoint/segment.h"
#include "lib/domain/message.h"
#include "lib/member/runtime/flat_pool.h"
#include "lib/member/runtime/setup.h"
#include "lib/member/runtime/state_memory.h"
#include "lib/member/runtime/thread_progress.h"
#include "lib/member/state/actions.h"
#include "lib/member/state/follower.h"
#include "lib/spool/spool_map.h"
#include "lib/transport/transport.h"

namespace muster {

// This member's part of a checkpoint of state(step), on its way to disk.
struct CheckpointPartCopy {
  LineageNumber lineage;
  Step step;
  std::shared_ptr<float[]> values;
  std::vector<PartView> parts;  // of `values`
  double stall_seconds = 0;     // what the copy took: training stood still for it
};

// ---- exchange thread → train thread, carried out in order

struct DoPrepare {  // make the task and find out the numeric environment; answer Prepared
  JobIs job;
  // Where the samples of the job's stream are found; null: it has none, or they are not wanted.
  std::shared_ptr<const SpoolMap> spool{};
};
struct DoCompute {
  Compute compute;
  LineageNumber lineage;
  FlatPtr values;  // of state(step); unchanged until all results of the step are here
  FlatPtr totals;  // where compute.totals stand, unchanged while it is held; null: there are none
};
// To lanes of the step that wait: these totals stand in `totals`, in their chunks, which stay as
// they are while it is held; others of its chunks are being written.
struct DoGiveTotals {
  GiveTotals given;
  FlatPtr totals;
};
struct DoAbandon {  // answer LanesAbandoned
  int64_t id = 0;
};
struct DoApply {
  Apply apply;
  FlatPtr results;  // reduced gradients; unchanged. Null where servers apply: nothing is to be done
  StateMemory state;  // the train thread's until it answers StateApplied …
  bool lent = false;  // … but frames may still read it: write elsewhere
  FlatPtr values;     // of state(step), to examine lanes of a step that is skipped; unchanged
};
struct DoStepBoundary {
  StepBoundary boundary;
  LineageNumber lineage;
  StateMemory state;  // to read
};
struct DoMake {
  Make make;
};
struct DoGenerate {  // for people: a text sample of the final state; answer Generated
  FlatPtr values;
  std::string prompt;
  size_t bytes = 0;
};
struct DoMeasure {  // answer StateMeasured
  StartMeasure measure;
  FlatPtr values{};  // of a state that is in memory; null: the checkpoint is read
};
using TrainCommand = std::variant<DoPrepare, DoCompute, DoGiveTotals, DoAbandon, DoApply,
                                  DoStepBoundary, DoMake, DoGenerate, DoMeasure>;
struct TrainPort {
  Mailbox<TrainCommand> box;
  // Lanes of computes, and measures, with a lower id need not be run any more: told ahead of the
  // queue.
  std::atomic<int64_t> abandoned{0};
  ThreadProgress progress{"train"};  // said by the train thread
};

// ---- to the exchange thread

using LinkId = uint64_t;
struct SessionAccepted {
  LinkId id = 0;
  std::shared_ptr<Session> session;
};
struct FrameCame {
  LinkId id = 0;
  Frame frame;
};
struct SessionBroke {
  LinkId id = 0;
  absl::Status why;
};
struct AddressesFound {  // of the coordinator's host, for a name that was looked up
  LinkId id = 0;
  absl::StatusOr<std::vector<std::string>> found;
};
// Before Prepared: how far what the task prepares is; nothing: it is over, or there is none.
struct StillPrepares {
  std::optional<HowFar> how_far;
};
struct Prepared {
  absl::StatusOr<SetupPtr> setup;
};
// Of a chunk of a phase, the sum of the lanes' terms over a subtree: as many floats as the chunk
// has, never written again.
using PhaseSums = std::map<std::pair<ChunkId, TreeNode>, std::shared_ptr<const float[]>>;
struct GradientsReady {
  Ready ready;
  // Where the subtrees stand, in full: the chunks of `ready` are final and stay unchanged while a
  // holder lives; other chunks are still being written. A buffer chunk's value stands in the
  // subtree that holds lane 0.
  std::map<TreeNode, FlatPtr> sums;
  // Of the phases of `ready`, each of its chunks and of all subtrees; `sums` is empty then.
  PhaseSums phases{};
};
struct StateApplied {
  Step step;
  StateMemory state;               // of step + 1, handed back
  std::vector<LaneId> not_finite;  // of the lanes that were to be examined
};
struct LanesAbandoned {
  Abandoned abandoned;
};
struct StepBoundaryTaken {
  StepBoundaryDone done;
  std::optional<CheckpointPartCopy> part;
};
struct StateMade {
  absl::Status status;
  Step step;
  StateMemory state;  // when OK
};
struct Generated {
  absl::StatusOr<std::string> text;
};
struct StateMeasured {
  MeasureEnded ended;
  double seconds = 0;  // reading and measuring
};
struct StreamSpooled {  // of a reader: the thread that reads has synced it
  Spooled spooled;
};
struct ReadingLacks {  // of a reader, as a StreamReaderLoop says
  std::string why;
};
struct ReadingEnded {  // of a reader, as StreamReaderLoop::Run says
  absl::Status why;
};
// The process ends. kInvalidArgument, kDataLoss: the data; kFailedPrecondition: the job; else
// ourselves.
struct TrainFailed {
  absl::Status why;
};
struct StopAsked {  // a signal: leave cleanly
  int exit_code = 0;
  std::string reason;
};
using Event =
    std::variant<SessionAccepted, FrameCame, SessionBroke, AddressesFound, StillPrepares, Prepared,
                 GradientsReady, StateApplied, LanesAbandoned, StepBoundaryTaken, StateMade,
                 Generated, StateMeasured, StreamSpooled, ReadingLacks, ReadingEnded, TrainFailed,
                 SegmentWritten, SegmentFailed, StopAsked>;
// What our own threads, signals and the coordinator say is posted; what comes from peers is posted
// behind it. So however much data waits here, a Seal, a stop or an update that is done does not
// wait for it. Frames of one session stay in order.
using EventBox = Mailbox<Event>;

}  // namespace muster
