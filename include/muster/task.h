// The contract of a model: for one lane, the gradient of the SUM of its samples' losses and an
// integer weight. Spans only: a task may compute with any library, and muster::torch::ModuleTask
// (muster/torch/module_task.h) is one for LibTorch's modules. A task is pure: RunLane depends on
// (parameters, buffers, sample ids, seed) alone and carries nothing from one lane to the next. All
// methods run on the worker's train thread. What a task throws ends its worker, as an error does.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "muster/tensor.h"

namespace muster {

// What a task may throw in place of returning an error: it is taken for that status.
class __attribute__((visibility("default"))) TaskError : public std::runtime_error {
 public:
  explicit TaskError(const absl::Status& status)
      : std::runtime_error(std::string(status.message())), status_(status) {}
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
};

inline void ThrowIfError(const absl::Status& status) {
  if (!status.ok()) throw TaskError(status);
}

template <class T>
T ValueOrThrow(absl::StatusOr<T> value) {
  if (!value.ok()) throw TaskError(value.status());
  return *std::move(value);
}

// What a run of one lane is told.
struct LaneInput {
  int64_t step = 0;
  int32_t lane = 0;
  int64_t epoch = 0;                   // that the samples are taken in
  uint64_t seed = 0;                   // of every random generator the lane uses
  absl::Span<const uint64_t> samples;  // sample ids, never empty: empty lanes are not run
  // The flat space at the step's begin: parameters and buffers at their offsets. 64-byte aligned.
  absl::Span<const float> parameters;
  // Of a task that syncs, where the job says sync_batch_norm: brings this lane's terms of a phase
  // (an index into Syncs::Phases(), with all its elements) and waits for the total over all lanes
  // of the step, which stays as it is until RunLane returns. Empty: the lane is alone, and its own
  // terms are the total. kCancelled: the lane is given up; return at once with that status.
  // Whatever the samples, a lane has each phase of the job's order once, in that order.
  std::function<absl::StatusOr<absl::Span<const float>>(size_t phase,
                                                        absl::Span<const float> terms)>
      exchange{};
};

struct LaneOutput {
  // Samples or tokens: what `reduction: mean` divides by. At most 2^20 of each sample; 0 only of
  // a loss of 0.
  int64_t weight = 0;
  double loss = 0;           // summed over the samples
  double input_seconds = 0;  // of RunLane, spent on making its samples ready; the rest is compute
  // Positions in LaneInput::samples, ascending: those that could not be read, and are no part of
  // the rest (data.on_bad_sample: skip). All of them: the weight is 0.
  std::vector<uint32_t> left_out{};
};

// Where a lane's gradient goes.
struct GradientSink {
  // The flat space; all +0.0 at the start, also in the holes, which stay so. A buffer tensor's new
  // value is written at its offset instead of a gradient. 64-byte aligned.
  absl::Span<float> gradient;
  // Exactly once, when the forward pass is done and before the first `ready`: what RunLane will
  // return.
  std::function<void(LaneOutput)> outcome;
  // A tensor is final; each exactly once before RunLane returns, in any order, on the calling
  // thread, as early as possible.
  std::function<void(size_t tensor)> ready;
};

class Evaluates;
class Generates;
class ReadsAhead;
class Syncs;

class Task {
 public:
  virtual ~Task() = default;
  // Tensors in registration order. Fixed for the life of the task.
  virtual std::vector<TensorSpec> Tensors() const = 0;
  virtual uint64_t SampleCount() const = 0;  // size of the data set, at least 1
  virtual std::string DataHash() const = 0;  // of the content, equal on every member
  // What of the data could not be read and is no part of it, for people; empty: nothing. Equal on
  // every member.
  virtual std::string DataLeftOut() const { return ""; }
  // Where the tensors stand in the spans below. Called once, before anything below.
  virtual absl::Status Bind(const FlatSpace& space) = 0;
  // Writes the initial state at the tensors' offsets; `parameters` is all +0.0 before.
  virtual absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) = 0;
  // kInvalidArgument or kDataLoss: the data is bad (exit code 65); the message names the file.
  virtual absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) = 0;

  // Rarer abilities of this task: by default, what it derives from, too. nullptr: it has none.
  virtual Evaluates* evaluates();
  virtual Generates* generates();
  virtual ReadsAhead* reads_ahead();
  virtual Syncs* syncs();
};

