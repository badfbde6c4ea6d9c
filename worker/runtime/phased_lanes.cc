#include "worker/runtime/phased_lanes.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/domain/lanes.h"
#include "lib/kernels/finite.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {
namespace {

PhaseList ListOf(const Layout& layout, std::vector<size_t> order) {
  PhaseList list;
  for (const PhasePlace& place : layout.phases())
    list.all.push_back(layout.tensors()[place.tensor].spec);
  list.order = std::move(order);
  return list;
}

}  // namespace

Exchange AloneIn(const std::vector<TensorSpec>& phases, std::vector<size_t>& met) {
  auto kept = std::make_shared<std::deque<std::vector<float>>>();
  return [&phases, &met, kept](
             size_t phase,
             absl::Span<const float> terms) -> absl::StatusOr<absl::Span<const float>> {
    if (phase >= phases.size() || terms.size() != static_cast<size_t>(phases[phase].Elements()))
      return absl::FailedPreconditionError(
          absl::StrCat("the task brings ", terms.size(), " terms to phase ", phase,
                       ", which is none of its ", phases.size(), ", or has another size"));
    if (std::find(met.begin(), met.end(), phase) != met.end())
      return absl::FailedPreconditionError(
          absl::StrCat("layer ", LayerOfPhase(phases[phase].name),
                       " is called twice: with sync_batch_norm a lane calls each layer once"));
    met.push_back(phase);
    return kept->emplace_back(terms.begin(), terms.end());  // lint: not tensor bytes (of one lane)
  };
}

PhasedLanes::PhasedLanes(const GradientWay& way, LaneRunner& runner, const TrainPort& port,
                         int32_t lanes, std::vector<size_t> order)
    : way_(way),
      layout_(*way.layout),
      runner_(runner),
      port_(port),
      lanes_of_job_(lanes),
      meeting_(ListOf(layout_, std::move(order)), [] { SetFloatEnvironment(); }) {
  for (size_t p = 0; p < layout_.phases().size(); ++p) {
    const PhasePlace& place = layout_.phases()[p];
    for (int32_t c = 0; c < place.chunks; ++c)
      phase_of_[ChunkId(place.first_chunk.value() + c)] = p;
  }
  Forget();
}

absl::Span<float> PhasedLanes::In(const FlatBuffer& flat, size_t phase) const {
  const Placed& placed = layout_.tensors()[layout_.phases()[phase].tensor];
  return flat.all().subspan(static_cast<size_t>(placed.offset), static_cast<size_t>(placed.count));
}

void PhasedLanes::Forget() {
  meeting_.GiveUp();
  held_.clear();
  totals_.clear();
  missing_.clear();
  for (const PhasePlace& place : layout_.phases()) missing_.push_back(place.chunks);
  has_chunk_.assign(static_cast<size_t>(layout_.chunk_count()), false);
}

// ---- commands

absl::Status PhasedLanes::Compute(const DoCompute& command) {
  step_ = command.compute.step;
  compute_ = command.compute.id;
  meeting_.Begin(step_);
  is_told_.assign(layout_.phases().size(), false);
  Take(command.compute.totals, command.totals);
  for (const LaneId lane : command.compute.lanes) {
    if (compute_ < port_.abandoned) return absl::OkStatus();
    MUSTER_RETURN_IF_ERROR(StartLane(command, lane));
  }
  return GoOn();
}

absl::Status PhasedLanes::Give(const DoGiveTotals& command) {
  if (meeting_.IsEmpty() || command.given.step != step_) return absl::OkStatus();
  Take(command.given.chunks, command.totals);
  return GoOn();
}

absl::Status PhasedLanes::StartLane(const DoCompute& command, LaneId lane) {
  Held& held = held_[lane];
  held.gradient = way_.tree->NewLeaf();
  way_.goes_on();
  MUSTER_RETURN_IF_ERROR(
      runner_.Begin(command.lineage, step_, lane, command.values->all(), held.gradient->all()));
  const auto run = [this, &held, lane, step = step_,
                    values = command.values](const Exchange& exchange) {
    const auto meet = [this, &exchange](size_t phase, absl::Span<const float> terms) {
      way_.goes_on();
      way_.failpoints->Pass("phase");
      return exchange(phase, terms);
    };
    return runner_.RunBegun(step, lane, values->all(), SinkOf(held), meet);
  };
  if (!runner_.Empty(step_, lane)) {
    meeting_.Add(lane, run);
    return absl::OkStatus();
  }
  meeting_.AddEmpty(lane);
  return run({}).status();
}

void PhasedLanes::Take(absl::Span<const ChunkId> chunks, const FlatPtr& totals) {
  if (!chunks.empty()) totals_.push_back(totals);
  for (const ChunkId chunk : chunks) {
    const auto found = phase_of_.find(chunk);
    if (found == phase_of_.end() || has_chunk_[static_cast<size_t>(chunk.value())]) continue;
    has_chunk_[static_cast<size_t>(chunk.value())] = true;
    const size_t phase = found->second;
    if (--missing_[phase] == 0) meeting_.Give(phase, In(*totals, phase));
  }
}

