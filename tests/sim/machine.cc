#include "tests/sim/machine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::sim {

Machine::Machine(MemberConfig config, Surroundings world)
    : config_(config), world_(std::move(world)), member_(config) {
  const auto n = static_cast<size_t>(chunks());
  for (auto* v :
       {&values_, &slots_, &results_[0], &results_[1], &generation_[0], &generation_[1], &sums_})
    v->assign(n, 0);
  waiting_.resize(n);
  count_.incarnation = config.id.incarnation;
}

void Machine::Input(const muster::Input& input) {
  work_.push_back({input, std::nullopt});
  if (!working_) DoWork();
}

void Machine::Deliver(const MemberId& from, SimFrame frame) {
  const PeerMessage message = frame.message;
  work_.push_back({PeerSays{from, message}, std::move(frame)});
  if (!working_) DoWork();
}

// Inputs one after the other; answers to actions come before anything else; held frames again after
// a change.
void Machine::DoWork() {
  working_ = true;
  while (!work_.empty()) {
    const Work work = std::move(work_.front());
    work_.pop_front();
    const int64_t edition = member_.edition();
    frame_ = work.frame ? &*work.frame : nullptr;
    const Outcome outcome = member_.Handle(work.input);
    if (outcome.fate == Fate::kHold)
      held_[std::get<PeerSays>(work.input).from].push_back(*work.frame);
    if (outcome.fate == Fate::kRefused)
      world_.violate(absl::StrCat("a message of a sound member was refused: ", outcome.reason));
    for (const Action& action : outcome.actions)
      std::visit([this](const auto& a) { Act(a); }, action);
    frame_ = nullptr;
    CheckInvariants();
    if (edition == member_.edition()) continue;
    for (auto& [from, frames] : std::exchange(held_, {}))
      for (SimFrame& frame : frames) work_.push_back({PeerSays{from, frame.message}, frame});
  }
  working_ = false;
}

void Machine::SessionUp(const MemberId& peer) {
  held_.erase(peer);
  Input(PeerUp{peer});
}
void Machine::SessionDown(const MemberId& peer) {
  held_.erase(peer);
  Input(PeerDown{peer});
}

// ---- actions

void Machine::Act(const Connect& a) { world_.connect(a.peers); }

void Machine::Act(const TellCoordinator& a) { world_.tell(a.message); }

void Machine::Act(const Quit& a) { world_.quit(a.exit_code, a.reason); }

void Machine::Act(const Send& a) {
  if (const auto* p = std::get_if<Partials>(&a.message); p != nullptr && p->view < member_.sealed())
    world_.violate(
        absl::StrCat("partials were sent in view ", p->view.value(), ", which is sealed"));
  world_.send(a.to, SimFrame{a.message, PayloadOf(a.message)});
}

std::vector<Value> Machine::PayloadOf(const PeerMessage& message) {
  std::vector<Value> payload;
  if (const auto* p = std::get_if<Partials>(&message))
    for (const ChunkPartials& c : p->chunks)
      for (const Partial& partial : c.partials) {
        const auto it = gradients_.find(partial.node);
        payload.push_back(
            it == gradients_.end() ? 0 : it->second[static_cast<size_t>(c.chunk.value())]);
      }
  if (const auto* r = std::get_if<Results>(&message))
    for (const ChunkResult& c : r->chunks)
      payload.push_back(ReceiveBuffer(r->step)[static_cast<size_t>(c.chunk.value())]);
  if (const auto* p = std::get_if<Pieces>(&message))
    for (const ChunkResult& c : p->chunks) {
      const auto i = static_cast<size_t>(c.chunk.value());
      payload.push_back(p->kind == PieceKind::kResult ? ReceiveBuffer(p->step)[i]
                        : p->kind == PieceKind::kSlot ? slots_[i]
                                                      : Values(p->step)[i]);
    }
  return payload;
}

