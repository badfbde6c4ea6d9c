// A member process of the simulation from the inside: the real state machine over symbolic memory,
// its exchange thread, its train thread and its segment writer, with the order that
// lib/member/runtime gives to what they say. Lives as long as the process.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/own_gaps.h"
#include "lib/member/state/checkpoint_parts.h"
#include "lib/member/state/member.h"
#include "lib/transport/inbound.h"
#include "tests/sim/coverage.h"
#include "tests/sim/job.h"
#include "tests/sim/train_thread.h"

namespace muster::sim {

struct SimFrame {
  PeerMessage message;
  std::vector<Value> payload;  // in header order
  Receipt receipt = nullptr;   // of one that came: kept until it is dealt with
};

class Machine {
 public:
  // The machine asks this of the process around it.
  struct Outside {
    Schedule* schedule;
    Runner* runner;
    Coverage* coverage;
    SimJob* job;
    std::function<void(const MemberId& to, SimFrame)> send;
    std::function<bool(const MemberId& peer)> up;
    std::function<void(ToCoordinator)> tell;
    // Holds sessions to exactly these, and returns those whose sessions end by that.
    std::function<std::vector<MemberId>(const std::vector<ViewMember>&)> connect;
    std::function<void(Step)> step_done;
    std::function<void()> at_phase;  // it has brought one, or has its total
    std::function<void(int code, const std::string& reason)> quit;
    std::function<void(const std::string&)> violate;
  };
  Machine(MemberConfig config, Outside outside);

  void Feed(const Input& input);
  void Deliver(const MemberId& from, SimFrame frame);
  void SessionUp(const MemberId& peer);
  void SessionDown(const MemberId& peer);

  size_t held() const;
  // Chunks of that state of which it has a copy, written or not.
  ChunkSet PartsOf(LineageNumber lineage, Step step) const;
  const Member& member() const { return member_; }
  void HangTrainThread() {
    if (train_) train_->Hang();
  }
  std::vector<ThreadAge> threads(const OwnGaps& gaps) const;
  LaneCount lane_count() const { return train_ ? train_->lane_count() : LaneCount{}; }

 private:
  using Answer = std::optional<Input>;
  Answer Do(const Compute&, const SimFrame*);
  Answer Do(const GiveTotals&, const SimFrame*);
  Answer Do(const Abandon&, const SimFrame*);
  Answer Do(const Apply&, const SimFrame*);
  Answer Do(const StepBoundary&, const SimFrame*);
  Answer Do(const Make&, const SimFrame*);
  Answer Do(const Connect&, const SimFrame*);
  Answer Do(const TellCoordinator&, const SimFrame*);
  Answer Do(const Send&, const SimFrame*);
  Answer Do(const FoldIn&, const SimFrame*);
  Answer Do(const WriteFact&, const SimFrame*);
  Answer Do(const KeepParts&, const SimFrame*);
  Answer Do(const ForgetSums&, const SimFrame*);
  Answer Do(const StoreResults&, const SimFrame*);
  Answer Do(const StorePieces&, const SimFrame*);
  Answer Do(const ApplyChunks&, const SimFrame*);
  Answer Do(const MeasureHeld&, const SimFrame*);
  Answer Do(const GiveUpMeasure&, const SimFrame*);
  Answer Do(const PrepareCopy&, const SimFrame*);
  Answer Do(const DropState&, const SimFrame*);
  Answer Do(const Completed& a, const SimFrame*);
  Answer Do(const Quit&, const SimFrame*);

  void Handle(GradientsReady event);
  void Handle(StateApplied event);
  void Handle(LanesAbandoned event);
  void Handle(StepBoundaryTaken event);
  void Handle(StateMade event);
  void Handle(StateMeasured event);

  void Carry(const std::vector<Action>& actions, const SimFrame* frame);
  void HoldBack(const MemberId& from, SimFrame frame);
  void NoteChanges();
  void CheckInvariants();
  void NoteWhoIsNamed(const FromCoordinator& message);
  void CheckIsInView(const char* what, const MemberId& peer, const PeerMessage& message);
  void NoteCommand(const FromCoordinator& message);
  absl::StatusOr<SimState> Load(const Make& make);
  void CheckLoaded(const Make& make, const SimState& state);
  void Learn(const StreamIs& told);
  void CheckIsKnown(const char* what, Step step, uint64_t samples);
  void ReadSamples(Step step, LaneId lane, uint64_t samples);
  void Write(PartCopy part);
  void Push(SegmentWritten written, std::map<std::pair<int32_t, int32_t>, Value> content);
  Value OwnSum(TreeNode node, ChunkId chunk);
  void CheckGradientsLeave(const Partials& partials);
  std::vector<Value> PayloadOf(const PeerMessage& message);
  std::vector<ChunkId> OwnChunks() const;
  Value RightResult(Step step, ChunkId chunk);  // as an undisturbed run has it
  bool server_mode() const { return config_.training.sync == Sync::kServer; }
  bool applies() const { return !server_mode() || config_.role == Role::kServer; }

  const MemberConfig config_;
  const Outside outside_;
  const Terms& terms_;
  Member member_;
  SimMemory memory_;
  std::optional<TrainThread> train_;  // of a worker
  OrderedQueue from_train_, from_writer_;
  int64_t writer_free_at_ = 0;
  int64_t segments_ = 0;
  int parts_under_way_ = 0;                                    // copied, and not on disk
  std::map<std::pair<LineageNumber, Step>, ChunkSet> copied_;  // of states that are measured
  LineageNumber kept_lineage_;

  int64_t compute_id_ = 0;                          // of the last Compute or Abandon
  std::shared_ptr<const SubtreeSums> own_sums_;     // as the train thread told last …
  ChunkSet own_final_;                              // … of which these chunks are final
  PhaseSums own_phases_;                            // of the lanes of the last Compute
  std::vector<std::map<TreeNode, Value>> waiting_;  // owner: by chunk
  std::vector<Value> sums_;                         // owner that applies: complete ones
  std::vector<ResultMeta> sum_meta_;

  std::vector<SpoolSegment> stream_facts_;  // as it was told
  StreamKnown known_;

  Named named_;  // by the last plan, or the last view, that the coordinator told us
  std::optional<StopGiven> stop_given_;  // the last one that we got as the owner of chunk 0
  std::map<MemberId, std::deque<SimFrame>> held_;  // frames that came too early
  int64_t edition_ = 0;
  bool redelivering_ = false;
  bool left_ = false;
};

}  // namespace muster::sim
