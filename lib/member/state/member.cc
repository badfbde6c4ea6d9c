#include "lib/member/state/member.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/member/state/donor.h"

namespace muster {
namespace {

// A donor, or another worker that a server heard it from, may have told it already.
void AddEnough(std::vector<JobCommand>& commands) {
  const JobCommand enough{0, JobCommandKind::kEnough};
  if (std::find(commands.begin(), commands.end(), enough) == commands.end())
    commands.push_back(enough);
}

}  // namespace

Member::Member(MemberConfig config)
    : config_(std::make_shared<const MemberConfig>(std::move(config))),
      known_(*config_),
      outbox_(config_->role) {}

Outcome Member::Handle(const Input& input) {
  const auto timeliness = [this] {
    // A held Fetch becomes answerable when a healing donor gets a result, so results count too.
    const int64_t healed = healer_ && state_ ? state_->open.result_count() : 0;
    return std::tuple(step(), sealed_, active(), has_state(), train_.has_state, healer_.has_value(),
                      healer_ && healer_->at_base(), healed);
  };
  const auto before = timeliness();
  Outcome out;
  std::visit([&](const auto& x) { On(x, out); }, input);
  PassTotalsOn(out);
  BoundParts(out);
  MeasureIfThere(out);
  edition_ += before != timeliness();
  return out;
}

std::vector<LaneId> Member::lanes_issued() const {
  return state_ ? state_->open.lanes() : std::vector<LaneId>();
}

ChunkSet Member::HeldResults() const {
  return state_ ? state_->open.results() : ChunkSet(config_->chunks.size(), false);
}

// Sealed, before it knows the plan of the next view, it holds the sessions of the one before, of
// which some members may be gone.
Unreachable Member::WhoIsUnreachable() const {
  if (!healer_ && !active_) return {};
  Unreachable found{sealed_, {}};
  const std::vector<ViewMember>& members = healer_ ? healer_->plan().members : seat_->view.members;
  for (size_t i = 0; i < members.size() && found.members.size() < kMostUnreachable; ++i) {
    const MemberId& peer = members[i].id;
    if (peer != config_->id && !reachable_.contains(peer))
      found.members.push_back(static_cast<int32_t>(i));
  }
  return found;
}

std::string Member::Phase() const {
  if (healer_ && !healer_->told())
    return absl::StrCat("healing to step ", healer_->plan().base.value());
  if (!active_)
    return sealed_ > ViewNumber(0) ? absl::StrCat("waiting for view ", sealed_.value())
                                   : "waiting for a view";
  if (!state_) return "spare";
  if (asked_ && asked_->running)
    return absl::StrCat("measuring the state of step ", asked_->step.value());
  if (halted()) return "halted";
  if (train_.has_state) return "applying";
  if (awaits_stream()) return "waiting for more of the stream";
  if (const std::optional<ChunkId> phase = state_->open.AwaitedPhase())
    return absl::StrCat("waiting for ", config_->layers.at(*phase), " of ",
                        seat_->MemberAt(state_->open.MissingOf(*seat_, *phase)).id.name);
  if (!state_->open.computed()) return "computing";
  for (int32_t c = 0; c < config_->chunk_count(); ++c)
    if (!state_->open.HasResult(ChunkId(c)))
      return absl::StrCat("waiting for chunk ", c, " of ",
                          seat_->MemberAt(seat_->OwnerOf(ChunkId(c))).id.name);
  return "computing";
}

// ---- the coordinator

void Member::On(const CoordinatorUp&, Outcome& out) {
  Join join = IntroductionOf(*config_, obeyed_);
  join.sealed = sealed_;
  join.active = active_ ? sealed_ : ViewNumber();
  join.recorded_lineage = outbox_.acknowledged().lineage;
  join.recorded = outbox_.acknowledged().below;
  join.stream_positions = known_.positions();
  out.Do(TellCoordinator{std::move(join)});
  out.Do(outbox_.TellAgain(sealed_));
  if (asked_ && asked_->answer) out.Do(TellCoordinator{*asked_->answer});
}

void Member::On(const CoordinatorSays& says, Outcome& out) {
  if (std::string why = obeyed_.WhyNot(says.message); !why.empty()) return out.Drop(std::move(why));
  std::visit([&](const auto& message) { On(message, out); }, says.message);
}

void Member::On(const GiveCommand& give, Outcome& out) {
  if (!active_ || give.view != sealed_) return out.Drop("too late");
  active_->Handle(give, out);
}

// What is known can only grow, so nothing waits for it but an open step that was not known.
void Member::On(const StreamIs& told, Outcome& out) {
  if (!known_.is_streamed()) return out.Drop("the job has no stream");
  const bool waits = state_ && !known_.Has(step());
  known_.Learn(told);
  if (active_) active_->Learn(told);
  if (!waits) return;
  if (active_) active_->GoOn(*state_, train_.last_id, out);
  TryApply(out);
  GoOnHealing(out);
}

void Member::On(const GiveMeasure& give, Outcome& out) {
  if (!active_ || !state_ || give.view != sealed_) return out.Drop("too late");
  active_->Handle(give, *state_, out);
}

void Member::On(const Leave& leave, Outcome& out) {
  GiveUpMeasuring(out);
  out.Do(Quit{leave.exit_code, leave.reason});
}

// What is acknowledged is committed, as far as that coordinator knows: should another one not know
// it, we do not say that it still comes.
void Member::On(const AckSegments& ack, Outcome&) {
  for (const SegmentWritten& written : outbox_.Acknowledge(ack)) {
    if (!measured_part_ || measured_part_->lineage != written.lineage ||
        measured_part_->step != written.step)
      continue;
    for (const SegmentEntry& entry : written.segment.entries)
      measured_part_->chunks[static_cast<size_t>(entry.chunk.value())] = false;
  }
}

void Member::On(const SegmentWritten& written, Outcome& out) {
  out.Do(outbox_.Add(written));
  if (!config_->IsFollowed(written.step)) EndPart(out);
}

// A part of a state that is to be measured is tried again by its writer.
void Member::On(const SegmentFailed& failed, Outcome& out) {
  out.Do(TellCoordinator{failed});
  if (!config_->IsFollowed(failed.step)) EndPart(out);
  if (failed.gave_up) measured_part_.reset();
}

// ---- the way from one view to the next

void Member::On(const Seal& seal, Outcome& out) {
  if (seal.view < sealed_) return out.Drop("an older view");
  if (seal.view == sealed_) {
    if (!active_ && !seal_answer_due_) AnswerSeal(out);
    return;
  }
  sealed_ = seal.view;
  // Another coordinator may not know that the last checkpoint is there, and so needs our part of
  // it before anybody measures.
  if (asked_ && asked_->term < seal.term) {
    GiveUpMeasuring(out);
    asked_.reset();
  }
  active_.reset();
  healer_.reset();
  out.Do(ForgetSums{});
  seal_answer_due_ = true;
  parts_.ForgetPostponed();  // the next view begins with it
  AnswerDueSeal(out);
}

// Others may go on from the state that the answer names, and then nobody else can tell how it was
// made. So no record of ours may still wait for its fingerprint.
void Member::AnswerDueSeal(Outcome& out) {
  if (seal_answer_due_ && !train_.has_state && !outbox_.AwaitsFingerprint()) AnswerSeal(out);
}

void Member::AnswerSeal(Outcome& out) {
  seal_answer_due_ = false;
  // A coordinator with an older journal than the one we were told by may not have taken them.
  out.Do(outbox_.TellRecordsAgain(sealed_));
  LocalState local_state = state_ ? LocalStateOf(*state_) : LocalState();
  local_state.measured_part = measured_part_;
  out.Do(TellCoordinator{Sealed{sealed_, std::move(local_state)}});
}

void Member::On(const Heal& heal, Outcome& out) {
  if (heal.view != sealed_ || active_) return out.Drop("not the forming view");
  if (healer_) {
    if (healer_->told()) out.Do(TellCoordinator{HoldsBase{sealed_, train_.lanes_run}});
    // It may have been lost with the session.
    if (healer_->failure()) out.Do(TellCoordinator{*healer_->failure()});
    return;
  }
  const std::optional<int32_t> me = IndexIn(heal.plan, config_->id);
  if (!me) return out.Drop("we are not named");
  Healer healer(config_, sealed_, heal.plan, *me, HeldResults());
  if (healer.NeedsState() && !state_) return out.Drop("a plan that needs a state we do not hold");
  StartHealing(std::move(healer), out);
}

void Member::StartHealing(Healer healer, Outcome& out) {
  const HealPlan& plan = healer.plan();
  out.Do(Connect{plan.members});
  // A spare keeps its state unless the lineage was voided.
  const bool is_voided = state_ && state_->lineage != plan.lineage;
  if (healer.BringsState() || (is_voided && !healer.NeedsState())) ForgetState(out);
  outbox_.KeepOnly(plan.lineage);
  if (measured_part_ && measured_part_->lineage != plan.lineage) {
    measured_part_.reset();
    out.Do(KeepParts{plan.lineage});
  }
  out.Do(healer.Begin());
  healer_ = std::move(healer);
  if (healer_->MakesState()) {
    train_.has_state = true;
    return;
  }
  out.Do(healer_->Ask(reachable_));
  GoOnHealing(out);
}

void Member::ForgetState(Outcome& out) {
  state_.reset();
  if (asked_) asked_->running.reset();  // the Abandon ends it
  train_.abandoning = ++train_.last_id;
  out.Do(Abandon{*train_.abandoning});
}

void Member::GoOnHealing(Outcome& out) {
  while (healer_ && !train_.has_state && !train_.abandoning) {
    switch (healer_->NextFor(step())) {
      case Healer::Next::kWait: return;
      case Healer::Next::kApply: return TryApply(out);
      case Healer::Next::kBase:
        if (healer_->BringsState())
          state_ = HeldState{healer_->plan().lineage, OpenStep(config_, healer_->plan().base), {}};
        healer_->ReachBase(HeldResults());
        out.Do(healer_->Ask(reachable_));
        break;
      case Healer::Next::kTellBase:
        healer_->Told();
        out.Do(TellCoordinator{HoldsBase{sealed_, train_.lanes_run}});
    }
  }
}

void Member::On(const Made& made, Outcome& out) {
  train_.has_state = false;
  if (seal_answer_due_) return AnswerSeal(out);
  if (!made.status.ok()) {
    const BaseFailed failed{sealed_, std::string(made.status.message()),
                            absl::IsDataLoss(made.status)};
    if (healer_) healer_->GiveUp(failed);
    return out.Do(TellCoordinator{failed});
  }
  GoOnHealing(out);
}

void Member::On(const Abandoned& abandoned, Outcome& out) {
  if (train_.abandoning != abandoned.id) return;
  train_.abandoning.reset();
  train_.lanes_run = abandoned.lanes_run;
  GoOnHealing(out);
}

void Member::On(const Activate& activate, Outcome& out) {
  const View& view = activate.view;
  if (view.number < sealed_) return out.Drop("an older view");
  if (active_ && view.number == sealed_) return;  // told again
  if (view.number != sealed_ || !healer_ || !healer_->told())
    return out.Drop("a view whose base we do not hold");
  auto seat = std::make_shared<const Seat>(Seat{view, view.IndexOf(config_->id)});
  const bool is_spare = !seat->HasPart(seat->me);
  if (!is_spare && !state_) return out.Drop("a view whose base we do not hold");
  healer_.reset();
  seat_ = std::move(seat);
  active_.emplace(config_, seat_, known_);
  out.Do(Connect{view.members});
  if (is_spare) {  // until now others may have healed from it
    if (state_) ForgetState(out);
    return out.Do(DropState{});
  }
  active_->Begin(reachable_, *state_, train_.last_id, out);
  TryApply(out);
}

void Member::On(const ViewStands& stands, Outcome& out) {
  if (stands.view != sealed_) out.Drop("an older view");
}

// ---- peers

void Member::On(const PeerUp& up, Outcome& out) {
  reachable_.insert(up.peer);
  if (active_ && state_) active_->SessionBegins(up.peer, *state_, out);
  if (healer_) out.Do(healer_->Ask({up.peer}));
}

void Member::On(const PeerDown& down, Outcome&) {
  reachable_.erase(down.peer);
  if (active_) active_->SessionEnds(down.peer);
}

void Member::On(const PeerSays& says, Outcome& out) {
  std::visit([&](const auto& message) { From(says.from, message, out); }, says.message);
}

void Member::From(const MemberId&, const Hello&, Outcome& out) { out.Refuse("a second greeting"); }

template <class M>
void Member::From(const MemberId& peer, const M& message, Outcome& out) {
  if (message.view < sealed_) return out.Drop("an older view");
  if (message.view > sealed_ || !active_) return out.Hold();
  if (!state_) return out.Drop("a spare has no part in a step");
  active_->Handle(peer, message, *state_, out);
  TryApply(out);
}

void Member::From(const MemberId& peer, const Fetch& fetch, Outcome& out) {
  if (fetch.view < sealed_) return out.Drop("an older view");
  if (fetch.view > sealed_ || (!healer_ && !active_)) return out.Hold();
  if (healer_ ? !healer_->Names(peer) : seat_->view.IndexOf(peer) < 0)
    return out.Refuse("it is no member of this view");
  if (fetch.kind == PieceKind::kSlot && (!config_->applies() || fetch.slot >= config_->slots))
    return out.Refuse("slots are not here");
  const bool is_here =
      state_ && !train_.has_state &&
      HasPieces(*config_, *state_, healer_ ? healer_->plan().owner_of : seat_->view.owner_of,
                healer_ ? healer_->me() : seat_->me, fetch);
  if (!is_here) return out.Hold();
  const LineageNumber lineage = healer_ ? healer_->plan().lineage : state_->lineage;
  out.Do(Send{peer, PiecesFor(*state_, lineage, fetch)});
}

void Member::From(const MemberId& peer, const Pieces& pieces, Outcome& out) {
  if (pieces.view != sealed_ || !healer_) return out.Drop("no healing goes on in that view");
  healer_->Handle(peer, pieces, state_, out);
  GoOnHealing(out);
}

// ---- the step

void Member::On(const Ready& ready, Outcome& out) {
  if (!state_ || !state_->open.Finish(ready))
    return out.Drop("of lanes that were given up or added to");
  if (active_) active_->PassOn(ready.chunks, *state_, out);
}

// The coordinator may have sealed the view since the sum was asked for: a complete sum stays valid.
void Member::On(const Summed& summed, Outcome& out) {
  if (!state_ || summed.step != step()) return out.Drop("of an older step");
  if (active_) {
    active_->Handle(summed, *state_, out);
  } else if (config_->BringsFact(summed.step, summed.chunk)) {
    return out.Drop("what a follower measured is not in it");
  } else if (config_->owner_applies()) {
    state_->open.AddSum(summed.chunk, summed.meta);
  } else {
    state_->open.AddResult({summed.chunk, summed.meta}, {});
  }
  TryApply(out);
}

void Member::On(const ChunksApplied& applied, Outcome& out) {
  if (!state_ || applied.step != step()) return out.Drop("of an older step");
  state_->open.SetMeasured(applied.measured);
  if (active_) {
    active_->Handle(applied, *state_, out);
  } else {
    for (const ChunkResult& result : applied.chunks) state_->open.AddResult(result, {});
  }
  if (seat_ && state_->open.HasAll(seat_->OwnChunks())) Advance(out);
}

// Between views only a member that catches up applies: nobody may change what others fetch.
void Member::TryApply(Outcome& out) {
  if (train_.has_state || config_->role != Role::kWorker || !state_) return;
  if (!active_ && !(healer_ && healer_->CatchesUp(step()))) return;
  if (!known_.Has(step())) return;
  std::optional<Apply> apply = state_->open.ApplyWhenComplete();
  if (!apply) return;
  apply->samples = known_.samples();
  train_.has_state = true;
  out.Do(*std::move(apply));
}

// Lanes wait for them, also while a view forms. Once the step is applied no lane does.
void Member::PassTotalsOn(Outcome& out) {
  if (!state_ || train_.has_state) return;
  if (std::optional<GiveTotals> totals = state_->open.TakeTotals()) out.Do(*std::move(totals));
}

void Member::On(const Applied& applied, Outcome& out) {
  train_.has_state = false;
  if (!state_) return out.Drop("a state that was given up");
  if (!applied.not_finite.empty())
    out.Do(outbox_.Add(LanesNotFinite{state_->lineage, applied.step, applied.not_finite}));
  state_->open.SetMeasured(applied.measured);
  Advance(out);
  AnswerDueSeal(out);
  GoOnHealing(out);
}

void Member::Advance(Outcome& out) {
  state_->Advance(config_);
  ClosedStep& done = *state_->closed;
  const bool is_enough = done.FindsEnough();
  if (is_enough) AddEnough(done.commands);
  // Whoever catches up was told the record by the donor, since its own view may be another.
  if (seat_ && (active_ || !done.record))
    done.record = RecordOf(*config_, known_, seat_->view, state_->lineage, done);
  else if (seat_ && done.record && done.record->without_weight)
    TakeWeight(*config_, seat_->view, done, *done.record);  // the donor was a server
  if (done.record && is_enough) AddEnough(done.record->commands);
  const bool fingerprint = done.record && FingerprintIsDue();
  StepBoundary boundary{step(), fingerprint, {}};
  if (active_) boundary.part = active_->ChunksToSave(*state_);
  if (fingerprint || !boundary.part.empty()) out.Do(std::move(boundary));
  if (done.record) out.Do(outbox_.Add(*done.record, fingerprint, sealed_));
  if (active_) active_->Advance(*state_, train_.last_id, out);
}

bool Member::FingerprintIsDue() const {
  if (config_->fingerprint_every <= 0 || !config_->applies()) return false;
  return step().value() % config_->fingerprint_every == 0 ||
         (seat_ && step() >= known_.EndIn(seat_->view));
}

void Member::On(const StepBoundaryDone& done, Outcome& out) {
  if (done.fingerprint) out.Do(outbox_.AddFingerprint(done.step, *done.fingerprint, sealed_));
  AnswerDueSeal(out);
}

// ---- parts of checkpoints

// A disk that is slower than the checkpoints come may hold up no step, and may not gather copies of
// the state: then a round is skipped, and the coordinator says so. The last checkpoint is never
// skipped, since the job does not end without it.
void Member::BoundParts(Outcome& out) {
  std::vector<Action> skipped;
  for (Action& action : out.actions) {
    auto* boundary = std::get_if<StepBoundary>(&action);
    if (boundary == nullptr || boundary->part.empty()) continue;
    if (config_->IsFollowed(boundary->step)) {
      NoteMeasuredPart(*boundary);
      continue;
    }
    if (parts_.Begin(RoundAt(boundary->step))) continue;
    StepBoundary later{boundary->step, false, std::exchange(boundary->part, {})};
    if (halted()) {
      parts_.Postpone(std::move(later));
    } else {
      skipped.emplace_back(TellCoordinator{
          SegmentFailed{lineage(), later.step,
                        absl::StrCat("its disk is slow: the parts of earlier checkpoints are not "
                                     "written yet; of ",
                                     parts_.stride(), " it takes part in one"),
                        /*disk_is_slow=*/true}});
    }
  }
  std::erase_if(out.actions, [](const Action& action) {
    const auto* boundary = std::get_if<StepBoundary>(&action);
    return boundary != nullptr && boundary->part.empty() && !boundary->fingerprint;
  });
  out.Do(std::move(skipped));
}

// Of a state that is to be measured each chunk is copied once by us, in whichever views we own it:
// so what waits for the disk of it is one state at most. Where the job ends there, it may be that
// what was written cannot be read back.
void Member::NoteMeasuredPart(StepBoundary& boundary) {
  const bool is_known = measured_part_ && measured_part_->lineage == lineage() &&
                        measured_part_->step == boundary.step;
  if (!is_known)
    measured_part_ = {lineage(), boundary.step, ChunkSet(config_->chunks.size(), false)};
  ChunkSet& chunks = measured_part_->chunks;
  if (!halted())
    std::erase_if(boundary.part, [&](ChunkId c) { return chunks[static_cast<size_t>(c.value())]; });
  for (const ChunkId c : boundary.part) chunks[static_cast<size_t>(c.value())] = true;
}

// Of the rounds that come every so many steps. The last one is taken in any case.
std::optional<int64_t> Member::RoundAt(Step step) const {
  const int64_t every = config_->checkpoint_every;
  if (every <= 0 || step.value() % every != 0 || halted()) return std::nullopt;
  return step.value() / every;
}

void Member::EndPart(Outcome& out) {
  if (std::optional<StepBoundary> postponed = parts_.End()) out.Do(*std::move(postponed));
}

// ---- the measure of the last state

void Member::On(const MeasureState& measure, Outcome& out) {
  if (config_->role != Role::kWorker) return out.Drop("for a worker");
  const bool is_asked =
      asked_ && asked_->lineage == measure.lineage && asked_->step == measure.step;
  if (!is_asked) {
    GiveUpMeasuring(out);
    asked_ = AskedMeasure{measure.term, measure.lineage, measure.step};
  } else if (asked_->answer) {
    out.Do(TellCoordinator{*asked_->answer});
  }
}

void Member::On(const AckMeasured& ack, Outcome& out) {
  if (!asked_ || asked_->lineage != ack.lineage || asked_->step != ack.step) return;
  GiveUpMeasuring(out);  // another one has told it
  asked_.reset();
}

// Another member may have told the record of the last step before we have done it, and we may have
// lost the state since and have it again: whole it is for certain in an active view. Once begun, it
// goes on whatever views form, since nothing of the state changes while it is held.
void Member::MeasureIfThere(Outcome& out) {
  if (!asked_ || asked_->running || asked_->answer || !active_ || !halted() || train_.has_state)
    return;
  if (lineage() != asked_->lineage || step() != asked_->step) return;
  asked_->running = ++train_.last_id;
  out.Do(MeasureHeld{train_.last_id, asked_->step});
}

void Member::GiveUpMeasuring(Outcome& out) {
  if (!asked_ || !asked_->running) return;
  asked_->running.reset();
  out.Do(GiveUpMeasure{++train_.last_id});
}

void Member::On(const MeasureEnded& ended, Outcome& out) {
  if (!asked_ || asked_->running != ended.id || !ended.sums.ok()) return out.Drop("given up");
  asked_->running.reset();
  asked_->answer = Measured{asked_->lineage, asked_->step, *ended.sums};
  out.Do(TellCoordinator{*asked_->answer});
}

}  // namespace muster