void Machine::Act(const FoldIn& a) {
  const auto c = static_cast<size_t>(a.chunk.value());
  auto& waiting = waiting_[c];
  if (a.own) {
    for (TreeNode node : a.arrived) waiting[node] = gradients_.at(node)[c];
  } else {
    const auto& partials = std::get<Partials>(frame_->message);
    if (partials.view != member_.sealed())
      world_.violate("an owner added a partial of another view");
    size_t at = 0;
    for (const ChunkPartials& chunk : partials.chunks)
      for (const Partial& partial : chunk.partials) {
        if (chunk.chunk == a.chunk) waiting[partial.node] = frame_->payload[at];
        ++at;
      }
  }
  for (const Fold& fold : a.folds) {
    const Value sum = Sum(waiting[fold.left], waiting[fold.right]);
    waiting.erase(fold.left);
    waiting.erase(fold.right);
    waiting[fold.into] = sum;
  }
  if (!a.total) return;
  const Value sum = waiting[a.total->node];
  waiting.clear();
  if (sum != world_.reference->At(a.step).sums[c])
    world_.violate(
        absl::StrCat("the sum of chunk ", c, " at step ", a.step.value(), " is another term"));
  (server_mode() ? sums_ : ReceiveBuffer(a.step))[c] = sum;
  Answer(Summed{a.step, a.chunk, {a.total->weight, a.total->loss, SquareOf(sum), 0}});
}

void Machine::Act(const ForgetSums&) {
  for (auto& w : waiting_) w.clear();
}

Value Machine::ResultOf(Step step, int32_t chunk) {
  const auto c = static_cast<size_t>(chunk);
  return server_mode() ? world_.reference->At(step + 1).values[c]
                       : world_.reference->At(step).sums[c];
}

void Machine::Act(const StoreResults& a) {
  for (ChunkId chunk : a.chunks) {
    const std::vector<ChunkResult>* listed = nullptr;
    if (const auto* r = std::get_if<Results>(&frame_->message)) listed = &r->chunks;
    if (const auto* p = std::get_if<Pieces>(&frame_->message)) listed = &p->chunks;
    for (size_t i = 0; i < listed->size(); ++i) {
      if ((*listed)[i].chunk != chunk) continue;
      ReceiveBuffer(a.step)[static_cast<size_t>(chunk.value())] = frame_->payload[i];
      if (frame_->payload[i] != ResultOf(a.step, chunk.value()))
        world_.violate(absl::StrCat("a wrong result of chunk ", chunk.value(), " at step ",
                                    a.step.value(), " landed"));
    }
  }
}

void Machine::Act(const StorePieces& a) {
  const auto& pieces = std::get<Pieces>(frame_->message);
  for (size_t i = 0; i < pieces.chunks.size(); ++i) {
    const ChunkId chunk = pieces.chunks[i].chunk;
    if (std::find(a.chunks.begin(), a.chunks.end(), chunk) == a.chunks.end()) continue;
    const auto c = static_cast<size_t>(chunk.value());
    const auto& ref = world_.reference->At(a.step);
    (a.kind == PieceKind::kSlot ? slots_ : Values(a.step))[c] = frame_->payload[i];
    if (frame_->payload[i] != (a.kind == PieceKind::kSlot ? ref.slots : ref.values)[c])
      world_.violate(absl::StrCat("a wrong piece of state(", a.step.value(), ") was copied"));
  }
}

void Machine::Act(const PrepareCopy& a) {
  for (size_t c = 0; c < slots_.size(); ++c)
    slots_[c] = a.step == Step(0) ? ZeroSlot(static_cast<int32_t>(c)) : kTorn;
}

void Machine::Act(const ApplyChunks& a) {
  ChunksApplied done{a.step, {}};
  for (ChunkId chunk : a.chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    const Value old = Values(a.step)[c];
    ReceiveBuffer(a.step)[c] = NewValue(old, slots_[c], sums_[c], a.norm.value_or(0));
    slots_[c] = NewSlot(slots_[c], sums_[c], a.norm.value_or(0));
    if (ReceiveBuffer(a.step)[c] != ResultOf(a.step, chunk.value()))
      world_.violate(absl::StrCat(
          "server: chunk ", c, " of state(", a.step.value() + 1, ") is another term (",
          old == world_.reference->At(a.step).values[c] ? "" : "old value, ",
          sums_[c] == world_.reference->At(a.step).sums[c] ? "" : "sum, ",
          a.norm.value_or(0) == world_.reference->At(a.step).norm ? "" : "norm, ", "slot?)"));
    done.chunks.push_back({chunk, {config_.training.lanes, 0, 0, 0}});
  }
  Answer(std::move(done));
}

