#include "worker/plugins/guarded_task.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/job.h"
#include "lib/domain/layout.h"
#include "lib/kernels/float_env.h"

namespace muster::worker {
namespace {

constexpr size_t kMostHashBytes = 256;
constexpr size_t kMostMetrics = 64;
constexpr size_t kMostNameBytes = 64;
constexpr char kLackOfMemory[] =
    "there is no memory left; make its model, its data or its batch smaller";

bool IsMetricName(const std::string& name) {
  return !name.empty() && name.size() <= kMostNameBytes &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

std::string Told(const TensorSpec& tensor) {
  return absl::StrCat("'", Cut(Printable(tensor.name)), "' of ",
                      tensor.shape.empty() ? "one number" : absl::StrJoin(tensor.shape, " × "));
}

// A lack of memory says nothing of its own about whose model or data is too large.
absl::Status NamedLack(const std::string& name, const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? Prefix(absl::StrCat("task ", name), status) : status;
}

// Where `again` first differs from `first`, which are not the same.
std::string WhereTheyDiffer(const std::vector<TensorSpec>& first,
                            const std::vector<TensorSpec>& again) {
  if (again.size() != first.size())
    return absl::StrCat(first.size(), " of them, and then ", again.size());
  const auto [told, other] = std::mismatch(first.begin(), first.end(), again.begin());
  const std::string before = Told(*told), after = Told(*other);
  if (before != after) return absl::StrCat(before, ", and then ", after);
  return absl::StrCat(before, ", and then of another kind or type");
}

// It is told to people, and members compare it, in one frame with all else that they compare.
std::string ShortLeftOut(const std::string& told) {
  constexpr size_t kMost = kMostLinesBytes;
  const std::string start = Printable(absl::string_view(told).substr(0, kMost));
  if (told.size() <= kMost && start.size() <= kMost) return start;
  return absl::StrCat(Cut(start, kMost), " (cut: the task tells ", told.size(), " bytes)");
}

// What a lane has told so far.
class LaneAccount {
 public:
  LaneAccount(const LaneInput& input, const GradientSink& sink, size_t tensors,
              OnBadSample on_bad_sample)
      : samples_(static_cast<int64_t>(input.samples.size())),
        may_leave_out_(on_bad_sample == OnBadSample::kSkip),
        sink_(sink),
        told_(tensors, false) {}

  GradientSink Watched() {
    return {sink_.gradient, [this](LaneOutput output) { Outcome(output); },
            [this](size_t tensor) { Ready(tensor); }};
  }

  // Why it is no lane's end; empty: all has been told. `output` is what RunLane returned.
  std::string WhyNotDone(const LaneOutput& output) const {
    if (!wrong_.empty()) return wrong_;
    if (!outcome_) return "has never told its outcome";
    if (output.weight != outcome_->weight)
      return absl::StrCat("returns weight ", output.weight, " and has told ", outcome_->weight);
    // Which of the two counts depends on where the lane runs. Equal bits, as both may be no number.
    if (std::bit_cast<uint64_t>(output.loss) != std::bit_cast<uint64_t>(outcome_->loss))
      return absl::StrCat("returns loss ", output.loss, " and has told ", outcome_->loss);
    if (output.left_out != outcome_->left_out)
      return "returns other samples that are left out than it has told";
    if (left_ == 0) return "";
    size_t first = 0;
    while (told_[first]) ++first;
    return absl::StrCat("has not told that tensor ", first, " is ready, and ", left_ - 1,
                        " others");
  }

 private:
  void Outcome(const LaneOutput& output) {
    if (outcome_) return Wrong("tells its outcome twice");
    if (left_ < told_.size()) return Wrong("tells that a tensor is ready before its outcome");
    if (output.weight < 0 || output.weight / kMostSampleWeight > samples_)
      return Wrong(absl::StrCat("has weight ", output.weight, " for ", samples_,
                                " samples; allowed: 0 to ", kMostSampleWeight, " of each"));
    // It would be divided by nothing, and the job would learn at a rate that nobody has chosen.
    if (output.weight == 0 && output.loss != 0)
      return Wrong(absl::StrCat("tells a loss of ", output.loss, " and a weight of 0; the weight ",
                                "is of how many samples, or tokens, the loss is the sum"));
    if (const std::string why = WhyNotLeftOut(output); !why.empty()) return Wrong(why);
    outcome_ = output;
    sink_.outcome(output);
  }

  std::string WhyNotLeftOut(const LaneOutput& output) const {
    const std::vector<uint32_t>& left_out = output.left_out;
    if (left_out.empty()) return "";
    if (!may_leave_out_) return "leaves out samples, and data.on_bad_sample is stop";
    for (size_t i = 0; i < left_out.size(); ++i)
      if (left_out[i] >= samples_ || (i > 0 && left_out[i] <= left_out[i - 1]))
        return absl::StrCat("leaves out sample ", left_out[i], " of ", samples_,
                            ", which there is not, or not once and in order");
    const int64_t rest = samples_ - static_cast<int64_t>(left_out.size());
    if (output.weight / kMostSampleWeight > rest || (rest == 0 && output.weight != 0))
      return absl::StrCat("has weight ", output.weight, " for ", rest,
                          " samples that are not left out");
    return "";
  }

  void Ready(size_t tensor) {
    if (!outcome_) return Wrong("tells that a tensor is ready before its outcome");
    if (tensor >= told_.size())
      return Wrong(absl::StrCat("tells that tensor ", tensor, " is ready, and has ", told_.size()));
    if (told_[tensor]) return Wrong(absl::StrCat("tells twice that tensor ", tensor, " is ready"));
    told_[tensor] = true;
    --left_;
    sink_.ready(tensor);
  }

  // The first thing counts; nothing of what follows it goes on.
  void Wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  const int64_t samples_;
  const bool may_leave_out_;
  const GradientSink& sink_;
  std::vector<bool> told_;
  size_t left_ = told_.size();
  std::optional<LaneOutput> outcome_;
  std::string wrong_;
};

class Guarded final : public Task,
                      public Evaluates,
                      public Generates,
                      public ReadsAhead,
                      public Syncs {
 public:
  Guarded(std::string name, std::unique_ptr<Task> task, OnBadSample on_bad_sample, DataPart part)
      : name_(std::move(name)),
        task_(std::move(task)),
        on_bad_sample_(on_bad_sample),
        has_data_(part != DataPart::kNone),
        tensors_(task_->Tensors()),
        samples_(has_data_ ? task_->SampleCount() : 0),
        data_hash_(has_data_ ? task_->DataHash() : ""),
        data_left_out_(has_data_ ? ShortLeftOut(task_->DataLeftOut()) : ""),
        metrics_(MetricsOf(*task_)),
        phases_(PhasesOf(*task_)) {}

  absl::Status Check() const {
    MUSTER_RETURN_IF_ERROR(CheckToldAgain());
    std::vector<TensorSpec> tensors = tensors_;
    for (const TensorSpec& phase : phases_) {
      if (phase.kind != TensorKind::kPhase)
        return absl::FailedPreconditionError(absl::StrCat(
            "task ", name_, " tells phase '", Cut(Printable(phase.name)), "', which is no phase"));
      tensors.push_back(phase);
    }
    if (const absl::Status bad = Layout::Make(tensors, kMaxChunkBytes).status(); !bad.ok())
      return absl::FailedPreconditionError(absl::StrCat("task ", name_, ": ", bad.message()));
    MUSTER_RETURN_IF_ERROR(CheckData());
    return CheckMetrics();
  }

  absl::Status CheckData() const {
    if (!has_data_) return absl::OkStatus();
    if (!IsSampleCount(samples_))
      return absl::FailedPreconditionError(absl::StrCat("task ", name_, " has ", samples_,
                                                        " samples; allowed: 1 to ", kMostSamples));
    if (data_hash_.empty() || data_hash_.size() > kMostHashBytes)
      return absl::FailedPreconditionError(
          absl::StrCat("task ", name_, " tells a hash of its data of ", data_hash_.size(),
                       " characters; members compare it, and it may have 1 to ", kMostHashBytes));
    return absl::OkStatus();
  }

  // The first answers count. But a task that gives others cannot mean what it computes for them.
  absl::Status CheckToldAgain() const {
    if (const std::vector<TensorSpec> again = task_->Tensors(); again != tensors_)
      return absl::FailedPreconditionError(
          absl::StrCat("task ", name_, " has other tensors when it is asked again: ",
                       WhereTheyDiffer(tensors_, again), "; they are fixed once it is made"));
    if (const std::vector<TensorSpec> again = PhasesOf(*task_); again != phases_)
      return absl::FailedPreconditionError(
          absl::StrCat("task ", name_, " has other phases when it is asked again: ",
                       WhereTheyDiffer(phases_, again), "; they are fixed once it is made"));
    if (MetricsOf(*task_) != metrics_)
      return absl::FailedPreconditionError(
          absl::StrCat("task ", name_, " has other metrics when it is asked again; they are fixed ",
                       "once it is made"));
    return absl::OkStatus();
  }

  absl::Status CheckMetrics() const {
    std::set<std::string> names;
    for (const TaskMetric& metric : metrics_) {
      if (!IsMetricName(metric.name) || !names.insert(metric.name).second)
        return absl::FailedPreconditionError(
            absl::StrCat("task ", name_, " measures '", Cut(Printable(metric.name)),
                         "': names of metrics differ, and have 1 to ", kMostNameBytes,
                         " lower-case letters, digits and _"));
    }
    if (metrics_.size() > kMostMetrics || (!metrics_.empty() && metrics_.front().name != "loss"))
      return absl::FailedPreconditionError(absl::StrCat("task ", name_, " must measure 1 to ",
                                                        kMostMetrics, " metrics, and loss first"));
    return absl::OkStatus();
  }

  std::vector<TensorSpec> Tensors() const override { return tensors_; }
  uint64_t SampleCount() const override { return samples_; }
  std::string DataHash() const override { return data_hash_; }
  std::string DataLeftOut() const override { return data_left_out_; }

  absl::Status Bind(const FlatSpace& space) override {
    return Guard([&] { return task_->Bind(space); });
  }
  absl::Status Initialize(uint64_t seed, absl::Span<float> parameters) override {
    return Guard([&] { return task_->Initialize(seed, parameters); });
  }

  absl::StatusOr<LaneOutput> RunLane(const LaneInput& input, GradientSink sink) override {
    LaneAccount account(input, sink, tensors_.size(), on_bad_sample_);
    LaneOutput output;
    MUSTER_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(output, task_->RunLane(input, account.Watched()));
      return absl::OkStatus();
    }));
    if (const std::string why = account.WhyNotDone(output); !why.empty())
      return absl::FailedPreconditionError(absl::StrCat("task ", name_, " ", why));
    return output;
  }

