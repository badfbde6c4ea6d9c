#include "lib/domain/validation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/numeric/int128.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/check.h"
#include "lib/base/status.h"
#include "lib/domain/auc.h"
#include "lib/domain/left_out.h"

namespace muster {
namespace {

constexpr char kPrefix[] = "validation/";
constexpr char kExpPrefix[] = "validation/exp/";
constexpr char kAucPrefix[] = "validation/auc/";
constexpr char kLearnedName[] = "validation/learned";
constexpr size_t kFloats = kFloatsOfMetric;  // of each tensor, but of an AUC's
static_assert((kMostMetrics + 1) * kFloats * sizeof(float) == kMostBytesOfMeasures);

// A number as whole multiples of 2^-kFraction, cut into limbs below kLimbSize, each with the sign
// of the number: limbs of 4,096 lanes add up below 2^24, where fp32 holds every whole number.
constexpr int64_t kLimbSize = 4096;
// The limit of one lane is far enough below what the limbs hold that the total of all lanes fits
// into 127 bits.
struct FixedPoint {
  size_t first;  // limb, in the tensor
  size_t limbs;
  int fraction;
  double limit;  // on the magnitude
};
constexpr FixedPoint kSum{0, 10, 48, 0x1p66};
constexpr FixedPoint kWeight{10, 4, 12, 0x1p36};
constexpr size_t kSpoiled = 15;  // how many lanes had a number that is none, or is too large
constexpr int64_t kMostLanes = 4096;
static_assert(kMostLanes * (kLimbSize - 1) < (1 << 24));

// Of an AUC two limbs for each count stand behind those of the others.
constexpr size_t kCounts = 2 * kScoreBins;
constexpr double kMostOfCount = kLimbSize * kLimbSize;  // of one lane
constexpr size_t kAucFloats = kFloats + 2 * kCounts;
static_assert(kAucFloats % kFloats == 0);

void WriteFixed(const FixedPoint& format, double value, absl::Span<float> terms) {
  const auto scaled = static_cast<absl::int128>(std::ldexp(value, format.fraction));
  absl::uint128 left(scaled < 0 ? -scaled : scaled);
  for (size_t limb = 0; limb < format.limbs; ++limb) {
    const auto part = static_cast<float>(static_cast<uint64_t>(left % kLimbSize));
    terms[format.first + limb] = scaled < 0 && part != 0 ? -part : part;
    left /= kLimbSize;
  }
}

double ReadFixed(const FixedPoint& format, absl::Span<const float> sums) {
  absl::int128 whole = 0;
  for (size_t limb = format.limbs; limb-- > 0;)
    whole = whole * absl::int128(kLimbSize) + absl::int128(std::llround(sums[format.first + limb]));
  return std::ldexp(static_cast<double>(whole), -format.fraction);
}

// The state keeps values of eight bytes as bits, which are copied and never computed with.
template <class T>
void Keep(T value, size_t at, absl::Span<float> tensor) {
  static_assert(sizeof(T) == 2 * sizeof(float));
  std::memcpy(tensor.data() + at, &value, sizeof(T));
}
template <class T>
T Kept(size_t at, absl::Span<const float> tensor) {
  T value;
  std::memcpy(&value, tensor.data() + at, sizeof(T));
  return value;
}

// Of a metric: sum, weight, and the step after the measured one; 0: none was measured yet.
void WriteMeasure(const Measure& measure, Step step, absl::Span<float> tensor) {
  Keep(measure.sum, 0, tensor);
  Keep(measure.weight, 2, tensor);
  Keep(step.value() + 1, 4, tensor);
}

void WriteLearned(const Learned& learned, absl::Span<float> tensor) {
  Keep(learned.best.value_or(0), 0, tensor);
  Keep(learned.best_step.value(), 2, tensor);
  Keep(learned.since_best, 4, tensor);
  Keep(learned.no_better, 6, tensor);
  Keep(learned.cuts, 8, tensor);
  Keep(static_cast<int64_t>(learned.best.has_value()), 10, tensor);
  Keep(static_cast<int64_t>(learned.enough), 12, tensor);
  Keep(learned.cuts_before, 14, tensor);
}

Learned ReadLearned(absl::Span<const float> tensor) {
  Learned learned;
  if (Kept<int64_t>(10, tensor) != 0) learned.best = Kept<double>(0, tensor);
  learned.best_step = Step(Kept<int64_t>(2, tensor));
  learned.since_best = Kept<int64_t>(4, tensor);
  learned.no_better = Kept<int64_t>(6, tensor);
  learned.cuts = Kept<int64_t>(8, tensor);
  learned.enough = Kept<int64_t>(12, tensor) != 0;
  learned.cuts_before = Kept<int64_t>(14, tensor);
  return learned;
}

bool IsFirstOfEpoch(int64_t step, int64_t steps_per_epoch, int64_t every_epochs) {
  return step % steps_per_epoch == 0 && step / steps_per_epoch % every_epochs == 0;
}

bool FitsCounts(const std::vector<double>& counts) {
  if (!counts.empty() && counts.size() != kCounts) return false;
  return std::all_of(counts.begin(), counts.end(), [](double count) {
    return count >= 0 && count < kMostOfCount && count == std::floor(count);
  });
}

void WriteCounts(const std::vector<double>& counts, absl::Span<float> tensor) {
  if (!FitsCounts(counts)) {
    tensor[kSpoiled] = 1;
    return;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto whole = static_cast<int64_t>(counts[i]);
    tensor[kFloats + 2 * i] = static_cast<float>(whole % kLimbSize);
    tensor[kFloats + 2 * i + 1] = static_cast<float>(whole / kLimbSize);
  }
}

Measure MeasureOfCounts(absl::Span<const float> sums) {
  if (sums[kSpoiled] != 0) return {std::numeric_limits<double>::quiet_NaN(), 1};
  std::vector<double> counts(kCounts);
  for (size_t i = 0; i < kCounts; ++i)
    counts[i] = static_cast<double>(sums[kFloats + 2 * i]) +
                static_cast<double>(sums[kFloats + 2 * i + 1]) * kLimbSize;
  return AucOf(counts);
}

size_t FloatsOf(TaskMetricKind kind) { return kind == TaskMetricKind::kAuc ? kAucFloats : kFloats; }

const char* PrefixOf(TaskMetricKind kind) {
  switch (kind) {
    case TaskMetricKind::kMean: return kPrefix;
    case TaskMetricKind::kExpOfMean: return kExpPrefix;
    case TaskMetricKind::kAuc: return kAucPrefix;
  }
  return kPrefix;
}

// Of the name of a tensor; false: it is none of a metric.
bool TakeMetric(absl::string_view name, TaskMetric& metric) {
  for (const TaskMetricKind kind :
       {TaskMetricKind::kExpOfMean, TaskMetricKind::kAuc, TaskMetricKind::kMean}) {
    if (!absl::ConsumePrefix(&name, PrefixOf(kind))) continue;
    metric = {std::string(name), kind};
    return true;
  }
  return false;
}

Measure MeasureOf(absl::Span<const float> sums) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  const double sum = sums[kSpoiled] == 0 ? ReadFixed(kSum, sums) : none;
  return {sum, ReadFixed(kWeight, sums)};
}

}  // namespace

