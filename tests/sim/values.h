// Symbolic values: a number that stands for the term of its tree, so that a wrong sum, a wrong
// order or a torn state shows as another number. Under `order: free` sums of the same parts are
// equal whatever the order. Weights and losses are real: those of a task that counts samples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/hash.h"
#include "lib/base/ids.h"
#include "lib/domain/job.h"
#include "lib/domain/lanes.h"
#include "lib/domain/layout.h"
#include "lib/domain/left_out.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"

namespace muster::sim {

using Value = uint64_t;
inline constexpr Value kTorn = 0xdeadbeefdeadbeefu;  // memory that is being written

// The arithmetic of one job.
class Terms {
 public:
  // `not_finite_every`: about every so many steps one is not finite; 0: all are. `bad_every`: about
  // every so many samples one cannot be read; 0: all can.
  Terms(TrainingSpec training, uint64_t samples, int64_t steps, std::vector<TensorKind> kinds,
        int32_t slots, uint64_t not_finite_every, uint64_t bad_every)
      : training_(std::move(training)),
        samples_(samples),
        steps_(steps),
        kinds_(std::move(kinds)),
        slots_(slots),
        not_finite_every_(not_finite_every),
        bad_every_(bad_every) {}

  int32_t chunks() const { return static_cast<int32_t>(kinds_.size()); }
  // All but the phases, which are the last.
  int32_t gradient_chunks() const {
    return static_cast<int32_t>(kinds_.size()) -
           static_cast<int32_t>(std::count(kinds_.begin(), kinds_.end(), TensorKind::kPhase));
  }
  int32_t slots() const { return slots_; }
  bool buffer(size_t chunk) const { return kinds_[chunk] == TensorKind::kBuffer; }
  bool parameter(size_t chunk) const { return kinds_[chunk] == TensorKind::kParameter; }
  bool sum(size_t chunk) const { return kinds_[chunk] == TensorKind::kSum; }
  bool phase(size_t chunk) const { return kinds_[chunk] == TensorKind::kPhase; }

  // The phases that a lane meets, in its order, which is not that of their chunks. Now and then
  // there is one that no lane meets: then all bring nothing to it.
  std::vector<size_t> SyncOrder() const {
    std::vector<size_t> order;
    for (size_t c = 0; c < kinds_.size(); ++c)
      if (phase(c) && Mix64(14, c, static_cast<uint64_t>(training_.batch)) % 6 != 0)
        order.push_back(c);
    std::sort(order.begin(), order.end(),
              [](size_t a, size_t b) { return Mix64(15, a) < Mix64(15, b); });
    return order;
  }
  // What a lane with samples brings to its `at`-th phase, having had the totals before it.
  Value Brings(Value state, Step step, LaneId lane, size_t at, Value totals) const {
    return Mix64(Mix64(16, state, totals),
                 Mix64(static_cast<uint64_t>(step.value()), static_cast<uint64_t>(lane.value())),
                 at);
  }
  static constexpr Value kBringsNothing = 0;
  static constexpr Value kNoTotals = 0;
  static Value WithTotal(Value totals, Value total) { return Mix64(Mix64(17, totals), total); }

