// The state machine of a member: what a worker or a server does about views, steps and healing
// (docs/protocol.md sections 3 and 4). One machine for both, since both are members that own chunks
// or compute lanes. It decides; lib/member/runtime acts. Deterministic, single-threaded, no clock.
//
// A Member lives as long as its process. It keeps term and view, and passes each input to the part
// that it concerns; what has a shorter life is an object of its own, made and dropped whole.
//
//   waiting ──Seal──▶ sealed ──Heal──▶ healing ──Activate──▶ active
//                       ▲                │                    │
//                       └──────Seal──────┴────────Seal────────┘
//
//   Seal      ends the ActiveView or the Healer. It is answered when no Apply or Make is under way
//             and no record waits for its fingerprint.
//   Heal      begins a Healer. When it holds the base it tells the coordinator.
//   Activate  ends the Healer and begins an ActiveView. A spare takes no part in its steps.
//
// The HeldState (open step, closed step) goes on through all of these until the plan of a view
// replaces it, or the view makes us a spare.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "lib/member/state/actions.h"
#include "lib/member/state/active_view.h"
#include "lib/member/state/checkpoint_parts.h"
#include "lib/member/state/config.h"
#include "lib/member/state/healer.h"
#include "lib/member/state/known_steps.h"
#include "lib/member/state/obeyed.h"
#include "lib/member/state/open_step.h"
#include "lib/member/state/outbox.h"
#include "lib/member/state/seat.h"

namespace muster {

class Member {
 public:
  explicit Member(MemberConfig config);
  Outcome Handle(const Input& input);

  // For status, invariants and tests.
  // Grows with everything that can make a held message timely: such messages are then to be
  // delivered again.
  int64_t edition() const { return edition_; }
  bool active() const { return active_.has_value(); }
  bool has_state() const { return state_.has_value(); }
  bool halted() const { return state_ && seat_ && state_->HaltsIn(seat_->view, known_); }
  // The train thread applies the last step; then it is halted.
  bool applies_last_step() const {
    return train_.has_state && state_ && seat_ && step() + 1 >= known_.EndIn(seat_->view);
  }
  // Nothing is done in the open step before more of the stream is known.
  bool awaits_stream() const {
    return active_ && state_ && !halted() && !known_.Has(state_->step());
  }
  const KnownSteps& known() const { return known_; }
  Step step() const { return state_ ? state_->step() : Step(); }
  LineageNumber lineage() const { return state_ ? state_->lineage : LineageNumber(); }
  ViewNumber sealed() const { return sealed_; }
  const View* view() const { return seat_ ? &seat_->view : nullptr; }  // the last active one
  const MemberConfig& config() const { return *config_; }
  std::vector<LaneId> lanes_issued() const;
  size_t records_waiting() const { return outbox_.records(); }
  std::string Phase() const;  // for people: what it does or waits for
  // Of the members of our view, active or forming, those without a session; view 0: we are in none
  // and hold no sessions for one.
  Unreachable WhoIsUnreachable() const;

 private:
  // What the train thread was given and has not answered. Lives as long as the member.
  struct TrainThread {
    int64_t last_id = 0;                // of the last Compute or Abandon
    bool has_state = false;             // Apply or Make: the state is being written
    std::optional<int64_t> abandoning;  // id of the Abandon
    int64_t lanes_run = 0;              // as the last Abandoned said
  };

  // The last state, of which we were asked what it measures (docs/decisions/0120). Until that is
  // acknowledged, or another one is asked for.
  struct AskedMeasure {
    TermNumber term;
    LineageNumber lineage;
    Step step;
    std::optional<int64_t> running{};  // the id under which the train thread has it
    std::optional<Measured> answer{};
  };

  void On(const CoordinatorUp&, Outcome& out);
  void On(const CoordinatorSays& says, Outcome& out);
  void On(const PeerUp& up, Outcome& out);
  void On(const PeerDown& down, Outcome& out);
  void On(const PeerSays& says, Outcome& out);
  void On(const Ready& ready, Outcome& out);
  void On(const Summed& summed, Outcome& out);
  void On(const ChunksApplied& applied, Outcome& out);
  void On(const Applied& applied, Outcome& out);
  void On(const StepBoundaryDone& done, Outcome& out);
  void On(const Made& made, Outcome& out);
  void On(const Abandoned& abandoned, Outcome& out);
  void On(const MeasureEnded& ended, Outcome& out);
  void On(const SegmentWritten& written, Outcome& out);
  void On(const SegmentFailed& failed, Outcome& out);

  void On(const JobIs& job, Outcome&) {
    if (obeyed_.cluster.empty()) obeyed_.cluster = job.cluster;
  }
  void On(const Seal& seal, Outcome& out);
  void On(const Heal& heal, Outcome& out);
  void On(const ViewStands& stands, Outcome& out);
  void On(const Activate& activate, Outcome& out);
  void On(const GiveCommand& give, Outcome& out);
  void On(const AckRecords& ack, Outcome&) { outbox_.Acknowledge(ack); }
  void On(const AckSegments& ack, Outcome&);
  void On(const GiveMeasure& give, Outcome& out);
  void On(const MeasureState& measure, Outcome& out);
  void On(const AckMeasured& ack, Outcome& out);
  void On(const SpoolFrom&, Outcome& out) { out.Drop("for a reader"); }
  void On(const AckSpooled&, Outcome& out) { out.Drop("for a reader"); }
  void On(const StreamIs& stream, Outcome& out);
  void On(const Leave& leave, Outcome& out);

  template <class M>
  void From(const MemberId& peer, const M& message, Outcome& out);  // about the active view's step
  void From(const MemberId& peer, const Hello&, Outcome& out);
  void From(const MemberId& peer, const Fetch& fetch, Outcome& out);
  void From(const MemberId& peer, const Pieces& pieces, Outcome& out);

  void AnswerDueSeal(Outcome& out);
  void AnswerSeal(Outcome& out);
  void StartHealing(Healer healer, Outcome& out);
  void GoOnHealing(Outcome& out);
  void ForgetState(Outcome& out);
  void TryApply(Outcome& out);
  void Advance(Outcome& out);
  bool FingerprintIsDue() const;
  void PassTotalsOn(Outcome& out);
  void BoundParts(Outcome& out);
  std::optional<int64_t> RoundAt(Step step) const;
  void NoteMeasuredPart(StepBoundary& boundary);
  void EndPart(Outcome& out);
  void MeasureIfThere(Outcome& out);
  void GiveUpMeasuring(Outcome& out);
  ChunkSet HeldResults() const;

  const ConfigPtr config_;
  KnownSteps known_;
  int64_t edition_ = 0;
  Obeyed obeyed_;
  ViewNumber sealed_;  // highest view sealed for, or active in
  bool seal_answer_due_ = false;
  std::set<MemberId> reachable_;  // peers with a session
  TrainThread train_;
  Outbox outbox_;
  CheckpointParts parts_;
  std::optional<MeasuredPart>
      measured_part_;  // copied of the newest state that a follower measures

  std::optional<AskedMeasure> asked_;

  SeatPtr seat_;  // in the last active view
  std::optional<HeldState> state_;
  std::optional<Healer> healer_;  // of the forming view
  std::optional<ActiveView> active_;
};

}  // namespace muster