size_t FloatsOf(const std::vector<TaskMetric>& metrics) {
  size_t floats = 0;
  for (const TaskMetric& metric : metrics)
    floats += metric.kind == TaskMetricKind::kAuc ? kAucFloats : kFloats;
  return floats;
}

std::vector<Measure> MeasuresOf(const std::vector<TaskMetric>& metrics, const MeasureSums& sums) {
  std::vector<Measure> measures;
  if (sums.floats.size() != FloatsOf(metrics)) return measures;
  absl::Span<const float> left = sums.floats;
  for (const TaskMetric& metric : metrics) {
    const bool is_auc = metric.kind == TaskMetricKind::kAuc;
    measures.push_back(is_auc ? MeasureOfCounts(left.subspan(0, kAucFloats))
                              : MeasureOf(left.subspan(0, kFloats)));
    left.remove_prefix(is_auc ? kAucFloats : kFloats);
  }
  return measures;
}

bool IsMeasuredIn(const TrainingSpec& training, uint64_t samples, Step step) {
  const ValidationSpec& validation = training.validation;
  const int64_t s = step.value();
  if (s <= 0) return false;
  if (validation.every_steps > 0 && s % validation.every_steps == 0) return true;
  return validation.every_epochs > 0 &&
         IsFirstOfEpoch(s, StepsPerEpoch(training, samples), validation.every_epochs);
}

