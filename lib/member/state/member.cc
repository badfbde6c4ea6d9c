#include "lib/member/state/member.h"

#include <algorithm>
#include <tuple>

#include "lib/base/status.h"

namespace muster {
namespace {

constexpr size_t kChunksPerFetch = 8;
// A frame of records stays well below the largest header.
constexpr size_t kRecordsFrameBytes = 256 << 10;

// An upper bound of what a record takes in a frame.
size_t BytesOf(const StepRecord& record) {
  constexpr size_t kFixed = 160, kOrder = 16, kName = 64;
  return kFixed + record.lane_holders.size() * kName + record.commands.size() * kOrder;
}

bool All(const ChunkSet& set) {
  return std::all_of(set.begin(), set.end(), [](bool b) { return b; });
}

}  // namespace

Member::Member(MemberConfig config) : config_(std::move(config)) { ClearOpenStep(); }

Outcome Member::Take(const Input& input) {
  const auto timeliness = [this] {
    // A donor of a forming view may hold a result only since a moment ago.
    const auto healed = plan_ ? std::count(results_.begin(), results_.end(), true) : 0;
    return std::tuple(step_, sealed_, active_, has_state_, applying_, plan_.has_value(),
                      stage_one_done_, healed);
  };
  const auto before = timeliness();
  Outcome outcome;
  out_ = &outcome;
  std::visit([this](const auto& x) { On(x); }, input);
  out_ = nullptr;
  edition_ += before != timeliness();
  return outcome;
}

bool Member::halted() const {
  if (!has_state_ || !view_) return false;
  if (step_ >= view_->end) return true;
  return previous_ &&
         std::any_of(previous_commands_.begin(), previous_commands_.end(),
                     [](const JobCommand& o) { return o.kind == JobCommandKind::kStop; });
}

std::string Member::Phase() const {
  if (plan_ && !base_told_) return absl::StrCat("healing to step ", plan_->base.value());
  if (sealed_ > ViewNumber(0) && !active_)
    return absl::StrCat("waiting for view ", sealed_.value());
  if (!active_) return "waiting for a view";
  if (halted()) return "halted";
  if (applying_) return "applying";
  for (size_t c = 0; c < results_.size(); ++c)
    if (!results_[c] && All(ready_)) {
      const int32_t owner = view_->owner_of[c];
      return absl::StrCat("waiting for chunk ", c, " of ",
                          view_->members[static_cast<size_t>(owner)].id.name);
    }
  return "computing";
}

void Member::Drop(std::string reason) {
  out_->fate = Fate::kDropped;
  out_->reason = std::move(reason);
}

void Member::Refuse(std::string reason) {
  out_->fate = Fate::kRefused;
  out_->reason = std::move(reason);
}

void Member::Hold() { out_->fate = Fate::kHold; }

void Member::ClearOpenStep() {
  const size_t n = config_.chunks.size();
  issued_.clear();
  ready_.assign(n, false);
  my_partials_.clear();
  summed_.assign(n, false);
  sum_meta_.assign(n, {});
  applied_.assign(n, false);
  results_.assign(n, false);
  meta_.assign(n, {});
  commands_.clear();
  norms_.clear();
  global_norm_.reset();
}

// ---- the coordinator's words

void Member::On(const CoordinatorUp&) {
  Do(Tell{Join{config_.job, config_.id, config_.role, config_.node, config_.address, cluster_,
               term_, config_.environment, sealed_, active_}});
  TellRecords();
  for (const auto& [id, segment] : segments_) Do(Tell{segment});
}

// All that are not acknowledged: many, when the coordinator was away for long.
void Member::TellRecords() {
  Records batch;
  size_t bytes = 0;
  for (const StepRecord& record : records_) {
    bytes += BytesOf(record);
    if (bytes > kRecordsFrameBytes && !batch.records.empty()) {
      Do(Tell{std::exchange(batch, {})});
      bytes = BytesOf(record);
    }
    batch.records.push_back(record);
  }
  if (!batch.records.empty()) Do(Tell{std::move(batch)});
}

void Member::On(const CoordinatorSays& says) {
  std::visit([this](const auto& message) { On(message); }, says.message);
}

void Member::On(const JobIs& job) {
  if (cluster_.empty()) cluster_ = job.cluster;
  if (job.cluster != cluster_)
    return Do(Quit{1, absl::StrCat("the coordinator belongs to cluster ", job.cluster,
                                   ", this member to ", cluster_)});
  term_ = std::max(term_, job.term);
}

void Member::On(const Seal& seal) {
  if (seal.term < term_ || seal.view < sealed_) return Drop("an older term or view");
  term_ = seal.term;
  if (seal.view == sealed_) {
    if (!active_ && !seal_answer_due_) AnswerSeal();
    return;
  }
  sealed_ = seal.view;
  if (!config_.bugs.answer_without_sealing) {
    active_ = false;
    for (auto& [id, peer] : peers_) peer.ready = false;
  }
  plan_.reset();
  pending_commands_.clear();
  if (!summed_.empty()) Do(ForgetSums{});
  seal_answer_due_ = true;
  if (!applying_) AnswerSeal();
}

void Member::AnswerSeal() {
  seal_answer_due_ = false;
  Do(Tell{Sealed{sealed_, Held()}});
}

LocalState Member::Held() const {
  LocalState held;
  held.has_state = has_state_;
  if (!has_state_) return held;
  held.lineage = lineage_;
  held.step = step_;
  held.results = results_;
  held.sums = summed_;
  for (size_t c = 0; c < results_.size(); ++c) held.sums[c] = held.sums[c] || results_[c];
  held.previous_results = previous_;
  held.lanes = issued_;
  return held;
}

void Member::On(const Heal& heal) {
  if (config_.bugs.answer_without_sealing && heal.view == sealed_ && view_ &&
      view_->number < sealed_)
    active_ = false;
  if (heal.term < term_ || heal.view != sealed_ || active_) return Drop("not the forming view");
  if (plan_) {
    if (base_told_) Do(Tell{HoldsBase{sealed_, lanes_run_}});
    return;
  }
  const auto it = std::find_if(heal.plan.members.begin(), heal.plan.members.end(),
                               [&](const ViewMember& m) { return m.id == config_.id; });
  if (it == heal.plan.members.end()) return Drop("we are not named");
  plan_me_ = static_cast<int32_t>(it - heal.plan.members.begin());
  StartHealing(heal.plan);
}

void Member::StartHealing(const HealPlan& plan) {
  plan_ = plan;
  stage_one_done_ = false;
  base_told_ = false;
  Do(Connect{plan.members});
  const HealBy how = plan.how[static_cast<size_t>(plan_me_)];
  const bool voided = plan.lineage != lineage_;  // of what a spare holds nothing is left to be had
  const bool keeps =
      how == HealBy::kHold || how == HealBy::kCatchUp || (how == HealBy::kNothing && !voided);
  if (!keeps) {
    ForgetState();
    records_.erase(std::remove_if(records_.begin(), records_.end(),
                                  [&](const StepRecord& r) { return r.lineage != plan.lineage; }),
                   records_.end());
    unfinished_records_.clear();
  }
  wants_ = Wants(StageOne(plan, plan_me_, config_.slots, config_.chunks, applies(), results_));
  if (how == HealBy::kCopy) Do(PrepareCopy{plan.lineage, plan.base});
  if (how == HealBy::kMake || how == HealBy::kLoad) {
    Make make{plan.lineage, plan.base, plan.manifest, {}, applies()};
    for (int32_t c = 0; c < chunk_count(); ++c)
      if (config_.role == Role::kWorker || plan.owner_of[static_cast<size_t>(c)] == plan_me_)
        make.chunks.emplace_back(c);
    applying_ = true;
    return Do(std::move(make));
  }
  AskFor(nullptr);
  CheckHealed();
}

void Member::ForgetState() {
  has_state_ = false;
  previous_ = false;
  last_record_.reset();
  abandoning_ = ++compute_id_;
  Do(Abandon{*abandoning_});
  ClearOpenStep();
}

void Member::AskFor(const MemberId* only) {
  for (int32_t donor : wants_.Donors()) {
    const MemberId& id = plan_->members[static_cast<size_t>(donor)].id;
    if ((only != nullptr && id != *only) || !peers_[id].up) continue;
    for (Fetch& fetch : wants_.Ask(sealed_, donor, kChunksPerFetch)) Do(Send{id, std::move(fetch)});
  }
}

void Member::CheckHealed() {
  if (!plan_ || base_told_ || applying_ || abandoning_ || !wants_.empty()) return;
  if (!stage_one_done_) return FinishStageOne();
  base_told_ = true;
  Do(Tell{HoldsBase{sealed_, lanes_run_}});
}

void Member::FinishStageOne() {
  const HealBy how = plan_->how[static_cast<size_t>(plan_me_)];
  if (how == HealBy::kCatchUp && step_ < plan_->base) return TryApply();
  stage_one_done_ = true;
  if (how == HealBy::kCopy || how == HealBy::kMake || how == HealBy::kLoad) {
    has_state_ = true;
    lineage_ = plan_->lineage;
    step_ = plan_->base;
  }
  wants_ = Wants(StageTwo(*plan_, plan_me_, results_));
  AskFor(nullptr);
  CheckHealed();
}

void Member::On(const Made& made) {
  applying_ = false;
  if (seal_answer_due_) return AnswerSeal();
  if (!made.status.ok())
    return Do(Tell{
        BaseFailed{sealed_, std::string(made.status.message()), absl::IsDataLoss(made.status)}});
  CheckHealed();
}

void Member::On(const Abandoned& abandoned) {
  if (abandoning_ != abandoned.id) return;
  abandoning_.reset();
  lanes_run_ = abandoned.lanes_run;
  CheckHealed();
}

void Member::On(const Activate& activate) {
  const View& view = activate.view;
  if (view.term < term_ || view.number < sealed_) return Drop("an older term or view");
  term_ = view.term;
  if (active_ && view.number == sealed_) return;  // published again by a restarted coordinator
  if (view.number != sealed_ || !base_told_) return Drop("a view whose base we do not hold");
  BecomeActive(view);
}

void Member::BecomeActive(const View& view) {
  view_ = view;
  me_ = view.IndexOf(config_.id);
  plan_.reset();
  active_ = true;
  shared_.reset();
  newest_command_ = 0;
  sums_ = Sums();
  Do(Connect{view.members});
  if (!TakesPart(me_)) {  // a spare; until now others may have healed from it
    if (has_state_) ForgetState();
    return Do(DropState{});
  }
  BeginStep();
  for (auto& [id, peer] : peers_) SendHave(id);
  if (IsCut(step_, {})) AtStepBoundary();
  if (applies() && owner_applies()) ApplySummed();
  TryApply();
}

void Member::On(const GiveCommand& give) {
  if (!active_ || give.view != sealed_ || !owns(ChunkId(0))) return Drop("too late");
  if (give.command.id <= newest_command_) return;  // given again, because our session was new
  newest_command_ = give.command.id;
  // Where chunk 0 is complete already, it rides in the next step.
  pending_commands_.push_back(give.command);
}

void Member::On(const AckRecords& ack) {
  while (!records_.empty() &&
         (records_.front().lineage < ack.lineage ||
          (records_.front().lineage == ack.lineage && records_.front().step < ack.below)))
    records_.pop_front();
}

void Member::On(const AckSegments& ack) {
  for (int64_t id : ack.ids) segments_.erase(id);
}

void Member::On(const Leave& leave) { Do(Quit{leave.exit_code, leave.reason}); }

void Member::On(const SegmentDone& done) {
  SegmentWritten written = done.written;
  written.id = next_segment_++;
  segments_[written.id] = written;
  Do(Tell{std::move(written)});
}

void Member::On(const SegmentLost& lost) { Do(Tell{lost.failed}); }

// ---- sessions and peers

void Member::On(const PeerUp& up) {
  PeerState& peer = peers_[up.peer];
  peer = PeerState{};
  peer.up = true;
  if (active_) SendHave(up.peer);
  if (plan_ && !active_) AskFor(&up.peer);
}

void Member::On(const PeerDown& down) { peers_[down.peer] = PeerState{}; }

void Member::On(const PeerSays& says) {
  std::visit([&](const auto& message) { From(says.from, message); }, says.message);
}

void Member::From(const MemberId&, const Hello&) { Refuse("a second greeting"); }

bool Member::Current(const MemberId& peer, LineageNumber lineage, ViewNumber view) {
  if (config_.bugs.accept_old_view && active_ && view < sealed_ && lineage == view_->lineage)
    return true;
  if (config_.bugs.answer_without_sealing && active_ && view == view_->number) return true;
  if (view > sealed_ || (view == sealed_ && !active_)) {
    Hold();
    return false;
  }
  if (view < sealed_) {
    Drop("an older view");
    return false;
  }
  if (lineage != view_->lineage || view_->IndexOf(peer) < 0) {
    Refuse("a lineage or a sender that the view does not have");
    return false;
  }
  return true;
}

void Member::From(const MemberId& peer, const Fetch& fetch) {
  if (fetch.view < sealed_) return Drop("an older view");
  if (fetch.view > sealed_ || (!plan_ && !active_)) return Hold();
  const bool result = fetch.kind == PieceKind::kResult;
  auto holds = [&](ChunkId c) {
    if (!has_state_ || applying_ || c.value() < 0 || c.value() >= chunk_count()) return false;
    if (config_.role == Role::kServer) {
      const std::vector<int32_t>* owners = plan_   ? &plan_->owner_of
                                           : view_ ? &view_->owner_of
                                                   : nullptr;
      const int32_t me = plan_ ? plan_me_ : me_;
      if (owners == nullptr || (*owners)[static_cast<size_t>(c.value())] != me) return false;
    }
    if (result)
      return (step_ == fetch.step && results_[static_cast<size_t>(c.value())]) ||
             (step_ == fetch.step + 1 && previous_);
    if (step_ == fetch.step) return true;
    return fetch.kind == PieceKind::kValues && owner_applies() && step_ == fetch.step + 1 &&
           previous_;
  };
  if (!TakesPartInView(peer)) return Refuse("it is no member of this view");
  if (fetch.kind == PieceKind::kSlot && (!applies() || fetch.slot >= config_.slots))
    return Refuse("slots are not here");
  if (!std::all_of(fetch.chunks.begin(), fetch.chunks.end(), holds)) return Hold();
  Pieces pieces{
      fetch.view, plan_ ? plan_->lineage : lineage_, fetch.kind, fetch.slot, fetch.step, {}, {},
      {}};
  if (result && step_ == fetch.step + 1) pieces.record = last_record_;
  for (ChunkId c : fetch.chunks) {
    ChunkResult piece{c, {}};
    if (result)
      piece.meta = (step_ == fetch.step ? meta_ : previous_meta_)[static_cast<size_t>(c.value())];
    if (result && c == ChunkId(0))
      pieces.commands = step_ == fetch.step ? commands_ : previous_commands_;
    pieces.chunks.push_back(piece);
  }
  Do(Send{peer, std::move(pieces)});
}

// In the forming view where one is being formed, else in the active one.
bool Member::TakesPartInView(const MemberId& peer) const {
  const std::vector<ViewMember>& members = plan_ ? plan_->members : view_->members;
  return std::any_of(members.begin(), members.end(),
                     [&](const ViewMember& m) { return m.id == peer; });
}

void Member::From(const MemberId& peer, const Pieces& pieces) {
  if (pieces.view != sealed_ || active_ || !plan_) return Drop("no healing goes on in that view");
  if (!TakesPartInView(peer)) return Refuse("it is no member of this view");
  if (pieces.lineage != plan_->lineage) return Refuse("pieces of another lineage");
  if (pieces.record && pieces.record->step == step_) last_record_ = pieces.record;
  std::vector<ChunkId> landed;
  for (const ChunkResult& piece : pieces.chunks) {
    if (!wants_.Arrive(pieces.kind, pieces.slot, pieces.step, piece.chunk)) continue;
    landed.push_back(piece.chunk);
    if (pieces.kind != PieceKind::kResult) continue;
    const auto c = static_cast<size_t>(piece.chunk.value());
    results_[c] = true;
    meta_[c] = piece.meta;
    if (c == 0) commands_ = pieces.commands;
  }
  if (landed.empty()) return Drop("nothing that is still wanted");
  if (pieces.kind == PieceKind::kResult) {
    Do(StoreResults{pieces.step, landed});
  } else {
    Do(StorePieces{pieces.kind, pieces.slot, pieces.step, landed});
  }
  CheckHealed();
}

}  // namespace muster
