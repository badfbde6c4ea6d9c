#include "coordinator/state/record_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/base/casts.h"
#include "absl/strings/str_cat.h"
#include "coordinator/state/recent_steps.h"
#include "coordinator/state/stored_job.h"
#include "lib/base/plural.h"
#include "lib/domain/validation.h"

namespace muster::coordinator {
namespace {

// A member tells its records in the order of steps, and again from the first that was not
// acknowledged: it leaves no gap. A server that knows no weight may be far ahead of those that do,
// while their sessions are broken; nothing is kept of it but fingerprints, of which the oldest go.
std::string WhyNotStep(const StepRecord& record, int64_t steps, Step recorded) {
  if (record.step >= Step(steps))
    return absl::StrCat("its step is none of the job, which has ", Plural(steps, "step"));
  constexpr int64_t kMostAhead{kRecentSteps};
  if (record.without_weight || record.step.value() - recorded.value() <= kMostAhead) return "";
  return absl::StrCat("its step ", record.step.value(), " is far ahead of step ", recorded.value(),
                      ", the first that is not in the ledger");
}

// A member does nothing in a step before it was told of its samples, and those are journalled
// first.
std::string WhyNotKnown(const StepRecord& record, const TrainingSpec& training,
                        const StreamKnown& stream) {
  if (!IsStreamed(training) || KnownStep(StepsOf(training), stream, record.step)) return "";
  return absl::StrCat("its step ", record.step.value(),
                      " is not known yet: the stream has brought ",
                      Plural(static_cast<int64_t>(stream.positions), "sample"));
}

// A view is in the journal before a member is active in it.
std::string WhyNotView(const StepRecord& record, const std::optional<View>& view) {
  if (!view)
    return absl::StrCat("it is of view ", record.view.value(), ", and no view was active yet");
  if (record.view >= ViewNumber(1) && record.view <= view->number) return "";
  return absl::StrCat("it is of view ", record.view.value(), ", and the views so far are 1 to ",
                      view->number.value());
}

// Who held the lanes in an earlier view is not known any more.
std::string WhyNotHolders(const StepRecord& record, const View& view, int32_t lanes,
                          Step recorded) {
  const LaneHolders& holders = record.lane_holders;
  const bool is_active = record.view == view.number;
  if (holders.empty()) {
    // They are those of the view, and needed only of a record that goes into the ledger.
    if (is_active || record.without_weight || record.step < recorded) return "";
    return absl::StrCat("it names no lane holders, and its view ", record.view.value(),
                        " is not the active one");
  }
  if (holders.size() != static_cast<size_t>(lanes))
    return absl::StrCat("it names holders of ",
                        Plural(static_cast<int64_t>(holders.size()), "lane"), ", and the job has ",
                        lanes);
  if (is_active && holders != view.LaneHoldersAt(record.step))
    return absl::StrCat("its lane holders are not those of its view ", view.number.value());
  const bool all_named = std::none_of(holders.members().begin(), holders.members().end(),
                                      [](const MemberId& holder) { return holder.name.empty(); });
  return all_named ? "" : "a lane holder of it has no name";
}

std::string TextOf(const SampleRange& range) {
  return absl::StrCat(range.first, "+", range.count, " of epoch ", range.epoch);
}

std::string WhyNotSamples(const StepRecord& record, const SampleRange& right) {
  if (record.samples == right) return "";
  return absl::StrCat("its samples are ", TextOf(record.samples), ", and those of step ",
                      record.step.value(), " are ", TextOf(right));
}

// What is not finite is not applied, unless the job goes on with it.
std::string WhyNotSums(const StepRecord& record, const TrainingSpec& training) {
  const bool continues = training.on_nan == OnNan::kContinue;
  const bool is_finite = !continues && !record.skipped;
  if (!record.without_weight && !HasWeight(training, record))
    return absl::StrCat(
        "its weight is ", record.weight, " for ",
        Plural(static_cast<int64_t>(record.samples.count - record.left_out.size()), "sample"));
  if (continues && record.skipped)
    return "it says that the step was skipped, and on_nan is continue";
  if (is_finite && !std::isfinite(record.loss))
    return absl::StrCat("its loss is ", record.loss, " in a step that was not skipped");
  if (record.norm && is_finite && !std::isfinite(*record.norm))
    return absl::StrCat("its gradient norm is ", *record.norm, " in a step that was not skipped");
  if (record.norm && *record.norm < 0)
    return absl::StrCat("its gradient norm is ", *record.norm, ", which is below 0");
  return "";
}

// Bit by bit: what is not finite counts, too.
bool AreSame(const std::vector<Measure>& a, const std::vector<Measure>& b) {
  const auto bits = [](double number) { return absl::bit_cast<uint64_t>(number); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](const Measure& x, const Measure& y) {
                      return bits(x.sum) == bits(y.sum) && bits(x.weight) == bits(y.weight);
                    });
}

// Nobody makes a record of a step that measures who does not know what it measured.
std::string WhyNotMeasures(const StepRecord& record, const JobJournal& job, uint64_t n,
                           const MeasureSums* fact) {
  const TrainingSpec& training = job.spec.training;
  const bool measures =
      !record.skipped && !record.without_weight && BroughtIn(training, n, record.step);
  const std::vector<TaskMetric> metrics =
      measures ? MetricsIn(job.environment->tensors) : std::vector<TaskMetric>();
  const size_t right = metrics.size();
  if (measures && fact != nullptr && !AreSame(record.measures, MeasuresOf(metrics, *fact)))
    return absl::StrCat("what it brings is not what the follower measured of the state of step ",
                        BroughtIn(training, n, record.step)->value());
  if (record.measures.size() != right)
    return absl::StrCat("it brings ",
                        Plural(static_cast<int64_t>(record.measures.size()), "measure"),
                        ", and those of step ", record.step.value(), " are ", right);
  for (const Measure& measure : record.measures)
    if (!(measure.weight >= 0) || !std::isfinite(measure.weight))
      return absl::StrCat("a measure of it has weight ", measure.weight);
  const auto is_enough = [](const JobCommand& c) { return c.kind == JobCommandKind::kEnough; };
  const bool says_enough = std::any_of(record.commands.begin(), record.commands.end(), is_enough);
  const bool may_be_enough =
      training.validation.patience > 0 && !record.skipped && BroughtIn(training, n, record.step);
  return says_enough && !may_be_enough ? "it says that what is measured is enough" : "";
}

}  // namespace