int64_t DelayOf(const ValidationSpec& validation) {
  return validation.by_follower() ? validation.delay : 1;
}

Step BringerOf(const ValidationSpec& validation, Step measured) {
  return measured + (DelayOf(validation) - 1);
}

std::optional<Step> BroughtIn(const TrainingSpec& training, uint64_t samples, Step step) {
  const Step measured = step - (DelayOf(training.validation) - 1);
  return IsMeasuredIn(training, samples, measured) ? std::optional(measured) : std::nullopt;
}

bool IsFollowed(const TrainingSpec& training, uint64_t samples, Step step) {
  return FollowersOf(training) > 0 && step < Step(TotalSteps(training, samples)) &&
         IsMeasuredIn(training, samples, step);
}

int64_t StepsBetweenMeasures(const TrainingSpec& training, uint64_t samples) {
  const ValidationSpec& validation = training.validation;
  if (validation.every_steps > 0) return validation.every_steps;
  return StepsOfEpochs(training, samples, validation.every_epochs);
}

std::optional<Step> OutstandingIn(const TrainingSpec& training, uint64_t samples, Step step) {
  if (!training.validation.wanted() || !training.validation.by_follower() || step <= Step(0))
    return std::nullopt;
  const int64_t between = StepsBetweenMeasures(training, samples);
  const Step last((step.value() - 1) / between * between);
  const bool is_learned = BringerOf(training.validation, last) < step;
  return last == Step(0) || is_learned ? std::nullopt : std::optional(last);
}

bool MayPend(const std::optional<PendingMeasure>& pending, const TrainingSpec& training,
             uint64_t samples, const std::vector<TensorSpec>& tensors, Step step) {
  const std::optional<Step> outstanding = OutstandingIn(training, samples, step);
  if (!outstanding || !pending) return !outstanding && !pending;
  return pending->step == *outstanding && WhyNotSums(pending->sums).empty() &&
         pending->sums.floats.size() == FloatsOf(MetricsIn(tensors));
}

absl::Status CheckDelay(const TrainingSpec& training, uint64_t samples) {
  const ValidationSpec& validation = training.validation;
  if (!validation.wanted() || !validation.by_follower()) return absl::OkStatus();
  const int64_t between = StepsBetweenMeasures(training, samples);
  if (validation.delay <= between) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("validation.delay: ", validation.delay, " is more than the ", between,
                   " steps from one measured state to the next; write at most ", between));
}

std::string WhyNotSums(const MeasureSums& sums) {
  constexpr float kBelow = 1 << 24;
  const std::vector<float>& floats = sums.floats;
  if (floats.empty() || floats.size() % kFloats != 0 || floats.size() > kMostMetrics * kFloats)
    return absl::StrCat(floats.size(), " numbers, where each of at most ", kMostMetrics,
                        " metrics has ", kFloats);
  for (size_t i = 0; i < floats.size(); ++i) {
    const float limb = floats[i];
    if (!(std::abs(limb) < kBelow) || limb != std::floor(limb))
      return "a limb that is not whole, or too large";
    const bool may_be_negative = i % kFloats < kWeight.first;
    if (std::signbit(limb) && (limb == 0 || !may_be_negative)) return "a weight below 0";
  }
  return "";
}

absl::Status ErrorOfValidation(const TrainingSpec& training, const absl::Status& status) {
  absl::string_view message = status.message();
  if (training.validation.paths.empty() || !absl::ConsumePrefix(&message, "data.paths: "))
    return Prefix("validation", status);
  return absl::Status(status.code(), absl::StrCat("validation.paths: ", message));
}

IdRange MeasuredBy(LaneId lane, int32_t lanes, uint64_t samples) {
  const auto at = [&](int64_t l) {
    return static_cast<uint64_t>(absl::uint128(samples) * static_cast<uint64_t>(l) /
                                 static_cast<uint64_t>(lanes));
  };
  return {at(lane.value()), at(lane.value() + 1)};
}

