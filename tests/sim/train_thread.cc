#include "tests/sim/train_thread.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/lease.h"

namespace muster::sim {
namespace {

constexpr int64_t kLease = kDefaultLease / std::chrono::milliseconds(1);

}  // namespace

TrainThread::TrainThread(Parts parts, Incarnation incarnation)
    : parts_(std::move(parts)), terms_(*parts_.terms), order_(terms_.SyncOrder()) {
  count_.incarnation = incarnation;
}

void TrainThread::Do(TrainCommand command) {
  commands_.push_back(std::move(command));
  if (!busy_) Next();
}

void TrainThread::Next() {
  busy_ = !commands_.empty();
  went_on_at_ = parts_.schedule->now();
  if (!busy_ || hangs_) return;
  const TrainCommand command = std::move(commands_.front());
  commands_.pop_front();
  std::visit([this](const auto& c) { Run(c); }, command);
}

void TrainThread::After(int64_t delay, std::function<void()> run) {
  parts_.runner->Later(delay, [this, run = std::move(run)] {
    if (hangs_) return;
    went_on_at_ = parts_.schedule->now();
    run();
  });
}

// ---- lanes

void TrainThread::Run(const DoCompute& command) {
  const Compute& compute = command.compute;
  if (compute.id < abandoned_) return Next();
  if (lanes_ && lanes_->command.compute.step != compute.step) lanes_.reset();
  if (!lanes_) lanes_.emplace();
  lanes_->command = command;
  lanes_->told.clear();
  lanes_->announced = 0;
  lanes_->is_done = false;
  std::vector<LaneId> added = compute.lanes;
  // Empty lanes first, as the trainer does it.
  std::stable_partition(added.begin(), added.end(),
                        [&](LaneId lane) { return terms_.Weight(compute.step, lane) == 0; });
  for (LaneId lane : added) {
    if (std::find(lanes_->all.begin(), lanes_->all.end(), lane) != lanes_->all.end()) {
      parts_.violate(absl::StrCat("lane ", lane.value(), " is to be run again"));
      continue;
    }
    lanes_->running.push_back({lane, terms_.Weight(compute.step, lane) == 0});
    lanes_->all.push_back(lane);
    if (!compute.totals.empty()) parts_.coverage->Add(Corner::kLanesWithTotals);
  }
  Learn(compute.totals, command.totals);
  GoOn();
}

void TrainThread::Run(const DoGiveTotals& command) {
  if (!lanes_ || lanes_->command.compute.id < abandoned_) return Next();
  const DoCompute& ours = lanes_->command;
  if (command.given.step != ours.compute.step || command.lineage != ours.lineage)
    parts_.violate("lanes are given totals of another step or lineage");
  for (ChunkId c : command.given.chunks)
    if (lanes_->totals.contains(static_cast<size_t>(c.value())))
      parts_.violate("lanes are given a total twice");
  Learn(command.given.chunks, command.totals);
  GoOn();
}

void TrainThread::Learn(const std::vector<ChunkId>& chunks, const Buffer& values) {
  for (ChunkId chunk : chunks) {
    const auto c = static_cast<size_t>(chunk.value());
    const Value total = (*values)[c];
    if (!parts_.is_total(lanes_->command.compute.step, chunk, total))
      parts_.violate(absl::StrCat("lanes are given another total of chunk ", c));
    lanes_->totals[c] = total;
  }
}

// Lets a lane go on, if one can: the one that is at the earliest phase.
void TrainThread::GoOn() {
  if (lanes_->command.compute.id < abandoned_) return Next();
  TellPhases();
  if (Lane* lane = WhoCanGoOn()) {
    if (!std::exchange(lane->is_begun, true)) {
      parts_.read(lanes_->command.compute, lane->id);
      Count(lanes_->command);
    }
    const int64_t most = 40 / static_cast<int64_t>(order_.size() + 1);
    return After(parts_.schedule->Random(1, most), [this, id = lane->id] { EndSegment(id); });
  }
  const bool ends = !lanes_->is_done && lanes_->running.empty() && HasAllTotals();
  if (!ends) return Next();  // for who waits a total is a command
  lanes_->sums = std::make_shared<const SubtreeSums>(lanes_->tree);
  Announce();
}

TrainThread::Lane* TrainThread::WhoCanGoOn() {
  Lane* first = nullptr;
  for (Lane& lane : lanes_->running) {
    const bool waits =
        !lane.is_empty && lane.at > 0 && !lanes_->totals.contains(order_[lane.at - 1]);
    if (!waits && (first == nullptr || lane.at < first->at)) first = &lane;
  }
  return first;
}

// It has come to its next phase, or to its end.
void TrainThread::EndSegment(LaneId id) {
  if (lanes_->command.compute.id < abandoned_) return Next();
  const auto at = std::find_if(lanes_->running.begin(), lanes_->running.end(),
                               [&](const Lane& lane) { return lane.id == id; });
  Lane& lane = *at;
  if (lane.at > 0)
    lane.totals = Terms::WithTotal(lane.totals, lanes_->totals.at(order_[lane.at - 1]));
  if (!lane.is_empty && lane.at < order_.size()) {
    Bring(lane);
  } else {
    AddLane(lane);
    lanes_->running.erase(at);
  }
  GoOn();
}

void TrainThread::Bring(Lane& lane) {
  const Step step = lanes_->command.compute.step;
  const Value whole = terms_.WholeState(*lanes_->command.values);
  lanes_->brought[order_[lane.at]][lane.id] =
      terms_.Brings(whole, step, lane.id, lane.at, lane.totals);
  ++lane.at;
}

bool TrainThread::HasAllTotals() const {
  return std::all_of(order_.begin(), order_.end(),
                     [&](size_t c) { return lanes_->totals.contains(c); });
}

// Of phases that all our lanes have brought; empty ones, and all to a phase that none meets, bring
// nothing.
void TrainThread::TellPhases() {
  const Compute& compute = lanes_->command.compute;
  for (size_t c = 0; c < static_cast<size_t>(terms_.chunks()); ++c) {
    if (!terms_.phase(c) || lanes_->told.contains(c)) continue;
    const bool is_met = std::find(order_.begin(), order_.end(), c) != order_.end();
    auto& brought = lanes_->brought[c];
    for (LaneId lane : lanes_->all)
      if (!is_met || terms_.Weight(compute.step, lane) == 0) brought[lane] = Terms::kBringsNothing;
    if (brought.size() < lanes_->all.size()) continue;
    lanes_->told.insert(c);
    const ChunkId chunk(static_cast<int32_t>(c));
    GradientsReady event{{compute.id, {chunk}, {}}, nullptr, {}};
    for (TreeNode node : compute.subtrees) {
      event.ready.partials.push_back({node, 0, 0, 0});
      event.phases[{chunk, node}] = TermsOver(c, node);
    }
    parts_.post(std::move(event));
  }
}

Value TrainThread::TermsOver(size_t chunk, TreeNode node) const {
  if (node.lanes() == 1) return lanes_->brought.at(chunk).at(LaneId(node.lo));
  const int32_t mid = SplitPoint(node);
  return terms_.Sum(chunk, TermsOver(chunk, {node.lo, mid}), TermsOver(chunk, {mid, node.hi}));
}

// Chunks of the last lane become final one after the other.
void TrainThread::Announce() {
  After(parts_.schedule->Random(0, 5), [this] {
    const int32_t all = terms_.gradient_chunks();
    const int32_t most = std::max(3, all / 3);
    const int32_t upto =
        std::min(all, lanes_->announced + static_cast<int32_t>(parts_.schedule->Random(1, most)));
    Ready ready{lanes_->command.compute.id, {}, {}};
    for (int32_t c = std::exchange(lanes_->announced, upto); c < upto; ++c)
      ready.chunks.emplace_back(c);
    for (const auto& [node, sum] : *lanes_->sums)
      ready.partials.push_back({node, sum.weight, sum.loss, 0});
    parts_.post(GradientsReady{std::move(ready), lanes_->sums, {}});
    if (upto < all) return Announce();
    lanes_->is_done = true;
    Next();
  });
}

void TrainThread::Count(const DoCompute& command) {
  if (count_.step != command.compute.step || count_.lineage != command.lineage) count_.in_step = 0;
  count_.lineage = command.lineage;
  count_.step = command.compute.step;
  ++count_.total;
  ++count_.in_step;
}

// Sums up the tree as far as both children are ours.
void TrainThread::AddLane(const Lane& lane) {
  const Step step = lanes_->command.compute.step;
  const Value whole = terms_.WholeState(*lanes_->command.values);
  TreeNode at{lane.id.value(), lane.id.value() + 1};
  SubtreeSum sum{{}, terms_.Weight(step, lane.id), terms_.Loss(step, lane.id)};
  for (size_t c = 0; c < static_cast<size_t>(terms_.chunks()); ++c)
    sum.sums.push_back(terms_.Gradient(whole, step, lane.id, c, lane.totals));
  while (const std::optional<Family> family = FamilyOf(at, terms_.training().lanes)) {
    const auto found = lanes_->tree.extract(family->sibling);
    if (found.empty()) break;
    const bool first = at < family->sibling;
    const SubtreeSum& left = first ? sum : found.mapped();
    const SubtreeSum& right = first ? found.mapped() : sum;
    SubtreeSum parent{{}, left.weight + right.weight, left.loss + right.loss};
    for (size_t c = 0; c < left.sums.size(); ++c)
      parent.sums.push_back(terms_.Sum(c, left.sums[c], right.sums[c]));
    sum = std::move(parent);
    at = family->parent;
  }
  lanes_->tree[at] = std::move(sum);
}

void TrainThread::Run(const DoAbandon& command) {
  lanes_.reset();
  parts_.post(LanesAbandoned{{command.id, count_.total}});
  Next();
}

// ---- the step boundary

// In place, so what reads the state meanwhile reads torn values.
void TrainThread::Run(const DoApply& command) {
  lanes_.reset();
  const auto before = std::make_shared<std::vector<Value>>();
  if (command.results) {
    *before = *command.state.values;
    std::fill(command.state.values->begin(), command.state.values->end(), kTorn);
  }
  After(parts_.schedule->Random(0, 6), [this, command, before] {
    const double norm = command.apply.norm.value_or(0);
    if (command.results && command.apply.skip) *command.state.values = *before;
    for (size_t c = 0; !command.apply.skip && command.results && c < before->size(); ++c) {
      SlotValues& slots = *command.state.slots;
      const Value result = (*command.results)[c];
      (*command.state.values)[c] =
          terms_.NewValue(command.apply.step, c, (*before)[c], SlotsOf(slots, c), result, norm);
      for (size_t s = 0; s < slots.size(); ++s)
        slots[s][c] = terms_.NewSlot(s, slots[s][c], result, norm);
    }
    // Each of these lanes may be the one.
    parts_.post(StateApplied{command.apply.step, command.state, command.apply.examine});
    Next();
  });
}

void TrainThread::Run(const DoStepBoundary& command) {
  // Fingerprints and copies of a large state take their time.
  const bool slow = parts_.schedule->OneIn(60);
  const int64_t least = command.boundary.fingerprint ? parts_.fingerprint_ms : 0;
  const int64_t most = slow ? 800 : 3;
  After(least + parts_.schedule->Random(0, most), [this, command] {
    StepBoundaryTaken taken{{command.boundary.step, std::nullopt}, std::nullopt};
    std::vector<ChunkId> all;
    for (int32_t c = 0; c < terms_.chunks(); ++c) all.emplace_back(c);
    if (command.boundary.fingerprint)
      taken.done.fingerprint = FingerprintOf(terms_, command.state, all, /*whole=*/true);
    if (!command.boundary.part.empty())
      taken.part = CopyPart(terms_, command.state, command.lineage, command.boundary.step,
                            command.boundary.part);
    parts_.post(std::move(taken));
    Next();
  });
}

// Now and then it takes much longer than anything else, with a look at what goes on after each
// batch.
void TrainThread::Run(const DoMeasure& command) {
  GoOnMeasuring(command, parts_.schedule->OneIn(10) ? parts_.schedule->Random(10, 100)
                                                    : parts_.schedule->Random(1, 5));
}

void TrainThread::GoOnMeasuring(const DoMeasure& command, int64_t batches) {
  if (command.measure.id < abandoned_) return Next();
  if (batches > 0)
    return After(parts_.schedule->Random(1, 40),
                 [this, command, batches] { GoOnMeasuring(command, batches - 1); });
  const Value whole = terms_.WholeState(*command.values);
  parts_.post(StateMeasured{{command.measure.id, terms_.FactOf(whole, command.measure.step)}});
  Next();
}

void TrainThread::Run(const DoMake& command) {
  lanes_.reset();
  // A large state is not there within a lease.
  const bool large = parts_.schedule->OneIn(20);
  const int64_t takes =
      large ? parts_.schedule->Random(kLease, 2 * kLease) : parts_.schedule->Random(1, 30);
  After(takes, [this, command, large] {
    if (large) parts_.busy_beyond_lease();
    absl::StatusOr<SimState> state = parts_.load(command.make);
    StateMade made{state.status(), command.make.step, {}};
    if (state.ok()) made.state = *std::move(state);
    parts_.post(std::move(made));
    Next();
  });
}

}  // namespace muster::sim
