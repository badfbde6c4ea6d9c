#include "tests/sim/train_thread.h"

#include <algorithm>
#include <utility>

#include "lib/base/lease.h"

namespace muster::sim {
namespace {

constexpr int64_t kLease = kDefaultLease / std::chrono::milliseconds(1);

}  // namespace

TrainThread::TrainThread(Parts parts, Incarnation incarnation)
    : parts_(std::move(parts)), terms_(*parts_.terms) {
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
  if (std::exchange(tree_step_, compute.step) != compute.step) tree_.clear();
  const auto lanes = std::make_shared<Lanes>();
  lanes->command = command;
  lanes->order = compute.lanes;
  // Empty lanes first, as the trainer does it.
  std::stable_partition(lanes->order.begin(), lanes->order.end(),
                        [&](LaneId lane) { return terms_.Weight(compute.step, lane) == 0; });
  RunLane(lanes);
}

void TrainThread::RunLane(const std::shared_ptr<Lanes>& lanes) {
  if (lanes->command.compute.id < abandoned_) return Next();
  Count(lanes->command);
  After(parts_.schedule->Random(1, 40), [this, lanes] { EndLane(lanes); });
}

void TrainThread::EndLane(const std::shared_ptr<Lanes>& lanes) {
  AddLane(lanes->command, lanes->order[lanes->next++]);
  if (lanes->next < lanes->order.size()) return RunLane(lanes);
  lanes->sums = std::make_shared<const SubtreeSums>(tree_);
  Announce(lanes);
}

// Chunks of the last lane become final one after the other.
void TrainThread::Announce(const std::shared_ptr<Lanes>& lanes) {
  After(parts_.schedule->Random(0, 5), [this, lanes] {
    const int32_t all = terms_.chunks();
    const int32_t most = std::max(3, all / 3);
    const int32_t upto =
        std::min(all, lanes->announced + static_cast<int32_t>(parts_.schedule->Random(1, most)));
    Ready ready{lanes->command.compute.id, {}, {}};
    for (int32_t c = std::exchange(lanes->announced, upto); c < upto; ++c)
      ready.chunks.emplace_back(c);
    for (const auto& [node, sum] : *lanes->sums)
      ready.partials.push_back({node, sum.weight, sum.loss, 0});
    parts_.post(GradientsReady{std::move(ready), lanes->sums});
    if (upto < all) return Announce(lanes);
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
void TrainThread::AddLane(const DoCompute& command, LaneId lane) {
  const Step step = command.compute.step;
  const Value whole = terms_.WholeState(*command.values);
  TreeNode at{lane.value(), lane.value() + 1};
  SubtreeSum sum{{}, terms_.Weight(step, lane), terms_.Loss(step, lane)};
  for (size_t c = 0; c < static_cast<size_t>(terms_.chunks()); ++c)
    sum.sums.push_back(terms_.Gradient(whole, step, lane, c));
  while (const std::optional<Family> family = FamilyOf(at, terms_.training().lanes)) {
    const auto found = tree_.extract(family->sibling);
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
  tree_[at] = std::move(sum);
}

void TrainThread::Run(const DoAbandon& command) {
  tree_.clear();
  tree_step_.reset();
  parts_.post(LanesAbandoned{{command.id, count_.total}});
  Next();
}

// ---- the step boundary

// In place, so what reads the state meanwhile reads torn values.
void TrainThread::Run(const DoApply& command) {
  tree_.clear();
  tree_step_.reset();
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

void TrainThread::Run(const DoMake& command) {
  tree_.clear();
  tree_step_.reset();
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