absl::StatusOr<std::vector<TensorSpec>> SumTensors(const ValidationSpec& validation,
                                                   const std::vector<TaskMetric>& metrics) {
  if (metrics.empty() || metrics.size() > kMostMetrics)
    return absl::FailedPreconditionError(absl::StrCat("validation: the task measures ",
                                                      metrics.size(), " metrics; 1 to ",
                                                      kMostMetrics, " are allowed"));
  std::vector<TensorSpec> tensors;
  std::vector<std::string> names;
  size_t floats = kFloats;  // of what is learned
  for (const TaskMetric& metric : metrics) {
    const size_t of_metric = FloatsOf(metric.kind);
    tensors.push_back({absl::StrCat(PrefixOf(metric.kind), metric.name),
                       {static_cast<int64_t>(of_metric)},
                       TensorKind::kSum});
    names.push_back(metric.name);
    floats += of_metric;
  }
  if (floats * sizeof(float) > static_cast<size_t>(kMostBytesOfMeasures))
    return absl::FailedPreconditionError(absl::StrCat(
        "validation: what the task measures takes ", floats * sizeof(float), " bytes; at most ",
        kMostBytesOfMeasures, " are allowed, ", kFloats * sizeof(float), " for each metric and ",
        kAucFloats * sizeof(float), " for an AUC"));
  if (std::find(names.begin(), names.end(), validation.metric) == names.end())
    return absl::FailedPreconditionError(
        absl::StrCat("validation.metric: the task measures no '", validation.metric,
                     "'; it measures: ", absl::StrJoin(names, ", ")));
  tensors.push_back({kLearnedName, {kFloats}, TensorKind::kSum});
  return tensors;
}

std::vector<TaskMetric> MetricsIn(const std::vector<TensorSpec>& tensors) {
  std::vector<TaskMetric> metrics;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.kind != TensorKind::kSum || tensor.name == kLearnedName) continue;
    TaskMetric metric;
    if (TakeMetric(tensor.name, metric)) metrics.push_back(std::move(metric));
  }
  return metrics;
}

std::vector<MetricValue> ValuesOf(const std::vector<TaskMetric>& metrics,
                                  const std::vector<Measure>& measures) {
  std::vector<MetricValue> values;
  for (size_t m = 0; m < std::min(metrics.size(), measures.size()); ++m) {
    std::optional<double> value = MeanOf(measures[m]);
    if (value && metrics[m].kind == TaskMetricKind::kExpOfMean) value = std::exp(*value);
    if (value && !std::isfinite(*value)) value.reset();
    values.push_back({metrics[m].name, value});
  }
  return values;
}

Learned Learn(const TrainingSpec& training, Learned before, Step step, std::optional<double> mean) {
  const ValidationSpec& validation = training.validation;
  const double gain = !mean || !before.best                 ? 0
                      : validation.mode == Better::kSmaller ? *before.best - *mean
                                                            : *mean - *before.best;
  Learned after = before;
  after.cuts_before = before.cuts;
  if (mean && (!before.best || (gain > 0 && gain >= validation.min_delta))) {
    after.best = mean;
    after.best_step = step;
    after.since_best = 0;
    after.no_better = 0;
    return after;
  }
  ++after.since_best;
  ++after.no_better;
  const ScheduleSpec& schedule = training.schedule;
  if (schedule.kind == ScheduleKind::kPlateau && after.no_better > schedule.patience) {
    ++after.cuts;
    after.no_better = 0;
  }
  after.enough = validation.patience > 0 && after.since_best >= validation.patience;
  return after;
}

SumPlaces::SumPlaces(const ValidationSpec& validation, const Layout& layout) {
  for (const Chunk& chunk : layout.chunks())
    if (chunk.kind == TensorKind::kSum) chunk_ = chunk;
  for (const Placed& tensor : layout.tensors()) {
    if (tensor.spec.kind != TensorKind::kSum) continue;
    const auto at = static_cast<size_t>(tensor.offset - chunk_.offset);
    if (tensor.spec.name == kLeftOutName) {
      left_out_ = at;
      left_out_floats_ = static_cast<size_t>(tensor.count);
      continue;
    }
    if (tensor.spec.name == kLearnedName) {
      learned_ = at;
      continue;
    }
    TaskMetric metric;
    TakeMetric(tensor.spec.name, metric);
    if (metric.name == validation.metric) judged_ = places_.size();
    places_.push_back({at, metric.kind == TaskMetricKind::kAuc});
  }
}