  Evaluates* evaluates() override { return task_->evaluates() == nullptr ? nullptr : this; }
  Generates* generates() override { return task_->generates() == nullptr ? nullptr : this; }
  Syncs* syncs() override { return phases_.empty() ? nullptr : this; }
  std::vector<TensorSpec> Phases() const override { return phases_; }
  ReadsAhead* reads_ahead() override { return task_->reads_ahead() == nullptr ? nullptr : this; }

  absl::Status Coming(std::vector<ComingLane> lanes) override {
    return Guard([&] { return task_->reads_ahead()->Coming(std::move(lanes)); });
  }

  std::vector<TaskMetric> Metrics() const override { return metrics_; }
  absl::StatusOr<std::vector<TaskMetricSum>> Evaluate(absl::Span<const uint64_t> samples,
                                                      absl::Span<const float> parameters) override {
    std::vector<TaskMetricSum> sums;
    MUSTER_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(sums, task_->evaluates()->Evaluate(samples, parameters));
      return absl::OkStatus();
    }));
    if (sums.size() != metrics_.size())
      return absl::FailedPreconditionError(absl::StrCat(
          "task ", name_, " has measured ", sums.size(), " metrics of ", metrics_.size()));
    for (size_t m = 0; m < sums.size(); ++m)
      if (!(sums[m].weight >= 0 && std::isfinite(sums[m].weight)))
        return absl::FailedPreconditionError(absl::StrCat(
            "task ", name_, " has measured ", metrics_[m].name, " with weight ", sums[m].weight));
    for (size_t m = 0; m < sums.size(); ++m) {
      const size_t bins = sums[m].counts.size();
      const bool may_have = metrics_[m].kind == TaskMetricKind::kAuc;
      if (bins != 0 && (!may_have || bins != 2 * kScoreBins))
        return absl::FailedPreconditionError(absl::StrCat(
            "task ", name_, " has measured ", metrics_[m].name, " with ", bins,
            " counts of scores; ",
            may_have ? absl::StrCat(2 * kScoreBins, " are needed") : "only an AUC has them"));
    }
    return sums;
  }
  absl::StatusOr<std::string> Generate(absl::Span<const float> parameters,
                                       const std::string& prompt, size_t bytes, uint64_t seed,
                                       const TextListener& told) override {
    std::string text, heard;
    const TextListener hears = [&](absl::string_view piece) {
      absl::StrAppend(&heard, piece);
      return told(piece);
    };
    MUSTER_RETURN_IF_ERROR(Guard([&]() -> absl::Status {
      MUSTER_ASSIGN_OR_RETURN(text,
                              task_->generates()->Generate(parameters, prompt, bytes, seed, hears));
      return absl::OkStatus();
    }));
    if (absl::StartsWith(text, heard)) return text;
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name_, " has told pieces of another text than it gives"));
  }

 private:
  static std::vector<TaskMetric> MetricsOf(Task& task) {
    return task.evaluates() == nullptr ? std::vector<TaskMetric>() : task.evaluates()->Metrics();
  }
  static std::vector<TensorSpec> PhasesOf(Task& task) {
    return task.syncs() == nullptr ? std::vector<TensorSpec>() : task.syncs()->Phases();
  }

  template <class Work>
  absl::Status Guard(const Work& work) {
    absl::Status status;
    try {
      status = work();
    } catch (const TaskError& thrown) {
      status = thrown.status();
    } catch (const std::bad_alloc&) {
      status = absl::ResourceExhaustedError(kLackOfMemory);
    } catch (const std::exception& thrown) {
      status = absl::InternalError(absl::StrCat("task ", name_, " throws: ", thrown.what()));
    } catch (...) {
      status = absl::InternalError(absl::StrCat("task ", name_, " throws what is no exception"));
    }
    status = NamedLack(name_, status);
    if (FloatEnvironmentIsSet()) return status;
    SetFloatEnvironment();
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name_, " has changed how the processor rounds"));
  }

  const std::string name_;
  const std::unique_ptr<Task> task_;
  const OnBadSample on_bad_sample_;
  const bool has_data_;
  const std::vector<TensorSpec> tensors_;
  const uint64_t samples_;
  const std::string data_hash_;
  const std::string data_left_out_;
  const std::vector<TaskMetric> metrics_;
  const std::vector<TensorSpec> phases_;
};

