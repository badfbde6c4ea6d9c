#include "worker/runtime/meeting_lanes.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/domain/layout.h"
#include "lib/kernels/add.h"

namespace muster::worker {
namespace {

constexpr char kWhy[] = ": with sync_batch_norm the order of layers may not depend on the data";

// The layers of two phases that differ; their full names where they are of one layer.
std::string Instead(const std::string& met, const std::string& next) {
  const std::string layer = LayerOfPhase(met), other = LayerOfPhase(next);
  if (layer == other) return absl::StrCat("phase ", met, " where ", next, " comes next");
  return absl::StrCat("layer ", layer, " where ", other, " comes next");
}

}  // namespace

void MeetingLanes::Begin(Step step) {
  if (step != step_) GiveUp();
  step_ = step;
}

void MeetingLanes::Add(LaneId id, Work work) {
  Lane& lane = lanes_[id];
  for (size_t p = 0; p < phases_.all.size(); ++p)
    if (std::find(phases_.order.begin(), phases_.order.end(), p) == phases_.order.end())
      BringNothingTo(lane, p);
  lane.thread = threads_.Start([this, id, &lane, work = std::move(work)] {
    if (given_up_) return;
    lane.output = work([this, id, &lane](size_t phase, absl::Span<const float> terms) {
      return Meet(id, lane, phase, terms);
    });
  });
}

void MeetingLanes::AddEmpty(LaneId id) {
  Lane& lane = lanes_[id];
  lane.ended = true;
  for (size_t p = 0; p < phases_.all.size(); ++p) BringNothingTo(lane, p);
}

void MeetingLanes::BringNothingTo(Lane& lane, size_t phase) const {
  lane.terms[phase].assign(static_cast<size_t>(phases_.all[phase].Elements()), 0.0F);
}

void MeetingLanes::Give(size_t phase, absl::Span<const float> total) {
  totals_.emplace(phase, total);
}

std::optional<LaneId> MeetingLanes::Next() const {
  std::optional<LaneId> next;
  for (const auto& [id, lane] : lanes_) {
    const bool waits =
        lane.begun && lane.met > 0 && totals_.count(phases_.order[lane.met - 1]) == 0;
    if (lane.ended || waits) continue;
    if (!next || lane.met < lanes_.at(*next).met) next = id;
  }
  return next;
}

absl::Status MeetingLanes::Run(LaneId id) {
  Lane& lane = lanes_.at(id);
  lane.begun = true;
  try {
    threads_.Run(lane.thread);
  } catch (...) {
    lane.ended = true;
    throw;
  }
  lane.ended = threads_.HasEnded(lane.thread);
  if (!lane.refused.ok()) return Prefix(Named(id), lane.refused);
  if (!lane.ended) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(lane.output.status());
  MUSTER_RETURN_IF_ERROR(Prefix(Named(id), CheckEnd(lane)));
  for (const size_t phase : phases_.order)
    if (lane.terms.count(phase) == 0) BringNothingTo(lane, phase);
  return absl::OkStatus();
}

// On the lane's thread.
absl::StatusOr<absl::Span<const float>> MeetingLanes::Meet(LaneId id, Lane& lane, size_t phase,
                                                           absl::Span<const float> terms) {
  if (given_up_) return absl::CancelledError("the lane is given up");
  if (lane.refused = CheckMet(lane, phase, terms); !lane.refused.ok())
    return Prefix(Named(id), lane.refused);
  lane.terms[phase].assign(terms.begin(), terms.end());  // lint: not tensor bytes (of a phase)
  ++lane.met;
  threads_.Rest(lane.thread);
  if (given_up_) return absl::CancelledError("the lane is given up");
  return totals_.at(phase);
}

// Before it waits: a lane that has met another phase than the rest would wait for ever.
absl::Status MeetingLanes::CheckMet(const Lane& lane, size_t phase,
                                    absl::Span<const float> terms) const {
  if (!lane.refused.ok()) return lane.refused;
  if (phase >= phases_.all.size())
    return absl::FailedPreconditionError(
        absl::StrCat("the task brings terms to phase ", phase, ", and has ", phases_.all.size()));
  const TensorSpec& met = phases_.all[phase];
  if (terms.size() != static_cast<size_t>(met.Elements()))
    return absl::FailedPreconditionError(absl::StrCat("the task brings ", terms.size(),
                                                      " terms to phase ", met.name, ", which has ",
                                                      met.Elements()));
  const std::vector<size_t>& order = phases_.order;
  if (lane.met < order.size() && order[lane.met] == phase) return absl::OkStatus();
  if (std::find(order.begin(), order.begin() + static_cast<int64_t>(lane.met), phase) !=
      order.begin() + static_cast<int64_t>(lane.met))
    return absl::FailedPreconditionError(
        absl::StrCat("layer ", LayerOfPhase(met.name),
                     " is called twice: with sync_batch_norm a lane calls each layer once"));
  if (lane.met < order.size())
    return absl::FailedPreconditionError(
        absl::StrCat(Instead(met.name, phases_.all[order[lane.met]].name), kWhy));
  return absl::FailedPreconditionError(
      absl::StrCat("layer ", LayerOfPhase(met.name), " where none comes any more", kWhy));
}

// A lane of which no sample could be read has met none.
absl::Status MeetingLanes::CheckEnd(const Lane& lane) const {
  if (lane.met == phases_.order.size() || (lane.met == 0 && lane.output->weight == 0))
    return absl::OkStatus();
  const std::string& next = phases_.all[phases_.order[lane.met]].name;
  return absl::FailedPreconditionError(
      absl::StrCat("it ends where layer ", LayerOfPhase(next), " comes next", kWhy));
}

std::string MeetingLanes::Named(LaneId lane) const {
  return absl::StrCat("step ", step_.value(), ", lane ", lane.value());
}

std::vector<LaneId> MeetingLanes::lanes() const {
  std::vector<LaneId> lanes;
  for (const auto& [id, lane] : lanes_) lanes.push_back(id);
  return lanes;
}

bool MeetingLanes::HaveAllBrought(size_t phase) const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& lane) { return lane.second.terms.count(phase) > 0; });
}

bool MeetingLanes::HasAllTotals() const {
  return std::all_of(phases_.order.begin(), phases_.order.end(),
                     [&](size_t phase) { return totals_.count(phase) > 0; });
}

void MeetingLanes::SumOf(size_t phase, TreeNode node, absl::Span<float> sum) const {
  if (node.lanes() == 1) {
    const std::vector<float>& terms = lanes_.at(LaneId(node.lo)).terms.at(phase);
    std::copy(terms.begin(), terms.end(), sum.begin());  // lint: not tensor bytes (of a phase)
    return;
  }
  std::vector<float> right(sum.size());
  const int32_t mid = SplitPoint(node);
  SumOf(phase, {node.lo, mid}, sum);
  SumOf(phase, {mid, node.hi}, absl::MakeSpan(right));
  muster::Add(sum, right, sum);
}

void MeetingLanes::GiveUp() {
  given_up_ = true;
  for (auto& [id, lane] : lanes_) {
    while (!lane.ended) {
      try {
        threads_.Run(lane.thread);
      } catch (...) {  // it is given up, whatever it says
      }
      lane.ended = threads_.HasEnded(lane.thread);
    }
  }
  given_up_ = false;
  lanes_.clear();
  totals_.clear();
}

}  // namespace muster::worker