void SumPlaces::Write(absl::Span<const TaskMetricSum> measured, absl::Span<float> terms) const {
  MUSTER_CHECK(measured.size() == places_.size(), "a sum for each metric");
  for (size_t m = 0; m < places_.size(); ++m) {
    if (places_[m].is_auc) {
      WriteCounts(measured[m].counts, terms.subspan(places_[m].at, kAucFloats));
      continue;
    }
    const absl::Span<float> tensor = terms.subspan(places_[m].at, kFloats);
    const double sum = measured[m].sum, weight = measured[m].weight;
    if (std::abs(sum) < kSum.limit && weight >= 0 && weight < kWeight.limit) {
      WriteFixed(kSum, sum, tensor);
      WriteFixed(kWeight, weight, tensor);
    } else {
      tensor[kSpoiled] = 1;
    }
  }
}

void SumPlaces::WriteLeftOut(absl::Span<const uint64_t> positions, absl::Span<float> terms) const {
  muster::WriteLeftOut(positions, terms.subspan(left_out_, left_out_floats_));
}

void SumPlaces::Apply(const TrainingSpec& training, uint64_t samples, Step step,
                      absl::Span<const float> sum, absl::Span<const float> from,
                      absl::Span<float> to) const {
  if (to.data() != from.data()) std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
  if (left_out_floats_ > 0)
    std::memcpy(&to[left_out_], &sum[left_out_], left_out_floats_ * sizeof(float));
  if (places_.empty()) return;
  if (const std::optional<Step> measured = BroughtIn(training, samples, step))
    ApplyMeasures(training, *measured, sum, ReadLearned(to.subspan(learned_, kFloats)), to);
}

void SumPlaces::WriteMeasured(const MeasureSums& sums, absl::Span<float> sum) const {
  size_t next = 0;
  for (const Place& place : places_) {
    const size_t floats = place.is_auc ? kAucFloats : kFloats;
    MUSTER_CHECK(sums.floats.size() >= next + floats, "the floats of each metric");
    std::memcpy(&sum[place.at], &sums.floats[next], floats * sizeof(float));
    next += floats;
  }
}

MeasureSums SumPlaces::MeasuredIn(absl::Span<const float> sum) const {
  MeasureSums sums;
  for (const Place& place : places_)
    sums.floats.insert(sums.floats.end(), &sum[place.at],
                       &sum[place.at] + (place.is_auc ? kAucFloats : kFloats));
  return sums;
}

void SumPlaces::ApplyMeasures(const TrainingSpec& training, Step measured,
                              absl::Span<const float> sum, const Learned& before,
                              absl::Span<float> to) const {
  std::optional<double> judged;
  for (size_t m = 0; m < places_.size(); ++m) {
    const size_t at = places_[m].at;
    const Measure measure = places_[m].is_auc ? MeasureOfCounts(sum.subspan(at, kAucFloats))
                                              : MeasureOf(sum.subspan(at, kFloats));
    WriteMeasure(measure, measured, to.subspan(at, kFloats));
    if (m == judged_) judged = MeanOf(measure);
  }
  WriteLearned(Learn(training, before, measured, judged), to.subspan(learned_, kFloats));
}

int64_t CutsIn(const ValidationSpec& validation, const MeasuredState& after, Step step) {
  const bool brought = !after.measures.empty() && BringerOf(validation, after.step) == step;
  return brought ? after.learned.cuts_before : after.learned.cuts;
}

MeasuredState SumPlaces::Read(absl::Span<const float> state) const {
  MeasuredState measured;
  for (const Place& place : places_) {
    const absl::Span<const float> tensor = state.subspan(place.at, kFloats);
    const int64_t next = Kept<int64_t>(4, tensor);
    if (next == 0) continue;
    measured.measures.push_back({Kept<double>(0, tensor), Kept<double>(2, tensor)});
    measured.step = Step(next - 1);
  }
  if (!places_.empty()) measured.learned = ReadLearned(state.subspan(learned_, kFloats));
  measured.left_out = ReadLeftOut(state.subspan(left_out_, left_out_floats_));
  return measured;
}

}  // namespace muster