// The samples of a lane that is likely to be run soon.
struct ComingLane {
  int64_t epoch = 0;
  std::vector<uint64_t> samples;  // sample ids, in the lane's order, never empty
};

// A rarer ability: makes samples ready on threads of its own, before they are asked for.
class ReadsAhead {
 public:
  virtual ~ReadsAhead() = default;
  // The lanes that are likely to come next, in this order; those told before and not told again
  // are not. A hint that RunLane's result never depends on. Waits for nothing; on the train thread.
  virtual absl::Status Coming(std::vector<ComingLane> lanes) = 0;
};

// A rarer ability: totals over all lanes of a step in the midst of a lane (sync_batch_norm).
// RunLane of such a task is called on a thread for each lane that is held at once: one of them runs
// at a time, and another may go on where one waits in LaneInput::exchange.
class Syncs {
 public:
  virtual ~Syncs() = default;
  // Tensors of the kind kPhase, each name once and none of the model's. Fixed for the life of the
  // task; empty: it has none, and then a job with sync_batch_norm is refused.
  virtual std::vector<TensorSpec> Phases() const = 0;
};

// What is measured of a model, over samples that it is not trained with.
enum class TaskMetricKind {
  kMean,
  kExpOfMean,  // of a mean, such as a perplexity
  kAuc         // the area under the curve of true and false positives, of two classes
};
struct TaskMetric {
  std::string name;  // "accuracy": lower-case letters, digits and "_"
  TaskMetricKind kind = TaskMetricKind::kMean;
  bool operator==(const TaskMetric&) const = default;
};
struct TaskMetricSum {
  double sum = 0;
  double weight = 0;  // samples or tokens: the mean is sum ÷ weight
  // Of a kAuc metric alone, which has neither: how many of the negative class have a score in each
  // bin (ScoreBin), and then how many of the positive one. Empty: there are none.
  std::vector<double> counts{};

  TaskMetricSum& operator+=(const TaskMetricSum& other) {
    sum += other.sum;
    weight += other.weight;
    if (counts.empty()) counts.resize(other.counts.size());
    for (size_t i = 0; i < other.counts.size() && i < counts.size(); ++i)
      counts[i] += other.counts[i];
    return *this;
  }
};

// Scores are logits: a bin is a quarter wide, the first one ends at -11.75, and the last one begins
// at 11.75. What is no number has none.
inline constexpr size_t kScoreBins = 96;
inline size_t ScoreBin(double logit) {
  constexpr double kLast = static_cast<double>(kScoreBins - 1);
  return static_cast<size_t>(std::clamp(std::floor((logit + 12) * 4), 0.0, kLast));
}

// An ability: how good a model is. All methods run on the worker's train thread.
class Evaluates {
 public:
  virtual ~Evaluates() = default;
  // Fixed for the life of the task; the first is "loss".
  virtual std::vector<TaskMetric> Metrics() const = 0;
  // One for each of Metrics(), over these samples (ids below SampleCount, at least one). Nothing is
  // random in it, and nothing is carried over: the same samples and state, the same bits.
  // `parameters` as of LaneInput. Errors as of RunLane.
  virtual absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(
      absl::Span<const uint64_t> samples, absl::Span<const float> parameters) = 0;
};

// Hears a text while it is made, piece by piece. After an error nobody wants the rest of it.
using TextListener = std::function<absl::Status(absl::string_view piece)>;

// An ability: a text sample from a trained model.
class Generates {
 public:
  virtual ~Generates() = default;
  // What follows `prompt`, in so many bytes at most; the same state, prompt and seed, the same
  // text. `told` hears its pieces in order, each as soon as it is made, so that people need not
  // wait for the last one; what it returns that is no OK is given back at once. A task that makes
  // all at once tells nothing. `parameters` as of LaneInput.
  virtual absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                               const std::string& prompt, size_t bytes,
                                               uint64_t seed, const TextListener& told) = 0;
};

inline Evaluates* Task::evaluates() { return dynamic_cast<Evaluates*>(this); }
inline Generates* Task::generates() { return dynamic_cast<Generates*>(this); }
inline ReadsAhead* Task::reads_ahead() { return dynamic_cast<ReadsAhead*>(this); }
inline Syncs* Task::syncs() { return dynamic_cast<Syncs*>(this); }

}  // namespace muster
