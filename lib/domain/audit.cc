#include "lib/domain/audit.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/plural.h"

namespace muster {
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
  if (const std::string why = WhyNotLeftOut(training, r); !why.empty())
    return absl::StrCat(StepText(r), ": ", why);
  if (!HasWeight(training, r))
    return absl::StrCat(
        StepText(r), " has weight ", r.weight, " for ",
        Plural(static_cast<int64_t>(r.samples.count - r.left_out.size()), "sample"));
  return "";
}

}  // namespace

Auditor::Auditor(TrainingSpec training, uint64_t sample_count, Step first)
    : training_(std::move(training)),
      sample_count_(sample_count),
      order_(training_, 0, std::max<uint64_t>(sample_count, 1)) {
  if (!IsSampleCount(sample_count))
    report_.conclusion =
        absl::StrCat("the job is told to have ", sample_count, " samples, which no data set has");
  if (first == Step(0) || !report_.conclusion.empty()) return;
  const SampleRange begins = StepSamples(training_, sample_count, first);
  report_.steps = first.value();
  epoch_ = begins.epoch;
  order_ = EpochOrder(training_, epoch_, sample_count_);
  next_ = begins.first;
}

bool Auditor::Add(const StepRecord& r, const std::stop_token& stop) {
  if (!report_.conclusion.empty()) return false;
  report_.conclusion = Violation(training_, sample_count_, r, report_.steps);
  if (report_.conclusion.empty()) report_.conclusion = OrderViolation(r.samples, stop);
  if (!report_.conclusion.empty() || stop.stop_requested()) return false;
  (r.skipped ? report_.skipped_samples : report_.samples) += r.samples.count - r.left_out.size();
  report_.left_out_samples += r.left_out.size();
  if (r.skipped) ++report_.skipped_steps;
  report_.lanes += training_.lanes;
  ++report_.steps;
  return true;
}

// Of the epoch that ends.
std::string Auditor::EpochViolation() const {
  if (next_ == sample_count_) return "";
  return absl::StrCat("sample ", order_.At(next_), " was never used in epoch ", epoch_);
}

// Positions follow each other without a gap, and no two of them stand for the same sample, since
// each is found again from its sample.
std::string Auditor::OrderViolation(const SampleRange& range, const std::stop_token& stop) {
  constexpr uint64_t kBetweenLooks = 1 << 16;
  if (range.epoch != epoch_) {
    if (std::string never = EpochViolation(); !never.empty()) return never;
    epoch_ = range.epoch;
    order_ = EpochOrder(training_, epoch_, sample_count_);
    next_ = 0;
  }
  if (range.first > next_) return EpochViolation();
  const auto twice = [&](uint64_t position) {
    return absl::StrCat("sample ", order_.At(position), " was used twice in epoch ", epoch_);
  };
  if (range.first < next_) return twice(range.first);
  for (const uint64_t end = next_ + range.count; next_ < end; ++next_) {
    if (order_.PositionOf(order_.At(next_)) != next_) return twice(next_);
    if (next_ % kBetweenLooks == 0 && stop.stop_requested()) return "";
  }
  return "";
}

AuditReport Auditor::Conclude(Step end) && {
  if (report_.conclusion.empty() && Step(report_.steps) < end)
    report_.conclusion = absl::StrCat("step ", report_.steps, " has no record");
  if (!report_.conclusion.empty()) return std::move(report_);
  report_.full_epochs = report_.steps / StepsPerEpoch(training_, sample_count_);
  if (epoch_ < report_.full_epochs) report_.conclusion = EpochViolation();
  if (report_.conclusion.empty()) Sum();
  return std::move(report_);
}

// Of a stream: which of its samples were used is the first so many.
std::string Auditor::WhatOfStream() const {
  const bool is_all = report_.full_epochs > 0;
  return absl::StrCat(
      "each of ", is_all ? "all " : "the first ", Plural(static_cast<int64_t>(next_), "sample"),
      " of the stream ", report_.skipped_steps > 0 ? "was used" : "is in the final state",
      " exactly once, in the order in which they came", is_all ? "" : ", and there may be more");
}

void Auditor::Sum() {
  AuditReport& report = report_;
  report.ok = true;
  const std::string how_often =
      report.full_epochs == 0 ? "at most once: no epoch is full yet"
      : report.full_epochs == 1
          ? "exactly once in the one full epoch"
          : absl::StrCat("exactly once in each of ", report.full_epochs, " full epochs");
  const bool skipped = report.skipped_steps > 0, left_out = report.left_out_samples > 0;
  const std::string what =
      IsStreamed(training_)
          ? WhatOfStream()
          : absl::StrCat("each of ", Plural(static_cast<int64_t>(sample_count_), "sample"),
                         left_out  ? " was used or left out "
                         : skipped ? " was used "
                                   : " is in the final state ",
                         how_often);
  report.conclusion = absl::StrCat(what, "; ", Plural(report.steps, "step"), ", each lane once");
  if (left_out)
    absl::StrAppend(
        &report.conclusion, "; ", Plural(static_cast<int64_t>(report.left_out_samples), "use"),
        " of samples that cannot be read ", report.left_out_samples == 1 ? "was" : "were",
        " left out, and the ledger names them");
  if (skipped)
    absl::StrAppend(&report.conclusion, "; ", Plural(report.skipped_steps, "step"),
                    report.skipped_steps == 1 ? " was" : " were",
                    " not finite and left the state as it was: ",
                    Plural(static_cast<int64_t>(report.skipped_samples), "use"), " of samples ",
                    report.skipped_samples == 1 ? "is" : "are", " not in the final state");
}

AuditReport Audit(const TrainingSpec& training, uint64_t sample_count,
                  const std::vector<StepRecord>& ancestry) {
  Auditor auditor(training, sample_count);
  for (const StepRecord& record : ancestry)
    if (!auditor.Add(record)) break;
  return std::move(auditor).Conclude(Step(static_cast<int64_t>(ancestry.size())));
}

}  // namespace muster
