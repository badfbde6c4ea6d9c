#include "lib/domain/fork.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/domain/moving_average.h"

namespace muster {
namespace {

constexpr size_t kShownDigest = 12;

bool HasSameSlots(const TrainingSpec& parent, const TrainingSpec& fork) {
  return parent.optimizer.kind == fork.optimizer.kind && SlotCount(fork.optimizer.kind) > 0;
}

// What the optimizer's slots of that state have seen, if the fork can take them.
int64_t UpdatesOf(const TrainingSpec& parent, Step step, const TrainingSpec& fork) {
  return HasSameSlots(parent, fork) ? UpdatesBefore(parent.initial) + step.value() : 0;
}

bool HasAverage(const TrainingSpec& parent, Step step, const TrainingSpec& fork) {
  return HasAverageAt(parent, step) && fork.ema_decay > 0;
}

std::string ShapeText(const TensorSpec& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape, ", "), "]");
}

}  // namespace

std::optional<NotForked> WhyNotForked(const TrainingSpec& parent, Step step,
                                      const TrainingSpec& fork) {
  if (fork.task != parent.task)
    return NotForked{"task", absl::StrCat("'", fork.task, "' is not the parent's, which is ",
                                          parent.task, ": a fork has the same model")};
  if (IsStreamed(parent) && IsStreamed(fork) && step > Step(0))
    return NotForked{
        "initial.parent.step",
        absl::StrCat("after ", step.value(),
                     " steps the parent was amid its stream, whose samples are kept for "
                     "the parent alone; submit another job, with initial.file")};
  const ParentState& asked = *fork.initial.parent;
  const int64_t updates = UpdatesOf(parent, step, fork);
  if (asked.updates && *asked.updates != 0 && *asked.updates != updates)
    return NotForked{
        "initial.parent.updates",
        absl::StrCat(*asked.updates, " is not what the parent's slots have seen; ",
                     updates == 0 ? "allowed here: 0" : absl::StrCat("allowed: 0, ", updates))};
  if (asked.average.value_or(false) && !HasAverage(parent, step, fork))
    return NotForked{"initial.parent.average",
                     "the state and the fork do not both have a moving average (ema.decay)"};
  return std::nullopt;
}

TrainingSpec ForkedAt(const TrainingSpec& parent, Step step, const std::string& digest,
                      TrainingSpec fork) {
  const int64_t updates = UpdatesOf(parent, step, fork);
  const bool average = HasAverage(parent, step, fork);
  ParentState& state = *fork.initial.parent;
  state.step = step.value();
  state.digest = digest;
  state.updates = state.updates.value_or(updates);
  state.average = state.average.value_or(average);
  return fork;
}

bool NamesParent(const ParentState& asked, const ParentState& held) {
  return asked.job == held.job && (!asked.step || asked.step == held.step) &&
         (asked.digest.empty() || asked.digest == held.digest) &&
         (!asked.updates || asked.updates == held.updates) &&
         (!asked.average || asked.average == held.average);
}

std::vector<int32_t> SlotsOfParent(const TrainingSpec& parent, const TrainingSpec& fork) {
  const int32_t own = SlotCount(fork.optimizer.kind);
  std::vector<int32_t> from(static_cast<size_t>(SlotCount(fork)) + 1, -1);
  from[0] = 0;
  for (int32_t s = 1; s <= own && UpdatesBefore(fork.initial) > 0; ++s)
    from[static_cast<size_t>(s)] = s;
  if (HasAverageBefore(fork.initial)) from.back() = SlotCount(parent.optimizer.kind) + 1;
  return from;
}

std::vector<TensorSpec> OfModel(const std::vector<TensorSpec>& tensors) {
  std::vector<TensorSpec> model;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(model),
               [](const TensorSpec& tensor) { return IsOfModel(tensor.kind); });
  return model;
}

std::string DifferentTensor(const std::vector<TensorSpec>& parent,
                            const std::vector<TensorSpec>& fork) {
  const std::vector<TensorSpec> theirs = OfModel(parent), ours = OfModel(fork);
  for (size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
    if (i >= ours.size()) return absl::StrCat(theirs[i].name, " is in the parent alone");
    if (i >= theirs.size()) return absl::StrCat(ours[i].name, " is not in the parent");
    if (ours[i].name != theirs[i].name)
      return absl::StrCat(ours[i].name, " stands where the parent has ", theirs[i].name);
    if (ours[i].shape != theirs[i].shape)
      return absl::StrCat(ours[i].name, " is ", ShapeText(ours[i]), ", and in the parent ",
                          ShapeText(theirs[i]));
    if (ours[i].aliases != theirs[i].aliases)
      return absl::StrCat(ours[i].name, " has other names beside this one in the parent");
    if (ours[i] != theirs[i])
      return absl::StrCat(ours[i].name, " is of another kind or type in the parent");
  }
  return "";
}

std::string Describe(const ParentState& parent) {
  std::string text = absl::StrCat("job ", parent.job);
  if (parent.step) absl::StrAppend(&text, ", step ", *parent.step);
  if (!parent.digest.empty())
    absl::StrAppend(&text, ", digest ", parent.digest.substr(0, kShownDigest), "…");
  return text;
}

}  // namespace muster
