#include "lib/member/state/active_view.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/domain/validation.h"

namespace muster {

// ---- the view and its steps

void ActiveView::Begin(const std::set<MemberId>& reachable, HeldState& state, int64_t& last_id,
                       Outcome& out) {
  // First what is to be copied of this state: the last sum of the step may be complete as soon as
  // the step begins, and then the state changes.
  if (IsCheckpointDue(state.step(), false)) SaveChunks(state, out);
  BeginStep(state, last_id, out);
  for (const MemberId& peer : reachable) Greet(peer, state, out);
  if (config_->owner_applies() && config_->applies()) ApplySums(state, out);
}

void ActiveView::BeginStep(HeldState& state, int64_t& last_id, Outcome& out) {
  state.open.BeginIn(*seat_);
  IssueLanes(state, last_id, out);
}

void ActiveView::IssueLanes(HeldState& state, int64_t& last_id, Outcome& out) {
  if (config_->role != Role::kWorker || state.HaltsIn(seat_->view, known_)) return;
  if (!known_.Has(state.step())) return;
  if (auto compute = state.open.IssueLanes(*seat_, last_id + 1)) {
    last_id = compute->id;
    compute->samples = known_.samples();
    compute->next_is_known = known_.Has(state.step() + 1);
    out.Do(*std::move(compute));
  } else {
    FoldOwn(state.open.ReadyChunks(), state, out);
  }
}

// Who learns only at the last state that it is the last has not saved it yet.
void ActiveView::GoOn(HeldState& state, int64_t& last_id, Outcome& out) {
  if (state.step() >= known_.EndIn(seat_->view)) {
    if (IsCheckpointDue(state.step(), false)) SaveChunks(state, out);
    return;
  }
  IssueLanes(state, last_id, out);
  if (config_->owner_applies() && config_->applies()) ApplySums(state, out);
}

void ActiveView::Advance(HeldState& state, int64_t& last_id, Outcome& out) {
  for (auto& [id, peer] : peers_)
    peer = PeerProgress(std::max(peer.step(), state.step()), config_->chunks.size());
  for (const auto& [id, peer] : peers_) SendCommands(id, state, out);
  BeginStep(state, last_id, out);
}

bool ActiveView::IsCheckpointDue(Step step, bool asked) const {
  if (step == Step(0) || step == config_->unsaved_end) return false;
  if (step >= known_.EndIn(seat_->view) || asked) return true;
  for (const int64_t every : {config_->checkpoint_every, config_->checkpoint_epochs})
    if (every > 0 && step.value() % every == 0) return true;
  return (config_->saves_measured || config_->training.validation.by_follower()) &&
         IsMeasuredIn(config_->training, config_->environment.samples, step);
}

std::vector<ChunkId> ActiveView::ChunksToSave(const HeldState& state) {
  // After a change of view an owner may already be applying the next state. It copied its chunks
  // before that.
  if (state.open.applying() || saved_ == state.step()) return {};
  const bool asked = state.closed && (!state.closed->commands.empty() || state.closed->Stops());
  if (!IsCheckpointDue(state.step(), asked)) return {};
  saved_ = state.step();
  std::vector<ChunkId> chunks = seat_->OwnChunks();
  // Their optimizer slots have moved on to the next state.
  if (config_->owner_applies())
    std::erase_if(chunks, [&](ChunkId c) { return state.open.HasResult(c); });
  return chunks;
}

void ActiveView::SaveChunks(const HeldState& state, Outcome& out) {
  if (std::vector<ChunkId> chunks = ChunksToSave(state); !chunks.empty())
    out.Do(StepBoundary{state.step(), false, std::move(chunks)});
}

// ---- commands of the coordinator

void ActiveView::Handle(const GiveCommand& give, Outcome& out) {
  if (!seat_->Owns(ChunkId(0))) return out.Drop("too late");
  if (give.command.id <= newest_command_) return;  // given again, because our session was new
  newest_command_ = give.command.id;
  // If the result of chunk 0 is already out, the command goes with the next step's.
  commands_.push_back(give.command);
}

// ---- what a follower measured

void ActiveView::Handle(const GiveMeasure& give, const HeldState& state, Outcome& out) {
  const bool ours = give.lineage == seat_->view.lineage && config_->has_sums() &&
                    seat_->Owns(config_->sums_chunk());
  if (!ours || BringerOf(config_->training.validation, give.step) < state.step())
    return out.Drop("too late");
  if (give.sums.floats.size() != FloatsOf(MetricsIn(config_->environment.tensors)))
    return out.Drop("of other metrics");
  facts_.erase(facts_.begin(), facts_.lower_bound(state.step()));
  constexpr size_t kMost = 64;  // more are not outstanding, whatever the coordinator says
  if (facts_.size() >= kMost) return out.Drop("too many");
  facts_[BringerOf(config_->training.validation, give.step)] = give.sums;
  WriteIfThere(out);
}

void ActiveView::WriteIfThere(Outcome& out) {
  const auto fact = withheld_ ? facts_.find(withheld_->step) : facts_.end();
  if (fact == facts_.end()) return;
  written_ = withheld_->step;
  out.Do(WriteFact{withheld_->step, withheld_->chunk, fact->second});
  withheld_.reset();
}

void ActiveView::SendCommands(const MemberId& to, const HeldState& state, Outcome& out) const {
  const bool passes_on = config_->owner_applies() && config_->role == Role::kWorker;
  if (!passes_on || !state.closed || state.closed->commands.empty()) return;
  out.Do(Send{
      to,
      Partials{seat_->view.lineage, seat_->view.number, state.step(), {}, state.closed->commands}});
}

void ActiveView::LearnCommands(const Partials& partials, HeldState& state, Outcome& out) {
  // A worker knows all of them: the command of a state that is enough comes beside those that a
  // server, as the owner of chunk 0, has given.
  if (!state.closed || partials.commands.size() <= state.closed->commands.size()) return;
  state.closed->commands = partials.commands;
  if (config_->role == Role::kServer) SaveChunks(state, out);
}

// ---- sessions

void ActiveView::SessionBegins(const MemberId& peer, const HeldState& state, Outcome& out) {
  peers_.erase(peer);
  Greet(peer, state, out);
}

void ActiveView::Greet(const MemberId& peer, const HeldState& state, Outcome& out) const {
  const int32_t index = seat_->view.IndexOf(peer);
  if (index == seat_->me || !seat_->HasPart(index)) return;
  Inventory inventory{seat_->view.lineage, seat_->view.number, state.step(),
                      ChunkSet(config_->chunks.size(), false), state.open.results()};
  for (ChunkId c : seat_->OwnChunks())
    inventory.partials[static_cast<size_t>(c.value())] =
        seat_->IsDone(state.step(), c) || state.open.HasPartialsFrom(index, c);
  out.Do(Send{peer, std::move(inventory)});
}

bool ActiveView::IsFromMember(const MemberId& from, LineageNumber lineage, Outcome& out) const {
  if (lineage == seat_->view.lineage && seat_->view.IndexOf(from) >= 0) return true;
  out.Refuse("a lineage or a sender that the view does not have");
  return false;
}

bool ActiveView::IsTimely(Step step, const HeldState& state, Outcome& out) {
  if (step > state.step()) out.Hold();
  if (step < state.step()) out.Drop("an older step");
  return step == state.step();
}

bool ActiveView::IsServer(const MemberId& peer) const {
  return seat_->MemberAt(seat_->view.IndexOf(peer)).role == Role::kServer;
}

void ActiveView::Handle(const MemberId& from, const Inventory& inventory, HeldState& state,
                        Outcome& out) {
  if (!IsFromMember(from, inventory.lineage, out)) return;
  const size_t chunks = config_->chunks.size();
  if (inventory.partials.size() != chunks || inventory.results.size() != chunks)
    return out.Refuse("another number of chunks");
  // Nobody waits for one that has a part in the first step alone: it is about to leave.
  const bool is_needed =
      !seat_->OwnChunks().empty() || !LanesOf(seat_->view.lanes.holder_of, seat_->me).empty();
  if (inventory.step > state.step() + 1)
    return is_needed ? out.Refuse("a step that cannot be open in this view")
                     : out.Drop("it is ahead of one that leaves");
  peers_.insert_or_assign(from, PeerProgress::FromInventory(inventory, state.step()));
  SendMissing(from, state, out);
}

// All that the peer lacks, as far as it is here.
void ActiveView::SendMissing(const MemberId& to, HeldState& state, Outcome& out) {
  if (PeerProgress& peer = peers_.at(to); peer.step() < state.step()) {
    if (state.closed) SendResults(to, state, state.step() - 1, out);
    if (config_->owner_applies() && seat_->Owns(ChunkId(0)) && state.closed &&
        state.closed->global_norm)
      SendGlobalNorm(to, state.step() - 1, *state.closed->global_norm, out);
    peer = PeerProgress(state.step(), config_->chunks.size());
  }
  SendResults(to, state, state.step(), out);
  SendCommands(to, state, out);
  SendPartials(to, state, out);
  const bool gives_norms = config_->owner_applies() && config_->needs_global_norm();
  if (!gives_norms || config_->role != Role::kServer) return;
  RouteNorms(state.open.CompleteSums(), state, out);
  if (seat_->Owns(ChunkId(0)) && state.open.global_norm())
    SendGlobalNorm(to, state.step(), *state.open.global_norm(), out);
}

// ---- partials and sums

void ActiveView::PassOn(const std::vector<ChunkId>& ready, HeldState& state, Outcome& out) {
  FoldOwn(ready, state, out);
  for (const auto& [id, peer] : peers_) SendPartials(id, state, out);
}

void ActiveView::SendPartials(const MemberId& to, const HeldState& state, Outcome& out) {
  const int32_t index = seat_->view.IndexOf(to);
  std::vector<ChunkId> offered;
  for (ChunkId c : state.open.ReadyChunks())
    if (seat_->OwnerOf(c) == index && !seat_->IsDone(state.step(), c)) offered.push_back(c);
  Partials partials{seat_->view.lineage, seat_->view.number, state.step(), {}, {}};
  for (ChunkId c : peers_.at(to).PartialsToSend(offered))
    if (std::vector<Partial> ours = state.open.PartialsOf(c); !ours.empty())
      partials.chunks.push_back({c, std::move(ours)});
  if (!partials.chunks.empty()) out.Do(Send{to, std::move(partials)});
}

void ActiveView::FoldOwn(const std::vector<ChunkId>& chunks, HeldState& state, Outcome& out) const {
  for (ChunkId c : chunks) {
    if (!seat_->Owns(c) || seat_->IsDone(state.step(), c)) continue;
    std::vector<Partial> ours = state.open.PartialsOf(c);
    if (!ours.empty() && !state.open.HasPartialsFrom(seat_->me, c))
      Fold(seat_->me, {c, std::move(ours)}, true, state, out);
  }
}

void ActiveView::Fold(int32_t sender, const ChunkPartials& arrival, bool own, HeldState& state,
                      Outcome& out) {
  absl::StatusOr<FoldIn> fold = state.open.Fold(sender, arrival, own);
  if (fold.ok()) return out.Do(*std::move(fold));
  out.Refuse(std::string(fold.status().message()));
}

// Looked at before anything of it is taken: its frame is kept whole until the last of its sums has
// met its sibling, and nothing is kept with them that the plan does not bound.
bool ActiveView::AreNew(int32_t sender, const Partials& partials, const HeldState& state,
                        Outcome& out) const {
  std::set<ChunkId> fresh;
  for (const ChunkPartials& arrival : partials.chunks) {
    const ChunkId c = arrival.chunk;
    if (!config_->has_chunk(c) || !seat_->Owns(c)) {
      out.Refuse("a chunk that is not ours");
      return false;
    }
    if (seat_->IsDone(state.step(), c) || state.open.HasResult(c)) continue;
    const absl::Status fits = state.open.CheckPartials(sender, arrival);
    if (absl::IsInvalidArgument(fits)) {
      out.Refuse(std::string(fits.message()));
      return false;
    }
    if (fits.ok()) fresh.insert(c);
  }
  if (fresh.empty()) {
    out.Drop("a repetition");
  } else if (fresh.size() < partials.chunks.size()) {
    out.Refuse("sums that came before, beside new ones");
  }
  return out.fate == Fate::kTaken;
}

void ActiveView::Handle(const MemberId& from, const Partials& partials, HeldState& state,
                        Outcome& out) {
  if (!IsFromMember(from, partials.lineage, out) || !IsTimely(partials.step, state, out)) return;
  if (partials.chunks.empty()) return LearnCommands(partials, state, out);
  const int32_t sender = seat_->view.IndexOf(from);
  if (!AreNew(sender, partials, state, out)) return;
  for (const ChunkPartials& arrival : partials.chunks) Fold(sender, arrival, false, state, out);
}

void ActiveView::Handle(const Summed& summed, HeldState& state, Outcome& out) {
  if (config_->BringsFact(summed.step, summed.chunk) && written_ != summed.step) {
    withheld_ = summed;
    return WriteIfThere(out);
  }
  if (!config_->owner_applies()) return Publish({{summed.chunk, summed.meta}}, state, out);
  state.open.AddSum(summed.chunk, summed.meta);
  if (!config_->needs_global_norm() || state.open.global_norm()) return ApplySums(state, out);
  // The norm cannot be known before our last sum is complete: then one message tells of all.
  // Applies the sums if these norms were the last ones missing.
  const std::vector<ChunkId> sums = state.open.CompleteSums();
  if (sums.size() == seat_->OwnChunks().size()) RouteNorms(sums, state, out);
}

// ---- the global norm, where owners apply

void ActiveView::RouteNorms(const std::vector<ChunkId>& chunks, HeldState& state, Outcome& out) {
  if (chunks.empty()) return;
  Norms norms{seat_->view.lineage, seat_->view.number, state.step(), {}};
  for (ChunkId c : chunks) norms.chunks.push_back({c, state.open.SumMetaOf(c)});
  if (seat_->Owns(ChunkId(0))) {
    state.open.AddNorms(norms.chunks);
    return DecideGlobalNorm(state, out);
  }
  const MemberId& owner = seat_->MemberAt(seat_->OwnerOf(ChunkId(0))).id;
  if (peers_.count(owner) > 0) out.Do(Send{owner, std::move(norms)});
}

void ActiveView::Handle(const MemberId& from, const Norms& norms, HeldState& state, Outcome& out) {
  if (!IsFromMember(from, norms.lineage, out) || !IsTimely(norms.step, state, out)) return;
  if (!config_->owner_applies() || !seat_->Owns(ChunkId(0)))
    return out.Refuse("norms go to the owner of chunk 0");
  for (const ChunkResult& n : norms.chunks)
    if (!config_->has_chunk(n.chunk)) return out.Refuse("no such chunk");
  state.open.AddNorms(norms.chunks);
  DecideGlobalNorm(state, out);
}

void ActiveView::DecideGlobalNorm(HeldState& state, Outcome& out) {
  if (!state.open.DecideGlobalNorm()) return;
  for (const auto& [id, peer] : peers_)
    if (IsServer(id)) SendGlobalNorm(id, state.step(), *state.open.global_norm(), out);
  ApplySums(state, out);
}

void ActiveView::SendGlobalNorm(const MemberId& to, Step step, const StepNorm& norm,
                                Outcome& out) const {
  out.Do(
      Send{to, GlobalNorm{seat_->view.lineage, seat_->view.number, step, norm.norm, norm.finite}});
}

void ActiveView::Handle(const MemberId& from, const GlobalNorm& global_norm, HeldState& state,
                        Outcome& out) {
  if (!IsFromMember(from, global_norm.lineage, out)) return;
  if (!IsTimely(global_norm.step, state, out)) return;
  if (state.open.global_norm()) return out.Drop("known");
  if (config_->role != Role::kServer) return;
  state.open.SetGlobalNorm({global_norm.norm, global_norm.finite});
  ApplySums(state, out);
}

void ActiveView::ApplySums(HeldState& state, Outcome& out) const {
  if (!known_.Has(state.step())) return;
  if (ApplyChunks apply = state.open.BeginApplying(); !apply.chunks.empty())
    out.Do(std::move(apply));
}

// ---- results

void ActiveView::Handle(const ChunksApplied& applied, HeldState& state, Outcome& out) {
  Publish(applied.chunks, state, out);
}

// These results were made here.
void ActiveView::Publish(const std::vector<ChunkResult>& made, HeldState& state, Outcome& out) {
  for (const ChunkResult& result : made)
    state.open.AddResult(result, result.chunk == ChunkId(0) ? std::exchange(commands_, {})
                                                            : std::vector<JobCommand>());
  for (const auto& [id, peer] : peers_)
    if (peer.step() == state.step()) SendResults(id, state, state.step(), out);
}

// Of the open step, or of the closed one.
void ActiveView::SendResults(const MemberId& to, const HeldState& state, Step step, Outcome& out) {
  if (IsServer(to)) return;
  const bool open = step == state.step();
  std::vector<ChunkId> offered = seat_->OwnChunks();
  if (open) std::erase_if(offered, [&](ChunkId c) { return !state.open.HasResult(c); });
  Results results{seat_->view.lineage, seat_->view.number, step, {}, {}};
  for (ChunkId c : peers_.at(to).ResultsToSend(offered)) {
    const auto i = static_cast<size_t>(c.value());
    results.chunks.push_back({c, open ? state.open.MetaOf(c) : state.closed->meta[i]});
    if (c == ChunkId(0)) results.commands = open ? state.open.commands() : state.closed->commands;
  }
  if (!results.chunks.empty()) out.Do(Send{to, std::move(results)});
}

void ActiveView::Handle(const MemberId& from, const Results& results, HeldState& state,
                        Outcome& out) {
  if (!IsFromMember(from, results.lineage, out) || !IsTimely(results.step, state, out)) return;
  if (config_->role != Role::kWorker) return out.Refuse("results go to workers");
  const int32_t sender = seat_->view.IndexOf(from);
  for (const ChunkResult& r : results.chunks)
    if (!config_->has_chunk(r.chunk) || seat_->OwnerOf(r.chunk) != sender)
      return out.Refuse("a result from a member that does not own the chunk");
  StoreResults store{state.step(), {}};
  for (const ChunkResult& r : results.chunks) {
    if (state.open.HasResult(r.chunk)) continue;
    state.open.AddResult(r, results.commands);
    store.chunks.push_back(r.chunk);
  }
  if (store.chunks.empty()) return out.Drop("a repetition");
  out.Do(std::move(store));
}

}  // namespace muster