  Value Initial(size_t chunk) const { return sum(chunk) || phase(chunk) ? 0 : Mix64(1, chunk); }
  Value ZeroSlot(size_t chunk) const { return Mix64(2, chunk); }
  // `totals`: of all phases, for a lane with samples.
  Value Gradient(Value state, Step step, LaneId lane, size_t chunk, Value totals) const {
    if (sum(chunk)) return TermsOfSums(state, step, lane);
    return Mix64(Mix64(3, state) ^ totals,
                 Mix64(static_cast<uint64_t>(step.value()), static_cast<uint64_t>(lane.value())),
                 chunk);
  }
  // Adds two children of a node. A buffer has one contributor, lane 0, which is on the left.
  Value Sum(size_t chunk, Value left, Value right) const {
    if (buffer(chunk)) return left;
    if (sum(chunk)) return left + right;  // exact in any order
    return training_.order == SumOrder::kFree ? left + right : Mix64(Mix64(4, left), right);
  }
  Value WholeState(const std::vector<Value>& values) const {
    Value v = 5;
    for (Value value : values) v = Mix64(v, value);
    return v;
  }
  // Stands for the square of a norm: it is exact in a double, and other sums have another one.
  // Whether the gradient of the chunk is finite in this step. Now and then that of one is not; in
  // the last step never, since a job that stops there stops there again whenever it goes on.
  bool IsFinite(Step step, size_t chunk) const {
    if (not_finite_every_ == 0 || step.value() + 1 >= steps_) return true;
    const uint64_t drawn = Mix64(10, static_cast<uint64_t>(step.value()));
    return drawn % not_finite_every_ != 0 || Mix64(drawn) % parameters() != chunk;
  }
  bool IsFinite(Step step) const {
    for (size_t c = 0; c < kinds_.size(); ++c)
      if (!IsFinite(step, c)) return false;
    return true;
  }
  bool Skips(Step step) const { return training_.on_nan != OnNan::kContinue && !IsFinite(step); }
  double SquareOf(size_t chunk, Value sum) const {
    const bool counts = training_.clip_norm > 0 && parameter(chunk);
    return counts ? static_cast<double>(Mix64(6, sum) % 1000003) : 0;
  }
  Value NewValue(Step step, size_t chunk, Value old, const std::vector<Value>& slots, Value sum,
                 double norm) const {
    if (buffer(chunk)) return sum;
    if (phase(chunk)) return old;
    if (this->sum(chunk)) return NewSums(step, old, sum);
    Value v = Mix64(7, old);
    for (Value slot : slots) v = Mix64(v, slot);
    return Mix64(v, Mix64(sum, static_cast<uint64_t>(norm * 64)));
  }
  Value NewSlot(size_t slot, Value old, Value sum, double norm) const {
    return Mix64(Mix64(8 + slot, old), sum, static_cast<uint64_t>(norm * 64));
  }

  // What the chunk of sums holds, where there is one.
  std::optional<MeasuredState> MeasuredIn(const std::vector<Value>& values) const {
    const auto found = std::find(kinds_.begin(), kinds_.end(), TensorKind::kSum);
    if (found == kinds_.end()) return std::nullopt;
    return MeasuredOf(values[static_cast<size_t>(found - kinds_.begin())]);
  }
  // Its value is no hash alone: what is learned can be read in it.
  static MeasuredState MeasuredOf(Value value) {
    const auto take = [&value](int bits) {
      const Value low = value & ((Value{1} << bits) - 1);
      value >>= bits;
      return low;
    };
    MeasuredState measured;
    for (uint64_t position = 0; position < kPositions; ++position)
      if (take(1) == 1) measured.left_out.push_back(position);
    const auto mean = static_cast<double>(take(10)), best = static_cast<double>(take(10));
    if (take(1) == 1) measured.learned.best = best;
    measured.learned.since_best = static_cast<int64_t>(take(5));
    measured.learned.enough = take(1) == 1;
    const auto next = static_cast<int64_t>(take(10));
    if (next == 0) return measured;
    measured.step = Step(next - 1);
    measured.measures = {{mean, 1}};
    return measured;
  }

  // What a follower measures of state(step), of which `state` is the whole: a mean of weight 1, as
  // the coordinator reads it, too.
  MeasureSums FactOf(Value state, Step step) const {
    Value sum = 0;
    for (int32_t lane = 0; lane < training_.lanes; ++lane)
      sum += MeasuredBy(state, step, LaneId(lane));
    MeasureSums sums;
    sums.floats.assign(kFloatsOfMetric, 0.0f);
    sums.floats[kMean] = static_cast<float>(MeanOf(sum));
    sums.floats[kWeight] = 1;
    return sums;
  }
  static Value TermOf(const MeasureSums& fact) {
    return static_cast<Value>(fact.floats[kMean]) << kPositions;
  }
  // The sum of what lanes bring, with what a follower measured in its place.
  static Value WithFact(Value sum, const MeasureSums& fact) {
    return (sum & kLeftOut) | TermOf(fact);
  }
  // The sum of the chunk in this step before that.
  Value WithoutFact(size_t chunk, Step step, Value sum) const {
    const bool is_brought = this->sum(chunk) && training_.validation.by_follower() &&
                            BroughtIn(training_, samples_, step);
    return is_brought ? sum & kLeftOut : sum;
  }