// ---- lanes

absl::Status PhasedLanes::GoOn() {
  TellPhases();
  while (compute_ >= port_.abandoned && !held_.empty()) {
    if (MayLeave()) FoldEnded();
    const auto last = held_.begin();
    const bool leaves = MayLeave() && held_.size() == 1;
    if (leaves && !last->second.leaving) LetLeave(last->first, last->second);
    if (leaves && meeting_.HasEnded(last->first)) {
      held_.clear();
      way_.tree->Publish();
      break;
    }
    const std::optional<LaneId> next = meeting_.Next();
    if (!next) break;
    way_.goes_on();
    MUSTER_RETURN_IF_ERROR(meeting_.Run(*next));
    TellPhases();
  }
  return absl::OkStatus();
}

// Sooner, a phase would wait behind gradients on its way, and with it every lane.
bool PhasedLanes::MayLeave() const {
  return meeting_.HasAllTotals() &&
         std::find(is_told_.begin(), is_told_.end(), false) == is_told_.end();
}

// All but the last lane, which takes the sums with it.
void PhasedLanes::FoldEnded() {
  for (auto it = held_.begin(); it != held_.end() && held_.size() > 1;) {
    Held& held = it->second;
    if (meeting_.HasEnded(it->first)) {
      way_.tree->Add(it->first, std::move(held.gradient), held.outcome->weight, held.outcome->loss);
      it = held_.erase(it);
    } else {
      ++it;
    }
  }
}

// What it has told so far is told again, to whom it goes from now on.
void PhasedLanes::LetLeave(LaneId lane, Held& held) {
  held.leaving = std::make_unique<LeavingLane>(way_, compute_, lane, held.gradient);
  if (!held.outcome) return;
  held.leaving->Outcome(*held.outcome);
  for (const size_t tensor : held.final_tensors) held.leaving->Final(tensor);
}

GradientSink PhasedLanes::SinkOf(Held& held) {
  return {held.gradient->all(),
          [&held](LaneOutput output) {
            if (held.leaving) return held.leaving->Outcome(output);
            held.outcome = std::move(output);
          },
          [this, &held](size_t tensor) {
            if (held.leaving) return held.leaving->Final(tensor);
            way_.goes_on();
            held.final_tensors.push_back(tensor);
          }};
}

// ---- phases

void PhasedLanes::TellPhases() {
  for (size_t p = 0; p < is_told_.size(); ++p)
    if (!is_told_[p] && meeting_.HaveAllBrought(p)) Tell(p);
}

void PhasedLanes::Tell(size_t phase) {
  is_told_[phase] = true;
  const PhasePlace& place = layout_.phases()[phase];
  const Placed& placed = layout_.tensors()[place.tensor];
  GradientsReady ready;
  ready.ready.id = compute_;
  const auto chunk = [&](int32_t c) { return ChunkId(place.first_chunk.value() + c); };
  int64_t floats = 0;
  for (int32_t c = 0; c < place.chunks; ++c) {
    ready.ready.chunks.push_back(chunk(c));
    floats += layout_.chunk(chunk(c)).count;
  }
  for (const TreeNode node : Subtrees(meeting_.lanes(), lanes_of_job_)) {
    ready.ready.partials.push_back({node, 0, 0, 0});
    const std::shared_ptr<float[]> sum(new float[static_cast<size_t>(floats)]());
    meeting_.SumOf(phase, node, {sum.get(), static_cast<size_t>(placed.count)});
    for (int32_t c = 0; c < place.chunks; ++c) {
      const int64_t offset = layout_.chunk(chunk(c)).offset - placed.offset;
      ready.phases[{chunk(c), node}] = std::shared_ptr<const float[]>(sum, sum.get() + offset);
    }
  }
  way_.events->Post(std::move(ready));
}

// ---- steps that are not finite

std::optional<size_t> PhasedLanes::FirstNotFinite(const FlatBuffer& results) const {
  for (const size_t phase : meeting_.phases().order)
    if (!AllFinite(In(results, phase))) return phase;
  return std::nullopt;
}

Exchange PhasedLanes::Examining(const FlatBuffer& results, std::optional<size_t> first,
                                bool& names_it) const {
  return
      [this, &results, first, &names_it](
          size_t phase, absl::Span<const float> terms) -> absl::StatusOr<absl::Span<const float>> {
        if (phase >= layout_.phases().size())
          return absl::FailedPreconditionError("the task brings terms to a phase that it has not");
        if (first == phase && !AllFinite(terms)) names_it = true;
        return In(results, phase);
      };
}

}  // namespace muster::worker
