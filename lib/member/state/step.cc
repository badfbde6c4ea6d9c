// The open step of an active member (docs/protocol.md section 3).
#include <algorithm>
#include <cmath>

#include "lib/base/status.h"
#include "lib/member/state/member.h"

namespace muster {

bool Member::owns(ChunkId c) const {
  return view_ && me_ >= 0 && view_->owner_of[static_cast<size_t>(c.value())] == me_;
}

bool Member::TakesPart(int32_t index) const {
  if (index < 0) return false;
  const auto& owners = view_->owner_of;
  if (view_->members[static_cast<size_t>(index)].role == Role::kServer)
    return std::find(owners.begin(), owners.end(), index) != owners.end();
  auto holds = [&](const LaneMap& map) {
    return std::find(map.holder_of.begin(), map.holder_of.end(), index) != map.holder_of.end();
  };
  return holds(view_->lanes) || holds(view_->first_lanes);
}

std::vector<LaneId> Member::LanesNow() const {
  return LanesOf(view_->LanesAt(step_).holder_of, me_);
}

bool Member::Done(ChunkId c) const {
  return step_ == view_->first_step && view_->first_done[static_cast<size_t>(c.value())];
}

void Member::BeginStep() {
  sums_ = Sums(config_.training.lanes, view_->LanesAt(step_), config_.chunks,
               {config_.training.order, config_.bugs.add_twice});
  if (config_.role == Role::kWorker && !halted()) AssignLanes();
}

void Member::AssignLanes() {
  bool needed = false;
  for (int32_t c = 0; c < chunk_count(); ++c) needed = needed || !Done(ChunkId(c));
  if (!needed) return;
  const std::vector<LaneId> lanes = LanesNow();
  std::vector<LaneId> added;
  std::set_difference(lanes.begin(), lanes.end(), issued_.begin(), issued_.end(),
                      std::back_inserter(added));
  if (!added.empty()) {
    issued_.insert(issued_.end(), added.begin(), added.end());
    std::sort(issued_.begin(), issued_.end());
    ready_.assign(ready_.size(), false);
    Do(Compute{++compute_id_, step_, added, Subtrees(issued_, config_.training.lanes)});
    return;
  }
  std::vector<ChunkId> ready;
  for (int32_t c = 0; c < chunk_count(); ++c)
    if (ready_[static_cast<size_t>(c)]) ready.emplace_back(c);
  AddOwnPartials(ready);
}

void Member::On(const Ready& ready) {
  if (ready.id != compute_id_) return Drop("of lanes that were given up or added to");
  my_partials_ = ready.partials;
  for (ChunkId c : ready.chunks) ready_[static_cast<size_t>(c.value())] = true;
  if (!active_) return;
  AddOwnPartials(ready.chunks);
  for (auto& [id, peer] : peers_)
    if (peer.ready) FlushPartials(id, peer);
}

namespace {

// What goes out for a chunk: all subtrees; of a buffer chunk only lane 0's.
std::vector<Partial> PartialsFor(TensorKind kind, const std::vector<Partial>& mine) {
  if (kind == TensorKind::kParameter) return mine;
  if (!mine.empty() && mine.front().node.lo == 0) {
    Partial first = mine.front();
    first.node = {0, 1};
    return {first};
  }
  return {};
}

}  // namespace

void Member::AddOwnPartials(const std::vector<ChunkId>& chunks) {
  for (ChunkId c : chunks) {
    const std::vector<Partial> mine =
        PartialsFor(config_.chunks[static_cast<size_t>(c.value())], my_partials_);
    if (owns(c) && !Done(c) && !mine.empty() && !sums_.HasFrom(me_, c))
      FoldChunk(me_, {c, mine}, true);
  }
}

void Member::FoldChunk(int32_t sender, const ChunkPartials& arrival, bool own) {
  absl::StatusOr<Taken> taken = sums_.Take(sender, arrival);
  if (absl::IsAlreadyExists(taken.status())) return;
  if (!taken.ok()) return Refuse(std::string(taken.status().message()));
  FoldIn fold{step_, arrival.chunk, own, {}, std::move(taken->folds), taken->total};
  for (const Partial& p : arrival.partials) fold.arrived.push_back(p.node);
  Do(std::move(fold));
}

void Member::SendHave(const MemberId& peer) {
  const int32_t index = view_->IndexOf(peer);
  if (!peers_[peer].up || index < 0 || index == me_ || !TakesPart(index) || !TakesPart(me_)) return;
  Inventory have{view_->lineage, view_->number, step_, ChunkSet(results_.size(), false), results_};
  for (int32_t c = 0; c < chunk_count(); ++c)
    have.partials[static_cast<size_t>(c)] =
        owns(ChunkId(c)) && (Done(ChunkId(c)) || sums_.HasFrom(index, ChunkId(c)));
  Do(Send{peer, std::move(have)});
}

void Member::From(const MemberId& id, const Inventory& have) {
  if (!Current(id, have.lineage, have.view)) return;
  if (have.partials.size() != results_.size() || have.results.size() != results_.size())
    return Refuse("another number of chunks");
  if (have.step > step_ + 1) return Refuse("a step that cannot be open in this view");
  PeerState& peer = peers_[id];
  peer.ready = true;
  peer.step = have.step;
  peer.partials = have.partials;
  peer.results = have.results;
  if (config_.bugs.add_twice) peer.partials.assign(results_.size(), false);
  if (have.step + 1 <
      step_) {  // long under way, from one on whom we do not depend: it has moved on since
    peer.step = step_;
    peer.partials.assign(results_.size(), false);
    peer.results.assign(results_.size(), false);
  }
  if (have.step > step_) {  // it has all of our step
    peer.partials.assign(results_.size(), true);
    peer.results.assign(results_.size(), true);
  }
  Flush(id, peer);
}

void Member::Flush(const MemberId& id, PeerState& peer) {
  if (peer.step < step_) {
    if (previous_) SendResults(id, peer, step_ - 1);
    if (owner_applies() && owns(ChunkId(0)) && previous_global_norm_)
      Do(Send{id,
              GlobalNorm{view_->lineage, view_->number, step_ - 1, *previous_global_norm_, {}}});
    peer.results.assign(results_.size(), false);
    peer.partials.assign(results_.size(), false);
    peer.step = step_;
  }
  SendResults(id, peer, step_);
  if (owner_applies() && config_.role == Role::kWorker && previous_ && !previous_commands_.empty())
    Do(Send{id, Partials{view_->lineage, view_->number, step_, {}, previous_commands_}});
  FlushPartials(id, peer);
  if (owner_applies() && clips() && config_.role == Role::kServer) {
    std::vector<ChunkId> summed;
    for (int32_t c = 0; c < chunk_count(); ++c)
      if (summed_[static_cast<size_t>(c)]) summed.emplace_back(c);
    RouteNorms(summed);
    if (global_norm_ && owns(ChunkId(0)))
      Do(Send{id, GlobalNorm{view_->lineage, view_->number, step_, *global_norm_, {}}});
  }
}

void Member::FlushPartials(const MemberId& id, PeerState& peer) {
  const int32_t index = view_->IndexOf(id);
  Partials partials{view_->lineage, view_->number, step_, {}, {}};
  for (int32_t c = 0; c < chunk_count(); ++c) {
    const auto i = static_cast<size_t>(c);
    if (view_->owner_of[i] != index || !ready_[i] || peer.partials[i] || Done(ChunkId(c))) continue;
    const std::vector<Partial> mine = PartialsFor(config_.chunks[i], my_partials_);
    if (mine.empty()) continue;
    partials.chunks.push_back({ChunkId(c), mine});
    peer.partials[i] = true;
  }
  if (!partials.chunks.empty()) Do(Send{id, std::move(partials)});
}

void Member::SendResults(const MemberId& id, PeerState& peer, Step step) {
  const int32_t index = view_->IndexOf(id);
  if (index < 0 || view_->members[static_cast<size_t>(index)].role == Role::kServer) return;
  const bool open = step == step_;
  Results results{view_->lineage, view_->number, step, {}, {}};
  for (int32_t c = 0; c < chunk_count(); ++c) {
    const auto i = static_cast<size_t>(c);
    if (!owns(ChunkId(c)) || peer.results[i] || (open && !results_[i])) continue;
    results.chunks.push_back({ChunkId(c), (open ? meta_ : previous_meta_)[i]});
    peer.results[i] = true;
    if (c == 0) results.commands = open ? commands_ : previous_commands_;
  }
  if (!results.chunks.empty()) Do(Send{id, std::move(results)});
}

void Member::From(const MemberId& id, const Partials& partials) {
  if (!Current(id, partials.lineage, partials.view)) return;
  if (partials.step > step_) return Hold();
  if (partials.chunks.empty() && partials.step == step_)
    return TakeBoundaryCommands(partials.step, partials.commands);
  if (partials.step < step_) return Drop("an older step");
  const int32_t sender = view_->IndexOf(id);
  for (const ChunkPartials& arrival : partials.chunks) {
    if (arrival.chunk.value() < 0 || arrival.chunk.value() >= chunk_count() || !owns(arrival.chunk))
      return Refuse("a chunk that is not ours");
    if (Done(arrival.chunk) || results_[static_cast<size_t>(arrival.chunk.value())]) continue;
    FoldChunk(sender, arrival, false);
    if (out_->fate == Fate::kRefused) return;
  }
}

void Member::On(const Summed& summed) {
  if (summed.step != step_) return Drop("of an older step");
  const auto c = static_cast<size_t>(summed.chunk.value());
  if (!owner_applies()) {
    results_[c] = true;
    meta_[c] = summed.meta;
    if (c == 0) commands_ = std::exchange(pending_commands_, {});
    Publish({summed.chunk});
    return TryApply();
  }
  summed_[c] = true;
  sum_meta_[c] = summed.meta;
  if (clips() && !global_norm_)
    return RouteNorms({summed.chunk});  // applies, if it leads to the global norm
  ApplySummed();
}

void Member::Publish(const std::vector<ChunkId>& chunks) {
  for (auto& [id, peer] : peers_)
    if (peer.ready && peer.step == step_ && !chunks.empty()) SendResults(id, peer, step_);
}

void Member::RouteNorms(const std::vector<ChunkId>& chunks) {
  if (chunks.empty()) return;
  Norms norms{view_->lineage, view_->number, step_, {}};
  for (ChunkId c : chunks) norms.chunks.push_back({c, sum_meta_[static_cast<size_t>(c.value())]});
  if (owns(ChunkId(0))) {
    for (const ChunkResult& n : norms.chunks) norms_[n.chunk] = n.meta.sum_of_squares;
    return DecideGlobalNorm();
  }
  const MemberId& owner = view_->members[static_cast<size_t>(view_->owner_of[0])].id;
  if (peers_[owner].ready) Do(Send{owner, std::move(norms)});
}

void Member::From(const MemberId& id, const Norms& norms) {
  if (!Current(id, norms.lineage, norms.view)) return;
  if (norms.step > step_) return Hold();
  if (norms.step < step_) return Drop("an older step");
  if (!owner_applies() || !owns(ChunkId(0))) return Refuse("norms go to the owner of chunk 0");
  for (const ChunkResult& n : norms.chunks) {
    if (n.chunk.value() < 0 || n.chunk.value() >= chunk_count()) return Refuse("no such chunk");
    norms_[n.chunk] = n.meta.sum_of_squares;
  }
  DecideGlobalNorm();
}

void Member::DecideGlobalNorm() {
  if (global_norm_ || norms_.size() < config_.chunks.size()) return;
  double sum = 0;
  for (const auto& [chunk, squares] : norms_) sum += squares;  // in chunk order
  global_norm_ = std::sqrt(sum);
  for (auto& [id, peer] : peers_) {
    const int32_t index = view_->IndexOf(id);
    if (peer.ready && index >= 0 &&
        view_->members[static_cast<size_t>(index)].role == Role::kServer)
      Do(Send{id, GlobalNorm{view_->lineage, view_->number, step_, *global_norm_, {}}});
  }
  ApplySummed();
}

void Member::From(const MemberId& id, const GlobalNorm& global_norm) {
  if (!Current(id, global_norm.lineage, global_norm.view)) return;
  if (global_norm.step > step_) return Hold();
  if (global_norm.step < step_ || global_norm_) return Drop("known");
  if (config_.role != Role::kServer) return;
  global_norm_ = global_norm.norm;
  ApplySummed();
}

void Member::ApplySummed() {
  if (clips() && !global_norm_) return;
  ApplyChunks apply{step_, {}, global_norm_};
  for (int32_t c = 0; c < chunk_count(); ++c) {
    const auto i = static_cast<size_t>(c);
    if (!summed_[i] || applied_[i]) continue;
    applied_[i] = true;
    apply.chunks.emplace_back(c);
  }
  if (!apply.chunks.empty()) Do(std::move(apply));
}

void Member::On(const ChunksApplied& applied) {
  if (applied.step != step_) return Drop("of an older step");
  std::vector<ChunkId> chunks;
  for (const ChunkResult& r : applied.chunks) {
    const auto c = static_cast<size_t>(r.chunk.value());
    results_[c] = true;
    meta_[c] = r.meta;
    if (c == 0) commands_ = std::exchange(pending_commands_, {});
    chunks.push_back(r.chunk);
  }
  if (active_) Publish(chunks);
  bool all = true;
  for (int32_t c = 0; c < chunk_count(); ++c)
    all = all && (!owns(ChunkId(c)) || results_[static_cast<size_t>(c)]);
  if (all) Advance();
}

void Member::From(const MemberId& id, const Results& results) {
  if (!Current(id, results.lineage, results.view)) return;
  if (results.step > step_) return Hold();
  if (results.step < step_) return Drop("an older step");
  if (config_.role != Role::kWorker) return Refuse("results go to workers");
  const int32_t sender = view_->IndexOf(id);
  StoreResults land{step_, {}};
  for (const ChunkResult& r : results.chunks) {
    const auto c = static_cast<size_t>(r.chunk.value());
    if (r.chunk.value() < 0 || r.chunk.value() >= chunk_count() || view_->owner_of[c] != sender)
      return Refuse("a result from a member that does not own the chunk");
    if (results_[c]) continue;
    results_[c] = true;
    meta_[c] = r.meta;
    if (c == 0) commands_ = results.commands;
    land.chunks.push_back(r.chunk);
  }
  if (land.chunks.empty()) return Drop("a repetition");
  Do(std::move(land));
  TryApply();
}

double Member::NormOf(const std::vector<ResultMeta>& metas) const {
  double sum = 0;
  for (const ResultMeta& m : metas) sum += m.sum_of_squares;
  return std::sqrt(sum);
}

void Member::TryApply() {
  if (applying_ || config_.role != Role::kWorker || !has_state_) return;
  const size_t held = static_cast<size_t>(std::count(results_.begin(), results_.end(), true));
  const bool enough =
      config_.bugs.apply_early ? held + 1 >= results_.size() : held == results_.size();
  const bool catching_up =
      plan_ && plan_->how[static_cast<size_t>(plan_me_)] == HealBy::kCatchUp && step_ < plan_->base;
  if (!enough || (!active_ && !catching_up)) return;
  applying_ = true;
  std::optional<double> norm;
  if (clips() && !owner_applies()) norm = NormOf(meta_);
  Do(Apply{step_, norm});
}

void Member::On(const Applied&) {
  applying_ = false;
  Advance();
  if (seal_answer_due_) return AnswerSeal();
  if (!active_) CheckHealed();
}

// The member is at the next state: results of the step before stay until nobody can need them.
void Member::Advance() {
  const Step done = step_;
  previous_meta_ = meta_;
  previous_commands_ = commands_;
  previous_global_norm_ = global_norm_;
  previous_ = true;
  step_ = step_ + 1;
  ClearOpenStep();
  for (auto& [id, peer] : peers_) {
    if (!peer.ready) continue;
    peer.partials.assign(results_.size(), false);
    peer.results.assign(results_.size(), false);
    peer.step = std::max(peer.step, step_);
  }
  const bool due =
      config_.fingerprint_every > 0 && applies() &&
      (step_.value() % config_.fingerprint_every == 0 || (view_ && step_ >= view_->end));
  if (due) unfinished_records_[step_] = {};
  AtStepBoundary();
  Report(done);
  if (!active_) return;
  if (owner_applies() && config_.role == Role::kWorker && !previous_commands_.empty())
    for (auto& [id, peer] : peers_)
      if (peer.ready)
        Do(Send{id, Partials{view_->lineage, view_->number, step_, {}, previous_commands_}});
  BeginStep();
}

bool Member::IsCut(Step step, const std::vector<JobCommand>& commands) const {
  if (step == Step(0) || !view_) return false;
  if (step >= view_->end || !commands.empty()) return true;
  return config_.checkpoint_every > 0 && step.value() % config_.checkpoint_every == 0;
}

std::vector<ChunkId> Member::CheckpointPart() const {
  std::vector<ChunkId> part;
  for (int32_t c = 0; c < chunk_count(); ++c) {
    const bool past = owner_applies() &&
                      results_[static_cast<size_t>(c)];  // its slots are at the next state already
    if (owns(ChunkId(c)) && !past) part.emplace_back(c);
  }
  return part;
}

void Member::AtStepBoundary() {
  StepBoundary boundary{step_, unfinished_records_.count(step_) > 0, {}};
  const std::vector<JobCommand> none;
  // After a change of view an owner that applies may have begun the next state: its checkpoint part
  // was copied before.
  const bool begun = std::find(applied_.begin(), applied_.end(), true) != applied_.end();
  if (active_ && !begun && IsCut(step_, previous_ ? previous_commands_ : none) &&
      shared_ != step_) {
    shared_ = step_;
    boundary.part = CheckpointPart();
  }
  if (boundary.fingerprint || !boundary.part.empty()) Do(std::move(boundary));
}

void Member::TakeBoundaryCommands(Step boundary, const std::vector<JobCommand>& commands) {
  if (commands.empty() || !previous_ || !previous_commands_.empty()) return;
  if (boundary != step_) return;
  previous_commands_ = commands;
  if (config_.role == Role::kServer) AtStepBoundary();
}

// The step was done in view_, unless we caught up: then the donor's record tells.
StepRecord Member::RecordOf(Step step) const {
  StepRecord record;
  record.lineage = lineage_;
  record.step = step;
  record.view = view_->number;
  for (int32_t holder : view_->LanesAt(step).holder_of)
    record.lane_holders.push_back(view_->members[static_cast<size_t>(holder)].id);
  record.samples = StepSamples(config_.training, config_.environment.samples, step);
  for (const ResultMeta& meta : previous_meta_)
    if (meta.weight > record.weight) {
      record.weight = meta.weight;
      record.loss = meta.loss;
    }
  record.commands = previous_commands_;
  return record;
}

void Member::Report(Step step) {
  const bool told = !active_ && last_record_ && last_record_->step == step;
  if (!told && !view_) return;
  StepRecord record = told ? *last_record_ : RecordOf(step);
  last_record_ = record;
  const auto waits = unfinished_records_.find(step + 1);
  if (waits != unfinished_records_.end()) {
    waits->second = std::move(record);
    return;
  }
  if (config_.role == Role::kWorker) Do(Completed{record});
  records_.push_back(
      record);  // servers too: all workers may be gone when the coordinator comes back
  Do(Tell{Records{{std::move(record)}}});
}

void Member::On(const StepBoundaryDone& done) {
  const auto it = unfinished_records_.find(done.step);
  if (!done.fingerprint || it == unfinished_records_.end()) return;
  StepRecord record = std::move(it->second);
  unfinished_records_.erase(it);
  record.fingerprint = done.fingerprint;
  if (config_.role == Role::kWorker) Do(Completed{record});
  records_.push_back(record);
  Do(Tell{Records{{std::move(record)}}});
}

}  // namespace muster