  int64_t Weight(Step step, LaneId lane) const {
    return static_cast<int64_t>(LaneSamples(training_, samples_, step, lane).count -
                                LeftOutBy(step, lane).size());
  }
  // Positions in the step's samples.
  std::vector<uint64_t> LeftOut(Step step) const {
    std::vector<uint64_t> positions;
    for (int32_t lane = 0; lane < training_.lanes; ++lane)
      for (const uint64_t position : LeftOutBy(step, LaneId(lane))) positions.push_back(position);
    return positions;
  }
  // Not exact in binary, so that sums in another order are other doubles.
  double Loss(Step step, LaneId lane) const {
    const uint64_t bits = Mix64(LaneSeed(training_.seed, step, lane), 9) % 1000;
    return static_cast<double>(Weight(step, lane)) * (0.1 + static_cast<double>(bits) / 1000.0);
  }

  const TrainingSpec& training() const { return training_; }
  uint64_t samples() const { return samples_; }  // of a stream as many as there will be
  int64_t steps() const { return steps_; }       // in all

 private:
  // The lowest bits of a sum, and of what it makes of the state, are those of samples that are left
  // out, one for each of a step; no two lanes have the same. Above them is what is measured.
  static constexpr int kPositions = 20;
  static constexpr Value kLeftOut = (Value{1} << kPositions) - 1;
  static constexpr size_t kMean = 4, kWeight = 11;  // limbs of which one stands for 1

  static Value MeanOf(Value sum) { return Mix64(11, sum) % 1000; }

  std::vector<uint64_t> LeftOutBy(Step step, LaneId lane) const {
    std::vector<uint64_t> positions;
    if (bad_every_ == 0) return positions;
    const SampleRange range = LaneSamples(training_, samples_, step, lane);
    const uint64_t first = FirstOfLane(training_, samples_, step, lane);
    const std::vector<uint64_t> ids = SampleIds(training_, samples_, range);
    for (size_t i = 0; i < ids.size(); ++i)
      if (Mix64(13, ids[i]) % bad_every_ == 0) positions.push_back(first + i);
    return positions;
  }
  Value MeasuredBy(Value state, Step step, LaneId lane) const {
    return Mix64(Mix64(3, state),
                 Mix64(static_cast<uint64_t>(step.value()), static_cast<uint64_t>(lane.value())))
           << kPositions;
  }
  Value TermsOfSums(Value state, Step step, LaneId lane) const {
    Value term = 0;
    const ValidationSpec& validation = training_.validation;
    if (validation.wanted() && !validation.by_follower() && IsMeasuredIn(training_, samples_, step))
      term = MeasuredBy(state, step, lane);
    for (const uint64_t position : LeftOutBy(step, lane)) term += Value{1} << position;
    return term;
  }
  Value NewSums(Step step, Value old, Value sum) const {
    Value value = old >> kPositions;
    const auto put = [&value](int bits, Value low) { value = value << bits | low; };
    if (const std::optional<Step> measured = BroughtIn(training_, samples_, step)) {
      const Value mean = training_.validation.by_follower() ? sum >> kPositions : MeanOf(sum);
      const Learned learned =
          Learn(training_, MeasuredOf(old).learned, *measured, static_cast<double>(mean));
      value = Mix64(12, sum);
      put(10, static_cast<Value>(measured->value() + 1));
      put(1, learned.enough ? 1 : 0);
      put(5, static_cast<Value>(learned.since_best) & 31);
      put(1, 1);
      put(10, static_cast<Value>(learned.best.value_or(0)));
      put(10, mean);
    }
    put(kPositions, sum & kLeftOut);
    return value;
  }
  size_t parameters() const {
    return static_cast<size_t>(std::count(kinds_.begin(), kinds_.end(), TensorKind::kParameter));
  }

  TrainingSpec training_;
  uint64_t samples_;
  int64_t steps_;
  std::vector<TensorKind> kinds_;
  int32_t slots_;
  uint64_t not_finite_every_;
  uint64_t bad_every_;
};

// Indexed by slot of the optimizer, then by chunk. The slots of a buffer are never read.
using SlotValues = std::vector<std::vector<Value>>;

inline std::vector<Value> SlotsOf(const SlotValues& slots, size_t chunk) {
  std::vector<Value> of;
  for (const std::vector<Value>& slot : slots) of.push_back(slot[chunk]);
  return of;
}

}  // namespace muster::sim
