#include "tests/sim/machine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/exit_codes.h"

namespace muster::sim {
namespace {

ViewNumber ViewOf(const PeerMessage& message) {
  return std::visit(
      [](const auto& said) {
        if constexpr (requires { said.view; })
          return said.view;
        else
          return ViewNumber();
      },
      message);
}

}  // namespace

Machine::Machine(MemberConfig config, Outside outside)
    : config_(std::move(config)),
      outside_(std::move(outside)),
      terms_(outside_.job->terms),
      member_(config_),
      memory_(config_.training.sync, config_.chunks.size(), outside_.violate),
      own_final_(config_.chunks.size(), false),
      waiting_(config_.chunks.size()),
      sums_(config_.chunks.size(), kTorn),
      sum_meta_(config_.chunks.size()) {
  if (config_.role != Role::kWorker) return;
  const auto post = [this](TrainEvent event) {
    from_train_.Push(*outside_.schedule, *outside_.runner, outside_.schedule->Random(0, 2),
                     [this, event = std::move(event)] {
                       std::visit([this](const auto& e) { Handle(e); }, event);
                     });
  };
  train_.emplace(TrainThread::Parts{outside_.schedule, outside_.runner, &terms_,
                                    [this](const Make& make) { return Load(make); }, post,
                                    [this] { outside_.coverage->Add(Corner::kBusyThreads); },
                                    outside_.job->options.fingerprint_ms,
                                    [this](Step step, ChunkId chunk, Value total) {
                                      return total == RightResult(step, chunk);
                                    },
                                    outside_.violate, outside_.coverage,
                                    [this](const Compute& compute, LaneId lane) {
                                      ReadSamples(compute.step, lane, compute.samples);
                                    }},
                 config_.id.incarnation);
}

size_t Machine::held() const {
  size_t n = 0;
  for (const auto& [from, frames] : held_) n += frames.size();
  return n;
}

std::vector<ThreadAge> Machine::threads(const OwnGaps& gaps) const {
  const std::optional<int64_t> still = train_ ? train_->StoodStill() : std::nullopt;
  if (!still) return {};
  return {{"train", Seconds(gaps.Since(std::chrono::milliseconds(*still)))}};
}

// ---- the state machine, as lib/member/runtime/exchange.cc feeds it

void Machine::Feed(const Input& input) {
  if (left_) return;
  if (const auto* says = std::get_if<CoordinatorSays>(&input)) {
    NoteCommand(says->message);
    NoteWhoIsNamed(says->message);
    if (const auto* told = std::get_if<StreamIs>(&says->message)) Learn(*told);
  }
  Carry(member_.Handle(input).actions, nullptr);
  NoteChanges();
}

void Machine::Deliver(const MemberId& from, SimFrame frame) {
  if (left_) return;
  const Outcome outcome = member_.Handle(PeerSays{from, frame.message});
  if (outcome.fate == Fate::kTaken) CheckIsInView("it took a frame of", from, frame.message);
  Carry(outcome.actions, &frame);
  if (outcome.fate == Fate::kRefused)
    outside_.violate(absl::StrCat("a message of a sound member was refused: ", outcome.reason));
  if (outcome.fate == Fate::kHold) HoldBack(from, std::move(frame));
  NoteChanges();
}

// Data keeps its receipt. A Fetch does not: what it asks for may come behind it.
void Machine::HoldBack(const MemberId& from, SimFrame frame) {
  if (std::holds_alternative<Fetch>(frame.message)) frame.receipt.reset();
  held_[from].push_back(std::move(frame));
}

// Answers are fed at once, before the actions that follow.
void Machine::Carry(const std::vector<Action>& actions, const SimFrame* frame) {
  for (const Action& action : actions) {
    const Answer answer = std::visit([&](const auto& a) { return Do(a, frame); }, action);
    if (answer && !left_) Carry(member_.Handle(*answer).actions, nullptr);
  }
}

// Frames that came too early are delivered once more, in order. Those still too early stay.
void Machine::NoteChanges() {
  CheckInvariants();
  if (std::exchange(redelivering_, true)) return;
  while (!left_ && std::exchange(edition_, member_.edition()) != member_.edition())
    for (auto& [peer, frames] : std::exchange(held_, {}))
      for (SimFrame& frame : frames)
        if (outside_.up(peer)) Deliver(peer, std::move(frame));
  redelivering_ = false;
}

void Machine::SessionUp(const MemberId& peer) { Feed(PeerUp{peer}); }

void Machine::SessionDown(const MemberId& peer) {
  held_.erase(peer);
  Feed(PeerDown{peer});
}

// A stop that the owner of chunk 0 is given rides in the result of the open step, or of the next
// one.
void Machine::NoteCommand(const FromCoordinator& message) {
  const auto* give = std::get_if<GiveCommand>(&message);
  if (give == nullptr || give->command.kind != JobCommandKind::kStop) return;
  const View* view = member_.view();
  const bool ours = member_.active() && member_.has_state() && give->view == view->number &&
                    view->owner_of[0] == view->IndexOf(config_.id);
  if (!ours) return;
  const StopGiven given{config_.start, give->term, give->view, give->command.id, member_.step()};
  std::optional<StopGiven>& first = outside_.job->stop_given;
  const bool is_known = first && first->start == given.start;
  if (is_known && first->term < given.term) outside_.coverage->Add(Corner::kStopsOfLaterTerms);
  if (!is_known || first->term < given.term) first = given;
  if (stop_given_ && stop_given_->view == give->view) return;
  const bool did_not_ride = stop_given_ && stop_given_->id == give->command.id &&
                            stop_given_->step == member_.step() &&
                            memory_.ReceiveBuffer(member_.step())[0] == kTorn;
  if (did_not_ride) outside_.coverage->Add(Corner::kStopsGivenAgain);
  stop_given_ = given;
}

// The machine itself keeps who is in its view; this does not ask it.
void Machine::NoteWhoIsNamed(const FromCoordinator& message) {
  if (const auto* heal = std::get_if<Heal>(&message); heal && heal->view == member_.sealed())
    named_ = Named(heal->view, heal->plan.members);
  const auto* activate = std::get_if<Activate>(&message);
  if (activate && activate->view.number == member_.sealed())
    named_ = Named(activate->view.number, activate->view.members);
}

void Machine::CheckIsInView(const char* what, const MemberId& peer, const PeerMessage& message) {
  const ViewNumber view = ViewOf(message);
  if (view == named_.view && named_.members.contains(peer)) return;
  outside_.violate(absl::StrCat(what, " ", peer.name, ", who is not in the view ", view.value(),
                                " that it is of"));
}

void Machine::CheckInvariants() {
  if (!member_.active() || !member_.has_state()) return;
  if (stop_given_ && stop_given_->view == member_.sealed() &&
      member_.step() >= stop_given_->step + 2 && !member_.halted())
    outside_.violate(absl::StrCat("it was given a stop in step ", stop_given_->step.value(),
                                  " and is at step ", member_.step().value()));
  if (member_.lineage() != member_.view()->lineage)
    outside_.violate(absl::StrCat("a state of lineage ", member_.lineage().value(),
                                  " is used in a view of lineage ",
                                  member_.view()->lineage.value()));
}

// ---- what the train thread says

void Machine::Handle(GradientsReady event) {
  const bool is_phase = !event.phases.empty();
  if (event.ready.id == compute_id_) {
    if (!is_phase) own_sums_ = std::move(event.sums);
    own_phases_.merge(std::move(event.phases));
    for (ChunkId c : event.ready.chunks) own_final_[static_cast<size_t>(c.value())] = true;
  }
  Feed(std::move(event.ready));
  if (is_phase) outside_.at_phase();
}

void Machine::Handle(StateApplied event) {
  own_sums_.reset();
  own_phases_.clear();
  if (*memory_.Values(event.step + 1) != outside_.job->reference.At(event.step + 1).values)
    outside_.violate(absl::StrCat("state(", event.step.value() + 1, ") is another term"));
  const auto brought = BroughtIn(config_.training, config_.environment.samples, event.step);
  if (brought && config_.training.validation.by_follower() &&
      !outside_.job->facts_told.contains(*brought))
    outside_.violate(absl::StrCat("step ", event.step.value(), " is done without the measure of ",
                                  brought->value()));
  const bool sealed =
      !member_.active() && member_.view() && member_.sealed() > member_.view()->number;
  if (sealed) outside_.coverage->Add(Corner::kAppliedAfterSeal);
  Feed(Applied{event.step, std::move(event.not_finite),
               terms_.MeasuredIn(*memory_.Values(event.step + 1))});
}

void Machine::Handle(LanesAbandoned event) { Feed(event.abandoned); }

void Machine::Handle(StateMeasured event) { Feed(std::move(event.ended)); }

void Machine::Handle(StepBoundaryTaken event) {
  if (event.part) Write(*std::move(event.part));
  Feed(std::move(event.done));
}

void Machine::Handle(StateMade event) {
  if (event.status.ok()) memory_.Restart(event.step, std::move(event.state));
  Feed(Made{event.status});
}

// ---- checkpoints

absl::StatusOr<SimState> Machine::Load(const Make& make) {
  if (make.manifest && outside_.schedule->OneIn(60)) {
    outside_.coverage->Add(Corner::kUnluckyLoads);
    return absl::UnavailableError("the disk did not answer");
  }
  absl::StatusOr<SimState> state = MakeState(terms_, outside_.job->disk, make);
  if (absl::IsDataLoss(state.status())) outside_.coverage->Add(Corner::kDamagedLoads);
  if (absl::IsInternal(state.status()))
    outside_.violate(absl::StrCat("a manifest names a file: ", state.status().message()));
  if (state.ok()) CheckLoaded(make, *state);
  return state;
}

void Machine::CheckLoaded(const Make& make, const SimState& state) {
  const Reference::State& right = outside_.job->reference.At(make.step);
  for (ChunkId chunk : make.chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    bool same = (*state.values)[c] == right.values[c];
    if (state.slots && terms_.parameter(c))
      same = same && SlotsOf(*state.slots, c) == SlotsOf(right.slots, c);
    if (!same)
      outside_.violate(
          absl::StrCat("a checkpoint of state(", make.step.value(), ") held another term"));
  }
}

// ---- the stream

// As the exchange thread does before the state machine hears of it.
void Machine::Learn(const StreamIs& told) {
  if (const absl::Status status = LearnFacts(stream_facts_, told.segments); !status.ok())
    outside_.violate(
        absl::StrCat("what it is told of the stream does not go on: ", status.message()));
  const bool waited = !KnownStep(StepsOf(config_.training), known_, member_.step()).has_value();
  known_.positions = std::max(known_.positions, told.positions);
  if (told.end) known_.end = told.end;
  if (!stream_facts_.empty() && stream_facts_.back().end() != known_.positions)
    outside_.violate(absl::StrCat("it is told of ", known_.positions,
                                  " positions, and of segments up to ",
                                  stream_facts_.back().end()));
  if (waited && member_.active() && KnownStep(StepsOf(config_.training), known_, member_.step()))
    outside_.coverage->Add(Corner::kWaitsForStream);
}

void Machine::CheckIsKnown(const char* what, Step step, uint64_t samples) {
  if (!IsStreamed(config_.training)) return;
  const auto range = KnownStep(StepsOf(config_.training), known_, step);
  if (!range)
    return outside_.violate(absl::StrCat(what, " step ", step.value(), ", which is not known: of ",
                                         known_.positions, " positions it was told"));
  const SampleRange told = StepSamples(config_.training, samples, step);
  if (told != SampleRange{0, range->first, range->count})
    outside_.violate(absl::StrCat(what, " step ", step.value(), " with ", told.count,
                                  " samples from ", told.first, " on, and not with ", range->count,
                                  " from ", range->first, " on"));
}

// What is gone is needed by nobody who is in the view that goes on; another process ends.
void Machine::ReadSamples(Step step, LaneId lane, uint64_t samples) {
  if (!IsStreamed(config_.training) || left_) return;
  const SampleRange range = LaneSamples(config_.training, samples, step, lane);
  for (uint64_t p = range.first; p < range.first + range.count; ++p) {
    const SpoolSegment* fact = FactOf(stream_facts_, p);
    if (fact == nullptr)
      return outside_.violate(absl::StrCat("position ", p, " is read, which no fact names"));
    const auto file = outside_.job->spool.find(KeyOf(*fact));
    if (file == outside_.job->spool.end()) {
      const auto& journal = outside_.job->store.journal;
      const bool counts = member_.active() && journal && journal->view && !journal->resumes &&
                          !coordinator::Ended(journal->phase) &&
                          journal->view->number == member_.sealed();
      if (counts)
        return outside_.violate(
            absl::StrCat("position ", p, " is read, and its segment was deleted"));
      left_ = true;
      return outside_.quit(kExitFailed, "samples of the stream are gone");
    }
    const size_t at = p - fact->first;
    if (file->second->first != fact->first || at >= file->second->synced)
      return outside_.violate(absl::StrCat("position ", p, " is read, and is not on the disk"));
    if (file->second->samples[at] != outside_.job->source->SampleAt(p))
      return outside_.violate(absl::StrCat("position ", p, " is another sample than it was"));
  }
}

// ---- parts of checkpoints

// A thread of its own writes the parts one after the other.
void Machine::Write(PartCopy part) {
  const bool is_followed = config_.IsFollowed(part.step);
  if (!is_followed && ++parts_under_way_ > CheckpointParts::kMost)
    outside_.violate("more copies of checkpoint parts wait for the disk than may");
  if (is_followed) {
    ChunkSet& chunks = copied_[{part.lineage, part.step}];
    chunks.resize(config_.chunks.size(), false);
    for (const auto& [key, value] : part.content) chunks[static_cast<size_t>(key.second)] = true;
  }
  SegmentWritten written;
  written.lineage = part.lineage;
  written.step = part.step;
  written.segment.entries = EntriesOf(part);
  written.segment.file =
      absl::StrCat("s", part.step.value(), "-l", part.lineage.value(), "/", config_.id.name, "-",
                   config_.id.incarnation.hi, "-", ++segments_);
  Push(std::move(written), std::move(part.content));
}

// A part of a state that is to be measured is tried again, as segment_writer.cc does.
void Machine::Push(SegmentWritten written, std::map<std::pair<int32_t, int32_t>, Value> content) {
  Schedule& schedule = *outside_.schedule;
  const bool is_followed = config_.IsFollowed(written.step);
  const int64_t takes = schedule.OneIn(30) ? schedule.Random(200, 2000) : schedule.Random(1, 80);
  writer_free_at_ = std::max(writer_free_at_, schedule.now()) + takes;
  const bool lost = schedule.OneIn(is_followed ? 20 : 60);
  from_writer_.Push(
      schedule, *outside_.runner, writer_free_at_ - schedule.now(),
      [this, lost, is_followed, written, content = std::move(content)] {
        if (!is_followed) --parts_under_way_;
        if (!lost) {
          outside_.job->disk[written.segment.file] = {content, false};
          return Feed(written);
        }
        outside_.coverage->Add(is_followed ? Corner::kPartsTriedAgain : Corner::kLostSegments);
        if (is_followed && written.lineage >= kept_lineage_)
          outside_.runner->Later(outside_.schedule->Random(100, 1500), [this, written, content] {
            if (written.lineage >= kept_lineage_) Push(written, content);
          });
        Feed(SegmentFailed{written.lineage, written.step, "no space"});
      });
}

ChunkSet Machine::PartsOf(LineageNumber lineage, Step step) const {
  const auto found = copied_.find({lineage, step});
  return found == copied_.end() ? ChunkSet(config_.chunks.size(), false) : found->second;
}

// ---- actions for others

Machine::Answer Machine::Do(const Connect& a, const SimFrame*) {
  for (const MemberId& peer : outside_.connect(a.peers)) {
    held_.erase(peer);
    Carry(member_.Handle(PeerDown{peer}).actions, nullptr);
  }
  return std::nullopt;
}

Machine::Answer Machine::Do(const TellCoordinator& a, const SimFrame*) {
  const auto* failed = std::get_if<SegmentFailed>(&a.message);
  if (failed != nullptr && failed->disk_is_slow) outside_.coverage->Add(Corner::kSkippedParts);
  outside_.tell(a.message);
  return std::nullopt;
}

Machine::Answer Machine::Do(const Quit& a, const SimFrame*) {
  left_ = true;
  outside_.quit(a.exit_code, a.reason);
  return std::nullopt;
}

Machine::Answer Machine::Do(const Completed& a, const SimFrame*) {
  outside_.step_done(a.record.step);
  return std::nullopt;
}

Machine::Answer Machine::Do(const Send& a, const SimFrame*) {
  const auto* p = std::get_if<Partials>(&a.message);
  if (p != nullptr && p->view < member_.sealed())
    outside_.violate(
        absl::StrCat("partials were sent in view ", p->view.value(), ", which is sealed"));
  if (p != nullptr) CheckGradientsLeave(*p);
  CheckIsInView("it sent a frame to", a.to, a.message);
  outside_.send(a.to, SimFrame{a.message, PayloadOf(a.message)});
  return std::nullopt;
}

// A lane ends when it has had the last total of its order.
void Machine::CheckGradientsLeave(const Partials& partials) {
  const bool has_gradients = std::any_of(
      partials.chunks.begin(), partials.chunks.end(),
      [&](const ChunkPartials& c) { return !terms_.phase(static_cast<size_t>(c.chunk.value())); });
  for (const size_t c : terms_.SyncOrder())
    if (has_gradients && memory_.ReceiveBuffer(partials.step)[c] == kTorn)
      outside_.violate(absl::StrCat("gradients leave before the total of chunk ", c, " is here"));
}

// A buffer has its value from lane 0, which is in the first subtree.
Value Machine::OwnSum(TreeNode node, ChunkId chunk) {
  const auto c = static_cast<size_t>(chunk.value());
  const auto phase = own_phases_.find({chunk, node});
  if (phase != own_phases_.end() && own_final_[c]) return phase->second;
  const bool buffer = terms_.buffer(c);
  const auto it = !own_sums_ ? SubtreeSums::const_iterator()
                  : buffer   ? own_sums_->begin()
                             : own_sums_->find(node);
  const bool there =
      own_sums_ && !terms_.phase(c) && it != own_sums_->end() && (!buffer || it->first.lo == 0);
  if (there && own_final_[c]) return it->second.sums[c];
  outside_.violate(absl::StrCat("a sum of chunk ", c, " over the lanes from ", node.lo,
                                " is sent that is not there or not final"));
  return kTorn;
}

std::vector<Value> Machine::PayloadOf(const PeerMessage& message) {
  std::vector<Value> payload;
  if (const auto* p = std::get_if<Partials>(&message))
    for (const ChunkPartials& c : p->chunks)
      for (const Partial& partial : c.partials) payload.push_back(OwnSum(partial.node, c.chunk));
  if (const auto* r = std::get_if<Results>(&message))
    for (const ChunkResult& c : r->chunks)
      payload.push_back((*memory_.Results(r->step))[static_cast<size_t>(c.chunk.value())]);
  if (const auto* p = std::get_if<Pieces>(&message))
    for (const ChunkResult& c : p->chunks) {
      const auto i = static_cast<size_t>(c.chunk.value());
      payload.push_back(p->kind == PieceKind::kResult ? (*memory_.Results(p->step))[i]
                        : p->kind == PieceKind::kSlot
                            ? memory_.Slots()[static_cast<size_t>(p->slot)][i]
                            : (*memory_.Values(p->step))[i]);
    }
  return payload;
}

// ---- actions on sums and results

Machine::Answer Machine::Do(const FoldIn& a, const SimFrame* frame) {
  const auto c = static_cast<size_t>(a.chunk.value());
  auto& waiting = waiting_[c];
  if (a.own) {
    for (TreeNode node : a.arrived) waiting[node] = OwnSum(node, a.chunk);
  } else {
    const auto& partials = std::get<Partials>(frame->message);
    if (partials.view != member_.sealed())
      outside_.violate("an owner added a partial of another view");
    size_t at = 0;
    for (const ChunkPartials& chunk : partials.chunks)
      for (const Partial& partial : chunk.partials) {
        if (chunk.chunk == a.chunk) waiting[partial.node] = frame->payload[at];
        ++at;
      }
  }
  for (const Fold& fold : a.folds) {
    const Value sum = terms_.Sum(c, waiting[fold.left], waiting[fold.right]);
    waiting.erase(fold.left);
    waiting.erase(fold.right);
    waiting[fold.into] = sum;
  }
  if (!a.total) return std::nullopt;
  const Value sum = waiting[a.total->node];
  waiting.clear();
  if (sum != terms_.WithoutFact(c, a.step, outside_.job->reference.At(a.step).sums[c]))
    outside_.violate(
        absl::StrCat("the sum of chunk ", c, " at step ", a.step.value(), " is another term"));
  (server_mode() ? sums_ : memory_.ReceiveBuffer(a.step))[c] = sum;
  if (terms_.phase(c) && (a.total->weight != 0 || a.total->loss != 0))
    outside_.violate("a phase has a weight or a loss");
  sum_meta_[c] = {a.total->weight, a.total->loss, terms_.SquareOf(c, sum), 0,
                  terms_.IsFinite(a.step, c)};
  return Summed{a.step, a.chunk, sum_meta_[c]};
}

Machine::Answer Machine::Do(const WriteFact& a, const SimFrame*) {
  const auto c = static_cast<size_t>(a.chunk.value());
  Value& sum = (server_mode() ? sums_ : memory_.ReceiveBuffer(a.step))[c];
  sum = Terms::WithFact(sum, a.sums);
  if (sum != outside_.job->reference.At(a.step).sums[c])
    outside_.violate(absl::StrCat("what step ", a.step.value(), " brings is another measure"));
  return Summed{a.step, a.chunk, sum_meta_[c]};
}

Machine::Answer Machine::Do(const KeepParts& a, const SimFrame*) {
  kept_lineage_ = a.lineage;
  return std::nullopt;
}

Machine::Answer Machine::Do(const ForgetSums&, const SimFrame*) {
  for (auto& waiting : waiting_) waiting.clear();
  return std::nullopt;
}

Value Machine::RightResult(Step step, ChunkId chunk) {
  const auto c = static_cast<size_t>(chunk.value());
  return server_mode() ? outside_.job->reference.At(step + 1).values[c]
                       : outside_.job->reference.At(step).sums[c];
}

Machine::Answer Machine::Do(const StoreResults& a, const SimFrame* frame) {
  const std::vector<ChunkResult>* listed = nullptr;
  if (const auto* r = std::get_if<Results>(&frame->message)) listed = &r->chunks;
  if (const auto* p = std::get_if<Pieces>(&frame->message)) listed = &p->chunks;
  for (size_t i = 0; i < listed->size(); ++i) {
    const ChunkId chunk = (*listed)[i].chunk;
    if (std::find(a.chunks.begin(), a.chunks.end(), chunk) == a.chunks.end()) continue;
    memory_.ReceiveBuffer(a.step)[static_cast<size_t>(chunk.value())] = frame->payload[i];
    if (frame->payload[i] != RightResult(a.step, chunk))
      outside_.violate(absl::StrCat("a wrong result of chunk ", chunk.value(), " at step ",
                                    a.step.value(), " stored"));
  }
  return std::nullopt;
}

Machine::Answer Machine::Do(const StorePieces& a, const SimFrame* frame) {
  const auto& pieces = std::get<Pieces>(frame->message);
  const Reference::State& right = outside_.job->reference.At(a.step);
  const auto slot = static_cast<size_t>(a.slot);
  for (size_t i = 0; i < pieces.chunks.size(); ++i) {
    const ChunkId chunk = pieces.chunks[i].chunk;
    if (std::find(a.chunks.begin(), a.chunks.end(), chunk) == a.chunks.end()) continue;
    const auto c = static_cast<size_t>(chunk.value());
    const bool is_slot = a.kind == PieceKind::kSlot;
    (is_slot ? memory_.Slots()[slot] : *memory_.Values(a.step))[c] = frame->payload[i];
    if (frame->payload[i] != (is_slot ? right.slots[slot] : right.values)[c])
      outside_.violate(absl::StrCat("a wrong piece of state(", a.step.value(), ") was copied"));
  }
  return std::nullopt;
}

Machine::Answer Machine::Do(const ApplyChunks& a, const SimFrame*) {
  CheckIsKnown("it applies", a.step, muster::SamplesOf(known_));
  ChunksApplied done{a.step, {}};
  const Reference::State& right = outside_.job->reference.At(a.step);
  const double norm = a.norm.value_or(0);
  for (ChunkId chunk : a.chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    SlotValues& slots = memory_.Slots();
    const Value old = (*memory_.Values(a.step))[c];
    Value& to = memory_.ReceiveBuffer(a.step)[c];
    to = a.skip ? old : terms_.NewValue(a.step, c, old, SlotsOf(slots, c), sums_[c], norm);
    for (size_t s = 0; s < slots.size() && !a.skip; ++s)
      slots[s][c] = terms_.NewSlot(s, slots[s][c], sums_[c], norm);
    if (to != RightResult(a.step, chunk))
      outside_.violate(absl::StrCat(
          "server: chunk ", c, " of state(", a.step.value() + 1, ") is another term (",
          old == right.values[c] ? "" : "old value, ", sums_[c] == right.sums[c] ? "" : "sum, ",
          norm == right.norm ? "" : "norm, ", "slot?)"));
    if (terms_.sum(c)) done.measured = Terms::MeasuredOf(to);
    done.chunks.push_back({chunk, sum_meta_[c]});
    if (a.skip) done.chunks.back().meta.finite = false;
  }
  return done;
}

// ---- actions on the state

Machine::Answer Machine::Do(const Compute& a, const SimFrame*) {
  CheckIsKnown("it runs lanes of", a.step, a.samples);
  const StreamSteps steps = StepsOf(config_.training);
  if (IsStreamed(config_.training) &&
      a.next_is_known != KnownStep(steps, known_, a.step + 1).has_value())
    outside_.violate(absl::StrCat("samples of step ", a.step.value() + 1, " are ",
                                  a.next_is_known ? "" : "not ", "read ahead"));
  compute_id_ = a.id;
  own_final_.assign(own_final_.size(), false);
  own_phases_.clear();
  DoCompute compute{a, member_.lineage(), memory_.Values(a.step), nullptr};
  if (!a.totals.empty()) compute.totals = memory_.Results(a.step);
  train_->Do(std::move(compute));
  return std::nullopt;
}

Machine::Answer Machine::Do(const GiveTotals& a, const SimFrame*) {
  outside_.coverage->Add(Corner::kTotals, static_cast<int64_t>(a.chunks.size()));
  if (!member_.active()) outside_.coverage->Add(Corner::kTotalsWhileForming);
  train_->Do(DoGiveTotals{a, member_.lineage(), memory_.Results(a.step)});
  outside_.at_phase();
  return std::nullopt;
}

Machine::Answer Machine::Do(const Abandon& a, const SimFrame*) {
  compute_id_ = a.id;
  own_sums_.reset();
  own_phases_.clear();
  if (!train_) return Abandoned{a.id};
  train_->AbandonBelow(a.id);
  train_->Do(DoAbandon{a.id});
  return std::nullopt;
}

Machine::Answer Machine::Do(const Apply& a, const SimFrame*) {
  CheckIsKnown("it applies", a.step, a.samples);
  for (const LaneId lane : a.examine) ReadSamples(a.step, lane, a.samples);
  for (int32_t c = 0; c < terms_.chunks(); ++c)
    if ((*memory_.Results(a.step))[static_cast<size_t>(c)] != RightResult(a.step, ChunkId(c)))
      outside_.violate(
          absl::StrCat("step ", a.step.value(), " is applied without the result of chunk ", c));
  if (a.skip != terms_.Skips(a.step))
    outside_.violate(absl::StrCat("step ", a.step.value(), a.skip ? " is skipped" : " is applied"));
  if (a.skip) outside_.coverage->Add(Corner::kSkippedSteps);
  DoApply apply{a, nullptr, {}};
  if (!server_mode()) {
    apply.results = memory_.Results(a.step);
    apply.state = memory_.State(a.step);
  }
  train_->Do(std::move(apply));
  return std::nullopt;
}

Machine::Answer Machine::Do(const StepBoundary& a, const SimFrame*) {
  const SimState state = memory_.State(a.step);
  if (train_) {
    train_->Do(DoStepBoundary{a, member_.lineage(), state});
    return std::nullopt;
  }
  StepBoundaryDone done{a.step, std::nullopt};
  if (a.fingerprint) done.fingerprint = FingerprintOf(terms_, state, OwnChunks(), /*whole=*/false);
  if (!a.part.empty()) Write(CopyPart(terms_, state, member_.lineage(), a.step, a.part));
  return done;
}

std::vector<ChunkId> Machine::OwnChunks() const {
  const View& view = *member_.view();
  std::vector<ChunkId> own;
  for (int32_t c = 0; c < terms_.chunks(); ++c)
    if (view.owner_of[static_cast<size_t>(c)] == view.IndexOf(config_.id)) own.emplace_back(c);
  return own;
}

Machine::Answer Machine::Do(const Make& a, const SimFrame*) {
  if (train_) {
    train_->Do(DoMake{a});
    return std::nullopt;
  }
  outside_.runner->Stall(outside_.schedule->Random(0, 30));  // a server reads on its only thread
  absl::StatusOr<SimState> state = Load(a);
  if (!state.ok()) return Made{state.status()};
  memory_.Restart(a.step, *std::move(state));
  return Made{absl::OkStatus()};
}

Machine::Answer Machine::Do(const MeasureHeld& a, const SimFrame*) {
  train_->Do(DoMeasure{a, memory_.Values(a.step)});
  return std::nullopt;
}

Machine::Answer Machine::Do(const GiveUpMeasure& a, const SimFrame*) {
  train_->AbandonBelow(a.below);
  return std::nullopt;
}

Machine::Answer Machine::Do(const PrepareCopy& a, const SimFrame*) {
  memory_.Restart(a.step, EmptyState(terms_, applies()));
  const bool zero = a.step == Step(0);  // else they come in pieces too
  for (size_t s = 0; applies() && !zero && s < memory_.Slots().size(); ++s)
    std::fill(memory_.Slots()[s].begin(), memory_.Slots()[s].end(), kTorn);
  if (terms_.chunks() > 8) outside_.coverage->Add(Corner::kWideHeals);
  return std::nullopt;
}

Machine::Answer Machine::Do(const DropState&, const SimFrame*) {
  memory_.Drop();
  return std::nullopt;
}

}  // namespace muster::sim