// ---- the train thread

void Machine::Act(const Compute& a) { Train({a}); }
void Machine::Act(const Apply& a) { Train({a}); }
void Machine::Act(const Make& a) { Train({a}); }
void Machine::Act(const StepBoundary& a) {
  if (config_.role == Role::kServer) return DoStepBoundary(a);
  Train({a});
}

void Machine::Act(const Abandon& a) {
  ++epoch_;
  gradients_.clear();
  commands_.erase(
      std::remove_if(commands_.begin(), commands_.end(),
                     [](const Command& c) { return std::holds_alternative<Compute>(c.what); }),
      commands_.end());
  Train({a});
}

void Machine::Run(const Abandon& a) {
  Input(Abandoned{a.id, count_.total});
  NextCommand();
}

void Machine::Train(Command command) {
  commands_.push_back(std::move(command));
  if (!busy_) NextCommand();
}

void Machine::NextCommand() {
  if (commands_.empty()) {
    busy_ = false;
    return;
  }
  busy_ = true;
  const Command command = std::move(commands_.front());
  commands_.pop_front();
  std::visit([this](const auto& c) { Run(c); }, command.what);
}

void Machine::Run(const Compute& c) { RunLane(c, 0); }

void Machine::RunLane(Compute command, size_t index) {
  if (count_.step != command.step || count_.lineage != member_.lineage()) count_.in_step = 0;
  count_.lineage = member_.lineage();
  count_.step = command.step;
  ++count_.total;
  ++count_.in_step;
  const int64_t epoch = epoch_;
  world_.later(world_.random(1, 40), [this, command, index, epoch] {
    if (epoch != epoch_) return NextCommand();
    auto& leaf = gradients_[{command.lanes[index].value(), command.lanes[index].value() + 1}];
    leaf.assign(static_cast<size_t>(chunks()), 0);
    const Value whole = WholeState(Values(command.step));
    for (int32_t c = 0; c < chunks(); ++c)
      leaf[static_cast<size_t>(c)] = Gradient(whole, command.step, command.lanes[index], c);
    FoldLanes();
    if (index + 1 < command.lanes.size()) return RunLane(command, index + 1);
    Announce(command, 0);
  });
}

// Sums up the tree as far as both children are ours.
void Machine::FoldLanes() {
  for (bool again = true; again;) {
    again = false;
    for (const auto& [node, values] : gradients_) {
      const auto family = FamilyOf(node, config_.training.lanes);
      if (!family || gradients_.count(family->sibling) == 0) continue;
      const TreeNode left = std::min(node, family->sibling),
                     right = std::max(node, family->sibling);
      std::vector<Value> sum;
      for (size_t c = 0; c < values.size(); ++c)
        sum.push_back(Sum(gradients_[left][c], gradients_[right][c]));
      const TreeNode parent = family->parent;
      gradients_.erase(left);
      gradients_.erase(right);
      gradients_[parent] = std::move(sum);
      again = true;
      break;
    }
  }
}

void Machine::Announce(Compute command, int32_t from) {
  const int64_t epoch = epoch_;
  world_.later(world_.random(0, 5), [this, command, from, epoch] {
    if (epoch != epoch_) return NextCommand();
    const int32_t upto = std::min(chunks(), from + 1 + static_cast<int32_t>(world_.random(0, 2)));
    Ready ready{command.id, {}, {}};
    for (int32_t c = from; c < upto; ++c) ready.chunks.emplace_back(c);
    for (TreeNode node : command.subtrees) ready.partials.push_back({node, node.lanes(), 0.0, 0});
    if (upto == chunks()) {
      Input(ready);
      return NextCommand();
    }
    Input(ready);
    Announce(command, upto);
  });
}

