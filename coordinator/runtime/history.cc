#include "coordinator/runtime/history.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/strip.h"
#include "lib/base/digits.h"
#include "lib/base/ids.h"
#include "lib/base/status.h"
#include "lib/domain/ledger.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "lib/optim/schedule.h"

namespace muster::coordinator {
namespace {

// Steps that a speed is measured over.
constexpr size_t kSpeedSteps = 20;

// Within one view, so that no stop or loss counts as time of a step.
std::optional<double> SpeedAt(const std::vector<RecordedStep>& records, size_t at) {
  size_t first = at;
  while (first > 0 && at - first < kSpeedSteps &&
         records[first - 1].record.view == records[at].record.view)
    --first;
  const int64_t milliseconds = records[at].unix_ms - records[first].unix_ms;
  if (records[first].unix_ms == 0 || milliseconds <= 0) return std::nullopt;
  uint64_t samples = 0;
  for (size_t i = first + 1; i <= at; ++i) samples += records[i].record.samples.count;
  return 1e3 * static_cast<double>(samples) / static_cast<double>(milliseconds);
}

// A speed is an average; this is one step.
std::optional<double> SecondsAt(const std::vector<RecordedStep>& records, size_t at) {
  if (at == 0 || records[at - 1].record.view != records[at].record.view) return std::nullopt;
  const int64_t milliseconds = records[at].unix_ms - records[at - 1].unix_ms;
  if (records[at - 1].unix_ms == 0 || milliseconds < 0) return std::nullopt;
  return static_cast<double>(milliseconds) / 1e3;
}

// With those of the whole epochs before. What the ledger holds need not be what the job allows.
std::optional<int64_t> SamplesUsed(const SampleRange& range, uint64_t of_epoch) {
  uint64_t used = 0;
  const bool is_too_much =
      range.epoch < 0 ||
      __builtin_mul_overflow(static_cast<uint64_t>(range.epoch), of_epoch, &used) ||
      __builtin_add_overflow(used, range.first, &used) ||
      __builtin_add_overflow(used, range.count, &used) || used > static_cast<uint64_t>(kMaxNumber);
  if (is_too_much) return std::nullopt;
  return static_cast<int64_t>(used);
}

// Those who are sent a history, as MLflow is, need not take what is not finite.
std::optional<double> IfFinite(std::optional<double> number) {
  return number && std::isfinite(*number) ? number : std::nullopt;
}

// What the steps of a job have in common.
struct JobOfSteps {
  const TrainingSpec& training;
  uint64_t samples = 0;
  int64_t total = 0;
  std::vector<TaskMetric> metrics;
};

HistoryStep StepAt(const JobOfSteps& job, const std::vector<RecordedStep>& records, size_t at) {
  const StepRecord& record = records[at].record;
  HistoryStep step{.step = record.step.value(),
                   .lineage = record.lineage.value(),
                   .epoch = record.samples.epoch,
                   .unix_ms = records[at].unix_ms,
                   .loss = IfFinite(MeanLoss(record)),
                   .learning_rate = std::nullopt,
                   .gradient_norm = IfFinite(record.norm),
                   .samples_per_second = SpeedAt(records, at),
                   .samples = SamplesUsed(record.samples, job.samples),
                   .seconds = SecondsAt(records, at),
                   .validation = ValuesOf(job.metrics, record.measures)};
  // What the ledger holds need not be what the job allows: an old one may name any step.
  if (step.step < job.total)
    step.learning_rate = LearningRate(job.training.optimizer, job.training.schedule, step.step,
                                      job.total, record.cuts);
  return step;
}

// Of a job that has ended: what was measured of its last state. The time is that of the last step;
// one that was adopted at its end has none of its own, and takes that of the measure.
absl::StatusOr<std::optional<HistoryStep>> LastStateOf(const Journal& journal,
                                                       const JobJournal& job, Step recorded,
                                                       const JobOfSteps& of,
                                                       const std::vector<RecordedStep>& records) {
  if (!Ended(job.phase) || of.metrics.empty() || recorded == Step(0)) return std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(const std::optional<RecordedFact> measured,
                          journal.FactOf(job, recorded));
  if (!measured) return std::nullopt;
  const bool has_last = !records.empty() && records.back().record.step + 1 == recorded;
  HistoryStep row{
      .step = BringerOf(of.training.validation, recorded).value(),
      .lineage = (has_last ? records.back().record.lineage : job.lineages.back().number).value(),
      .epoch = recorded.value() / StepsPerEpoch(of.training, of.samples),
      .unix_ms = has_last ? records.back().unix_ms : measured->unix_ms,
      .loss = std::nullopt,
      .learning_rate = std::nullopt,
      .gradient_norm = std::nullopt,
      .samples_per_second = std::nullopt,
      .samples = has_last ? SamplesUsed(records.back().record.samples, of.samples) : std::nullopt,
      .seconds = std::nullopt,
      .validation = ValuesOf(of.metrics, MeasuresOf(of.metrics, measured->fact.sums)),
      .last_state = recorded.value()};
  return row;
}

// A number that a step or a lineage may have.
bool ConsumeNumber(absl::string_view& text, absl::string_view name, int64_t* number) {
  if (!absl::ConsumePrefix(&text, name)) return false;
  const absl::string_view digits = text.substr(0, text.find(','));
  text.remove_prefix(digits.size());
  return ParseDigits(digits, number) && *number <= kMaxNumber;
}

}  // namespace

absl::StatusOr<HistoryPage> ReadHistory(const Journal& journal, const JobJournal& job,
                                        Step recorded, const HistoryQuery& query,
                                        const std::stop_token& stop) {
  if (job.lineages.empty() || !job.environment) return HistoryPage{};
  const std::vector<LineagePart> history = HistoryOf(job.lineages);
  const Step from = ContinueAt(history, LineageNumber(query.lineage), Step(query.from));
  if (from > recorded) return HistoryPage{};
  const auto most = static_cast<size_t>(query.limit == 0 ? kHistoryStepsPerPage : query.limit);
  // The speed of the first step needs those before it.
  const Step first(std::max<int64_t>(0, from.value() - static_cast<int64_t>(kSpeedSteps)));
  const auto before = static_cast<size_t>(from.value() - first.value());
  std::vector<RecordedStep> records;
  const auto take = [&](RecordedStep step) {
    step.record.lane_holders = LaneHolders();  // they are many
    records.push_back(std::move(step));
    return records.size() <= before + most;
  };
  MUSTER_RETURN_IF_ERROR(journal.ScanHistory(job.id, history, first, recorded, take, stop));
  const TrainingSpec& training = job.spec.training;
  const NumericEnvironment& environment = *job.environment;
  const JobOfSteps of{training, environment.samples, TotalSteps(training, environment.samples),
                      MetricsIn(environment.tensors)};
  HistoryPage page{.plugins = PluginUsesOf(job)};
  for (size_t at = 0; at < records.size(); ++at) {
    if (records[at].record.step < from) continue;
    if (page.steps.size() == most) {
      page.next = records[at].record.step.value();
      break;
    }
    page.steps.push_back(StepAt(of, records, at));
  }
  if (page.next) return page;
  MUSTER_ASSIGN_OR_RETURN(std::optional<HistoryStep> last,
                          LastStateOf(journal, job, recorded, of, records));
  if (!last) return page;
  if (page.steps.size() == most)
    page.next = recorded.value();
  else
    page.steps.push_back(*std::move(last));
  return page;
}

std::optional<HistoryPlace> PlaceInHistory(absl::string_view line) {
  HistoryPlace place;
  if (!ConsumeNumber(line, "{\"step\":", &place.step)) return std::nullopt;
  if (!ConsumeNumber(line, ",\"lineage\":", &place.lineage)) return std::nullopt;
  constexpr absl::string_view kLastState = ",\"last_state\":";
  const size_t at = line.find(kLastState);
  int64_t state = 0;
  if (at != absl::string_view::npos &&
      ParseDigits(line.substr(at + kLastState.size(), line.find('}') - at - kLastState.size()),
                  &state))
    place.last_state = state;
  return place;
}

}  // namespace muster::coordinator
