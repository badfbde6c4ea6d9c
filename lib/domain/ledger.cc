#include "lib/domain/ledger.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_format.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"

namespace muster {

std::string ToHex(const FingerprintPart& part) {
  return absl::StrFormat("%016x%016x", part.hi, part.lo);
}

namespace {

std::string StepText(const StepRecord& r) {
  return absl::StrCat("step ", r.step.value(), " (lineage ", r.lineage.value(), ")");
}

std::string Violation(const TrainingSpec& training, uint64_t n, const StepRecord& r,
                      int64_t expected_step) {
  if (r.step.value() != expected_step)
    return absl::StrCat("step ", expected_step, " has no record; the next one is of ", StepText(r));
  if (r.lane_holders.size() != static_cast<size_t>(training.lanes))
    return absl::StrCat(StepText(r), " names holders of ",
                        Plural(static_cast<int64_t>(r.lane_holders.size()), "lane"), " instead of ",
                        training.lanes);
  for (size_t l = 0; l < r.lane_holders.size(); ++l)
    if (r.lane_holders[l].name.empty())
      return absl::StrCat(StepText(r), ": lane ", l, " has no holder");
  if (r.samples != StepSamples(training, n, r.step))
    return absl::StrCat(StepText(r), " used samples ", r.samples.first, "+", r.samples.count,
                        " of epoch ", r.samples.epoch, ", not the ones the specification gives it");
  if (r.weight < 0 ||
      (training.task == "counting" && r.weight != static_cast<int64_t>(r.samples.count)))
    return absl::StrCat(StepText(r), " has weight ", r.weight, " for ",
                        Plural(static_cast<int64_t>(r.samples.count), "sample"));
  return "";
}

// Counts the uses of every sample id over one epoch's records; the first id used twice or never, or
// "".
std::string EpochViolation(const TrainingSpec& training, uint64_t n, int64_t epoch,
                           const std::vector<SampleRange>& ranges, bool full) {
  std::vector<bool> used(n, false);
  uint64_t count = 0;
  for (const SampleRange& range : ranges)
    for (uint64_t id : SampleIds(training, n, range)) {
      if (used[id]) return absl::StrCat("sample ", id, " was used twice in epoch ", epoch);
      used[id] = true;
      ++count;
    }
  if (!full || count == n) return "";
  const auto missing = std::find(used.begin(), used.end(), false) - used.begin();
  return absl::StrCat("sample ", missing, " was never used in epoch ", epoch);
}

}  // namespace

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

absl::StatusOr<std::vector<StepRecord>> Ancestry(const std::vector<Lineage>& lineages,
                                                 const std::vector<StepRecord>& records,
                                                 LineageNumber last, Step end) {
  std::map<LineageNumber, Lineage> by_number;
  for (const Lineage& l : lineages) by_number[l.number] = l;
  std::map<std::pair<LineageNumber, Step>, const StepRecord*> by_step;
  for (const StepRecord& r : records) by_step.emplace(std::pair(r.lineage, r.step), &r);
  std::vector<StepRecord> found;
  Step before = end;
  for (LineageNumber at = last; before > Step(0);) {
    const auto it = by_number.find(at);
    if (it == by_number.end())
      return absl::DataLossError(absl::StrCat("lineage ", at.value(), " is not in the journal"));
    for (Step s = before - 1; s >= it->second.fork; s = s - 1) {
      const auto record = by_step.find({at, s});
      if (record == by_step.end())
        return absl::DataLossError(
            absl::StrCat("step ", s.value(), " of lineage ", at.value(), " has no record"));
      found.push_back(*record->second);
    }
    before = std::min(before, it->second.fork);
    if (before > Step(0) && it->second.parent == LineageNumber(0))
      return absl::DataLossError(absl::StrCat("step ", before.value() - 1, " is on no lineage"));
    at = it->second.parent;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

AuditReport Audit(const TrainingSpec& training, uint64_t sample_count,
                  const std::vector<StepRecord>& ancestry) {
  AuditReport report;
  std::map<int64_t, std::vector<SampleRange>> by_epoch;
  for (const StepRecord& r : ancestry) {
    report.conclusion = Violation(training, sample_count, r, report.steps);
    if (!report.conclusion.empty()) return report;
    by_epoch[r.samples.epoch].push_back(r.samples);
    (r.skipped ? report.skipped_samples : report.samples) += r.samples.count;
    if (r.skipped) ++report.skipped_steps;
    report.lanes += training.lanes;
    ++report.steps;
  }
  report.full_epochs = report.steps / StepsPerEpoch(training, sample_count);
  for (const auto& [epoch, ranges] : by_epoch) {
    report.conclusion =
        EpochViolation(training, sample_count, epoch, ranges, epoch < report.full_epochs);
    if (!report.conclusion.empty()) return report;
  }
  report.ok = true;
  const std::string how_often =
      report.full_epochs == 0 ? "at most once: no epoch is full yet"
      : report.full_epochs == 1
          ? "exactly once in the one full epoch"
          : absl::StrCat("exactly once in each of ", report.full_epochs, " full epochs");
  const bool skipped = report.skipped_steps > 0;
  report.conclusion = absl::StrCat("each of ", Plural(static_cast<int64_t>(sample_count), "sample"),
                                   skipped ? " was used " : " is in the final state ", how_often,
                                   "; ", Plural(report.steps, "step"), ", each lane once");
  if (skipped)
    absl::StrAppend(&report.conclusion, "; ", Plural(report.skipped_steps, "step"),
                    report.skipped_steps == 1 ? " was" : " were",
                    " not finite and left the state as it was: ",
                    Plural(static_cast<int64_t>(report.skipped_samples), "use"), " of samples ",
                    report.skipped_samples == 1 ? "is" : "are", " not in the final state");
  return report;
}

}  // namespace muster
