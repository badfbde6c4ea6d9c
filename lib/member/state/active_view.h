// The part that a member takes in an active view: what it exchanges with its peers about the open
// step. Lives from Activate to the next Seal; what it learns that outlives the view goes into the
// held state.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "lib/member/state/actions.h"
#include "lib/member/state/config.h"
#include "lib/member/state/known_steps.h"
#include "lib/member/state/open_step.h"
#include "lib/member/state/peer_progress.h"
#include "lib/member/state/seat.h"

namespace muster {

class ActiveView {
 public:
  ActiveView(ConfigPtr config, SeatPtr seat, const KnownSteps& known)
      : config_(std::move(config)), seat_(std::move(seat)), known_(known) {}

  // The member takes part from now on; these peers can be reached. `last_id`: of the last command
  // with an id that the train thread got.
  void Begin(const std::set<MemberId>& reachable, HeldState& state, int64_t& last_id, Outcome& out);
  // The state is at the next step.
  void Advance(HeldState& state, int64_t& last_id, Outcome& out);
  void Learn(const StreamIs& told) { known_.Learn(told); }
  // The open step was not known, and more is known now: it may go on, or be none, since the state
  // is the last.
  void GoOn(HeldState& state, int64_t& last_id, Outcome& out);
  // The chunks of state(step) that we copy for a checkpoint, once; empty: there is none to be made.
  std::vector<ChunkId> ChunksToSave(const HeldState& state);

  // A session began or ended: what we knew of the peer is void.
  void SessionBegins(const MemberId& peer, const HeldState& state, Outcome& out);
  void SessionEnds(const MemberId& peer) { peers_.erase(peer); }

  // Messages of this view.
  void Handle(const MemberId& from, const Inventory& inventory, HeldState& state, Outcome& out);
  void Handle(const MemberId& from, const Partials& partials, HeldState& state, Outcome& out);
  void Handle(const MemberId& from, const Results& results, HeldState& state, Outcome& out);
  void Handle(const MemberId& from, const Norms& norms, HeldState& state, Outcome& out);
  void Handle(const MemberId& from, const GlobalNorm& global_norm, HeldState& state, Outcome& out);
  void Handle(const GiveCommand& give, Outcome& out);
  void Handle(const GiveMeasure& give, const HeldState& state, Outcome& out);

  // More chunks of our lanes are final.
  void PassOn(const std::vector<ChunkId>& ready, HeldState& state, Outcome& out);
  void Handle(const Summed& summed, HeldState& state, Outcome& out);
  void Handle(const ChunksApplied& applied, HeldState& state, Outcome& out);

 private:
  // Is a message of this sender and lineage right in the view, and of the open step? If not, the
  // outcome says what becomes of it.
  bool IsFromMember(const MemberId& from, LineageNumber lineage, Outcome& out) const;
  static bool IsTimely(Step step, const HeldState& state, Outcome& out);
  // Are these the sums that the plan has the sender bring, each once and for the first time?
  bool AreNew(int32_t sender, const Partials& partials, const HeldState& state, Outcome& out) const;
  bool IsServer(const MemberId& peer) const;

  void BeginStep(HeldState& state, int64_t& last_id, Outcome& out);
  void IssueLanes(HeldState& state, int64_t& last_id, Outcome& out);
  void SaveChunks(const HeldState& state, Outcome& out);
  void Greet(const MemberId& peer, const HeldState& state, Outcome& out) const;
  void SendMissing(const MemberId& peer, HeldState& state, Outcome& out);
  void SendPartials(const MemberId& to, const HeldState& state, Outcome& out);
  void SendResults(const MemberId& to, const HeldState& state, Step step, Outcome& out);
  void SendCommands(const MemberId& to, const HeldState& state, Outcome& out) const;
  void SendGlobalNorm(const MemberId& to, Step step, const StepNorm& norm, Outcome& out) const;
  void LearnCommands(const Partials& partials, HeldState& state, Outcome& out);
  void FoldOwn(const std::vector<ChunkId>& chunks, HeldState& state, Outcome& out) const;
  static void Fold(int32_t sender, const ChunkPartials& arrival, bool own, HeldState& state,
                   Outcome& out);
  void Publish(const std::vector<ChunkResult>& made, HeldState& state, Outcome& out);
  void RouteNorms(const std::vector<ChunkId>& chunks, HeldState& state, Outcome& out);
  void DecideGlobalNorm(HeldState& state, Outcome& out);
  void ApplySums(HeldState& state, Outcome& out) const;
  bool IsCheckpointDue(Step step, bool asked) const;
  void WriteIfThere(Outcome& out);

  ConfigPtr config_;
  SeatPtr seat_;
  KnownSteps known_;                        // as the member was told last
  std::map<MemberId, PeerProgress> peers_;  // whose inventory of this view came
  std::vector<JobCommand> commands_;        // given, and not yet in a result of chunk 0
  int64_t newest_command_ = 0;
  std::optional<Step> saved_;  // last state of which we copied chunks
  // Of the owner of what lanes measure, where a follower measures in their stead.
  std::map<Step, MeasureSums> facts_;  // given, by the step that brings it
  std::optional<Summed> withheld_;     // the sum is complete, and waits for that of its step
  std::optional<Step> written_;        // it was written over the sum of this step
};

}  // namespace muster