void Machine::Run(const Apply& a) {
  const std::vector<Value> old = Values(a.step);
  if (!server_mode()) {
    for (int32_t c = 0; c < chunks(); ++c)
      if (ReceiveBuffer(a.step)[static_cast<size_t>(c)] != ResultOf(a.step, c))
        world_.violate(
            absl::StrCat("step ", a.step.value(), " is applied without the result of chunk ", c));
    values_.assign(values_.size(), kTorn);
  } else {
    for (int32_t c = 0; c < chunks(); ++c)
      if (ReceiveBuffer(a.step)[static_cast<size_t>(c)] != ResultOf(a.step, c))
        world_.violate(
            absl::StrCat("step ", a.step.value(), " is switched without the result of chunk ", c));
  }
  world_.later(world_.random(0, 6), [this, a, old] {
    if (!server_mode())
      for (size_t c = 0; c < old.size(); ++c) {
        values_[c] = NewValue(old[c], slots_[c], ReceiveBuffer(a.step)[c], a.norm.value_or(0));
        slots_[c] = NewSlot(slots_[c], ReceiveBuffer(a.step)[c], a.norm.value_or(0));
      }
    gradients_.clear();
    if (Values(a.step + 1) != world_.reference->At(a.step + 1).values)
      world_.violate(absl::StrCat("state(", a.step.value() + 1, ") is another term"));
    Input(Applied{a.step});
    NextCommand();
  });
}

void Machine::Run(const StepBoundary& a) {
  DoStepBoundary(a);
  NextCommand();
}

void Machine::DoStepBoundary(const StepBoundary& a) {
  StepBoundaryDone done{a.step, std::nullopt};
  if (a.fingerprint) {
    FingerprintPart part;
    part.whole = !server_mode();
    for (size_t c = 0; c < slots_.size(); ++c) {
      if (server_mode() && member_.view()->owner_of[c] != member_.view()->IndexOf(config_.id))
        continue;
      part.lo += Mix64(Values(a.step)[c], slots_[c]);
    }
    done.fingerprint = part;
  }
  if (!a.part.empty()) {
    SegmentWritten written;
    written.lineage = member_.lineage();
    written.step = a.step;
    written.segment.file =
        absl::StrCat("s", a.step.value(), "-l", member_.lineage().value(), "/", config_.id.name,
                     "-", config_.id.incarnation.hi, "-", ++segments_);
    std::map<std::pair<int32_t, int32_t>, Value> content;
    for (ChunkId c : a.part)
      for (int32_t slot = 0; slot <= config_.slots; ++slot) {
        content[{slot, c.value()}] = slot == 0 ? Values(a.step)[static_cast<size_t>(c.value())]
                                               : slots_[static_cast<size_t>(c.value())];
        written.segment.entries.push_back({slot, c, 0, 4, 0});
      }
    const bool lost = world_.fails();
    world_.later(world_.random(1, 80), [this, lost, written, content] {
      if (lost) return Input(SegmentFailed{written.lineage, written.step, "no space"});
      (*world_.disk)[written.segment.file] = content;
      Input(written);
    });
  }
  Input(done);
}

void Machine::Run(const Make& a) {
  world_.later(world_.random(1, 30), [this, a] {
    for (ChunkId chunk : a.chunks) {
      const auto c = static_cast<size_t>(chunk.value());
      Values(a.step)[c] = Initial(chunk.value());
      slots_[c] = ZeroSlot(chunk.value());
      if (!a.manifest) continue;
      for (const Segment& segment : a.manifest->segments) {
        const auto file = world_.disk->find(segment.file);
        if (file == world_.disk->end())
          return world_.violate(
              absl::StrCat("a manifest names ", segment.file, ", which nobody wrote"));
        for (const SegmentEntry& e : segment.entries)
          if (e.chunk == chunk)
            (e.slot == 0 ? Values(a.step) : slots_)[c] = file->second.at({e.slot, chunk.value()});
      }
      if (Values(a.step)[c] != world_.reference->At(a.step).values[c] ||
          slots_[c] != world_.reference->At(a.step).slots[c])
        world_.violate(
            absl::StrCat("a checkpoint of state(", a.step.value(), ") held another term"));
    }
    Input(Made{});
    NextCommand();
  });
}

void Machine::CheckInvariants() {
  if (!member_.active() || !member_.has_state() || busy_) return;
  const View& view = *member_.view();
  if (member_.lineage() != view.lineage)
    world_.violate(absl::StrCat("a state of lineage ", member_.lineage().value(),
                                " is used in a view of lineage ", view.lineage.value()));
}

}  // namespace muster::sim
