// The state machine of a member: what a worker or a server does about views, steps and healing
// (docs/protocol.md sections 3 and 4). One machine for both, since both are members that own chunks
// or compute lanes. It decides; lib/member/runtime acts. Deterministic, single-threaded, no clock.
#pragma once

#include <deque>
#include <map>
#include <set>

#include "lib/member/state/actions.h"
#include "lib/member/state/healing.h"

namespace muster {

// Planted bugs that the simulator must find.
struct MemberBugs {
  bool accept_old_view = false;
  bool add_twice = false;  // sends again what the other end has, and adds it again
  bool answer_without_sealing = false;
  bool apply_early = false;
};

struct MemberConfig {
  std::string job;
  MemberId id;
  Role role = Role::kWorker;
  std::string node;
  std::string address;
  std::vector<TensorKind> chunks;  // kind of every chunk
  int32_t slots = 0;               // of the optimizer
  int64_t fingerprint_every = 0;
  int64_t checkpoint_every = 0;
  TrainingSpec training;
  NumericEnvironment environment;
  MemberBugs bugs;
};

class Member {
 public:
  explicit Member(MemberConfig config);
  Outcome Take(const Input& input);

  // For status, invariants and tests.
  // Grows with everything that can make a held message timely: such messages are then to be
  // delivered again.
  int64_t edition() const { return edition_; }
  bool active() const { return active_; }
  bool has_state() const { return has_state_; }
  bool halted() const;
  Step step() const { return step_; }
  LineageNumber lineage() const { return lineage_; }
  ViewNumber sealed() const { return sealed_; }
  const std::optional<View>& view() const { return view_; }
  const MemberConfig& config() const { return config_; }
  const ChunkSet& results() const { return results_; }
  const std::vector<LaneId>& lanes_issued() const { return issued_; }
  size_t records_waiting() const { return records_.size(); }
  std::string Phase() const;  // for people: what it does or waits for

 private:
  struct PeerState {
    bool up = false;
    bool ready = false;  // its Inventory of this view came
    Step step;           // its open step
    ChunkSet partials;   // chunks it owns for which it needs nothing of us (or was sent it)
    ChunkSet results;    // results it holds (or was sent)
  };

  void On(const CoordinatorUp&);
  void On(const CoordinatorSays&);
  void On(const PeerUp&);
  void On(const PeerDown&);
  void On(const PeerSays&);
  void On(const Ready&);
  void On(const Summed&);
  void On(const ChunksApplied&);
  void On(const Applied&);
  void On(const StepBoundaryDone&);
  void On(const Made&);
  void On(const Abandoned&);
  void On(const SegmentDone&);
  void On(const SegmentLost&);

  void On(const JobIs&);
  void On(const Seal&);
  void On(const Heal&);
  void On(const Activate&);
  void On(const GiveCommand&);
  void On(const AckRecords&);
  void On(const AckSegments&);
  void On(const Leave&);

  void From(const MemberId& peer, const Hello&);
  void From(const MemberId& peer, const Inventory&);
  void From(const MemberId& peer, const Partials&);
  void From(const MemberId& peer, const Results&);
  void From(const MemberId& peer, const Norms&);
  void From(const MemberId& peer, const GlobalNorm&);
  void From(const MemberId& peer, const Fetch&);
  void From(const MemberId& peer, const Pieces&);

  // Is a message of this (lineage, view) for now? If not, the outcome's fate is set.
  bool Current(const MemberId& peer, LineageNumber lineage, ViewNumber view);
  bool TakesPartInView(const MemberId& peer) const;
  void Drop(std::string reason);
  void Refuse(std::string reason);
  void Hold();
  template <class A>
  void Do(A action) {
    out_->actions.emplace_back(std::move(action));
  }

  bool owns(ChunkId c) const;
  bool applies() const {
    return config_.training.sync == Sync::kAllreduce || config_.role == Role::kServer;
  }
  bool clips() const { return config_.training.clip_norm > 0; }
  bool owner_applies() const { return config_.training.sync == Sync::kServer; }
  bool TakesPart(int32_t index) const;
  int32_t chunk_count() const { return static_cast<int32_t>(config_.chunks.size()); }
  std::vector<LaneId> LanesNow() const;
  bool Done(ChunkId c) const;  // summed before this view

