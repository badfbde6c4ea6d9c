#include "lib/domain/ledger.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/domain/left_out.h"

namespace muster {

std::string ToHex(const FingerprintPart& part) {
  return absl::StrFormat("%016x%016x", part.hi, part.lo);
}

void Count(const StepRecord& record, StepTally& tally) {
  tally.skipped += record.skipped ? 1 : 0;
  tally.left_out += static_cast<int64_t>(record.left_out.size());
}

bool HasWeight(const TrainingSpec& training, const StepRecord& record) {
  const bool does_not_tell = record.skipped && LeavesOut(training);
  uint64_t samples = record.samples.count - record.left_out.size();
  if (does_not_tell) samples = std::min(samples, static_cast<uint64_t>(record.weight));
  return IsWeightOf(training, samples, record.weight);
}

std::string WhyNotLeftOut(const TrainingSpec& training, const StepRecord& record) {
  const std::vector<uint64_t>& left_out = record.left_out;
  if (left_out.empty()) return "";
  if (!LeavesOut(training)) return "samples are left out, and data.on_bad_sample is stop";
  if (record.skipped || record.without_weight)
    return "it tells which samples were left out, and cannot know";
  for (size_t i = 0; i < left_out.size(); ++i)
    if (left_out[i] >= record.samples.count || (i > 0 && left_out[i] <= left_out[i - 1]))
      return absl::StrCat("sample ", left_out[i], " of ", record.samples.count,
                          " is left out, which there is not, or not once");
  return "";
}

std::optional<double> MeanLoss(const StepRecord& record) {
  if (record.weight <= 0) return std::nullopt;
  return record.loss / static_cast<double>(record.weight);
}

std::vector<LineagePart> HistoryOf(const std::vector<Lineage>& lineages) {
  if (lineages.empty()) return {};
  std::vector<LineagePart> parts;
  Step end(std::numeric_limits<int64_t>::max());
  LineageNumber at = lineages.back().number;
  // A parent is older than its child.
  for (auto l = lineages.rbegin(); l != lineages.rend(); ++l) {
    if (l->number != at) continue;
    if (l->fork < end) parts.push_back({at, l->fork, end});
    end = std::min(end, l->fork);
    at = l->parent;
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

Step ContinueAt(const std::vector<LineagePart>& history, LineageNumber held, Step next) {
  if (held == LineageNumber(0)) return next;
  for (const LineagePart& part : history)
    if (part.lineage > held) return std::min(next, part.first);
  return next;
}

}  // namespace muster