absl::StatusOr<std::unique_ptr<Guarded>> MakeUnchecked(
    const std::string& name, OnBadSample on_bad_sample, DataPart part,
    const std::function<absl::StatusOr<std::unique_ptr<Task>>()>& make) {
  absl::StatusOr<std::unique_ptr<Task>> made = make();
  MUSTER_RETURN_IF_ERROR(NamedLack(name, made.status()));
  std::unique_ptr<Task> task = *std::move(made);
  if (task == nullptr)
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name, " is not made, without a reason"));
  return std::make_unique<Guarded>(name, std::move(task), on_bad_sample, part);
}

// In a handler of whatever it throws. `when`: "when it is made".
absl::Status StatusOfThrown(const std::string& name, const char* when) {
  try {
    throw;
  } catch (const TaskError& thrown) {
    return thrown.status();
  } catch (const std::bad_alloc&) {
    return NamedLack(name, absl::ResourceExhaustedError(kLackOfMemory));
  } catch (const std::system_error& thrown) {
    const std::string text = absl::StrCat("task ", name, " throws ", when, ": ", thrown.what());
    return thrown.code() == std::errc::no_space_on_device
               ? absl::ResourceExhaustedError(absl::StrCat(text, ": free some space"))
               : absl::FailedPreconditionError(text);
  } catch (const std::exception& thrown) {
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name, " throws ", when, ": ", thrown.what()));
  } catch (...) {
    return absl::FailedPreconditionError(
        absl::StrCat("task ", name, " throws what is no exception ", when));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Task>> MakeGuarded(
    const std::string& name, OnBadSample on_bad_sample,
    const std::function<absl::StatusOr<std::unique_ptr<Task>>()>& make, DataPart part) {
  try {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Guarded> task,
                            MakeUnchecked(name, on_bad_sample, part, make));
    MUSTER_RETURN_IF_ERROR(task->Check());
    return task;
  } catch (const TaskError& thrown) {
    return NamedLack(name, thrown.status());
  } catch (...) {
    return StatusOfThrown(name, "when it is made");
  }
}

absl::Status PrepareGuarded(const std::string& name, const std::function<absl::Status()>& prepare) {
  const bool was_set = FloatEnvironmentIsSet();
  absl::Status status;
  try {
    status = prepare();
  } catch (...) {
    status = StatusOfThrown(name, "when it prepares");
  }
  if (!was_set || FloatEnvironmentIsSet()) return status;
  SetFloatEnvironment();
  return absl::FailedPreconditionError(
      absl::StrCat("task ", name, " has changed how the processor rounds when it prepared"));
}

}  // namespace muster::worker