std::optional<RecordFault> FaultOf(const StepRecord& record, const JobJournal& job,
                                   const StreamKnown& stream, Step recorded,
                                   const MeasureSums* fact) {
  const TrainingSpec& training = job.spec.training;
  const uint64_t n = SampleCountOf(job, stream);
  const int64_t steps = job.environment ? TotalSteps(training, n) : 0;
  if (std::string why = WhyNotStep(record, steps, recorded); !why.empty())
    return RecordFault{"their steps are not those that come next", std::move(why)};
  if (std::string why = WhyNotKnown(record, training, stream); !why.empty())
    return RecordFault{"their steps are not known yet", std::move(why)};
  if (std::string why = WhyNotView(record, job.view); !why.empty())
    return RecordFault{"their views were never active", std::move(why)};
  if (std::string why = WhyNotHolders(record, *job.view, training.lanes, recorded); !why.empty())
    return RecordFault{"their lane holders are not those of the job", std::move(why)};
  if (std::string why = WhyNotSamples(record, StepSamples(training, n, record.step)); !why.empty())
    return RecordFault{"their samples are not those of their steps", std::move(why)};
  if (std::string why = WhyNotLeftOut(training, record); !why.empty())
    return RecordFault{"they leave out samples that nobody leaves out", std::move(why)};
  if (std::string why = WhyNotSums(record, training); !why.empty())
    return RecordFault{"their weights, losses or norms are none of a step", std::move(why)};
  if (std::string why = WhyNotMeasures(record, job, n, fact); !why.empty())
    return RecordFault{"their measures are none of a step", std::move(why)};
  return std::nullopt;
}

}  // namespace muster::coordinator