  void TellRecords();
  void AnswerSeal();
  LocalState Held() const;
  void StartHealing(const HealPlan& plan);
  void ForgetState();
  void FinishStageOne();
  void AskFor(const MemberId* only);
  void CheckHealed();
  void BecomeActive(const View& view);
  void BeginStep();
  void AssignLanes();
  void AddOwnPartials(const std::vector<ChunkId>& chunks);
  void FoldChunk(int32_t sender, const ChunkPartials& arrival, bool own);
  void SendHave(const MemberId& peer);
  void Flush(const MemberId& peer, PeerState& state);
  void FlushPartials(const MemberId& peer, PeerState& state);
  void SendResults(const MemberId& peer, PeerState& state, Step step);
  void Publish(const std::vector<ChunkId>& chunks);
  void RouteNorms(const std::vector<ChunkId>& chunks);
  void DecideGlobalNorm();
  void ApplySummed();
  void TryApply();
  void Advance();
  void AtStepBoundary();
  void TakeBoundaryCommands(Step boundary, const std::vector<JobCommand>& commands);
  bool IsCut(Step step, const std::vector<JobCommand>& commands) const;
  std::vector<ChunkId> CheckpointPart() const;
  StepRecord RecordOf(Step step) const;
  void Report(Step step);
  double NormOf(const std::vector<ResultMeta>& metas) const;
  void ClearOpenStep();

  MemberConfig config_;
  Outcome* out_ = nullptr;  // of the Take that runs
  int64_t edition_ = 0;

  TermNumber term_;
  std::string cluster_;
  ViewNumber sealed_;  // highest view sealed for, or active in
  bool active_ = false;
  bool seal_answer_due_ = false;
  std::optional<View> view_;  // the last active one
  int32_t me_ = -1;           // our index in view_
  std::map<MemberId, PeerState> peers_;

  bool has_state_ = false;
  LineageNumber lineage_;
  Step step_;
  bool applying_ = false;  // Apply or Make is with the train thread

  int64_t compute_id_ = 0;             // of the last Compute or Abandon
  std::vector<LaneId> issued_;         // lanes of the open step given to the train thread
  int64_t lanes_run_ = 0;              // as the last Abandoned said
  std::optional<int64_t> abandoning_;  // id of an Abandon that is not answered yet
  ChunkSet ready_;                     // chunks whose subtrees over issued_ are final
  std::vector<Partial> my_partials_;
  Sums sums_;
  ChunkSet summed_;  // complete sums of the open step (owner that applies)
  std::vector<ResultMeta> sum_meta_;
  ChunkSet applied_;  // of those, given to ApplyChunks
  ChunkSet results_;  // results of the open step that are here
  std::vector<ResultMeta> meta_;
  std::vector<JobCommand> commands_;  // of the open step, from chunk 0's result
  std::map<ChunkId, double> norms_;   // owner of chunk 0
  std::optional<double> global_norm_;
  std::vector<JobCommand> pending_commands_;
  int64_t newest_command_ = 0;  // that was given in this view

  bool previous_ = false;  // everything below of step_ - 1 is held
  std::vector<ResultMeta> previous_meta_;
  std::vector<JobCommand> previous_commands_;
  std::optional<double> previous_global_norm_;
  std::optional<StepRecord> last_record_;  // of step_ - 1, kept for members that catch up
  std::optional<Step> shared_;             // last step boundary whose share was taken in this view

  std::optional<HealPlan> plan_;
  int32_t plan_me_ = -1;
  bool stage_one_done_ = false;
  bool base_told_ = false;
  Wants wants_;

  std::deque<StepRecord> records_;  // until acknowledged
  std::map<int64_t, SegmentWritten> segments_;
  int64_t next_segment_ = 1;
  std::map<Step, StepRecord> unfinished_records_;  // wait for their fingerprint
};

}  // namespace muster
