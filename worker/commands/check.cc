#include "worker/commands/check.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/base/version.h"
#include "lib/domain/auc.h"
#include "lib/domain/grid.h"
#include "lib/domain/layout.h"
#include "lib/domain/left_out.h"
#include "lib/domain/notes.h"
#include "lib/domain/samples.h"
#include "lib/domain/stream.h"
#include "lib/domain/update_rules.h"
#include "lib/kernels/add.h"
#include "lib/kernels/fingerprint.h"
#include "lib/kernels/finite.h"
#include "lib/kernels/float_env.h"
#include "lib/kernels/norm.h"
#include "lib/member/runtime/flat_pool.h"
#include "lib/member/runtime/setup.h"
#include "worker/commands/check_gradient.h"
#include "worker/commands/memory_of_process.h"
#include "worker/runtime/check_syncs.h"
#include "worker/runtime/first_state.h"
#include "worker/runtime/lane_runner.h"
#include "worker/runtime/meeting_lanes.h"
#include "worker/runtime/phased_lanes.h"

namespace muster::worker {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Measured: threads, connections and metrics, which a worker with a job has besides.
constexpr uint64_t kProbedSamples = 64;
constexpr int64_t kOfAMember = int64_t{16} << 20;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

CheckedInitial InitialOf(const TrainingSpec& training, const InitialValues& values) {
  CheckedInitial initial{.file = training.initial.file,
                         .hash = values.content_hash(),
                         .unused = values.match().unused,
                         .left_out = LeftOutOf(values.match())};
  for (const std::optional<size_t>& stored : values.match().of_model)
    initial.loaded.push_back(stored.has_value());
  return initial;
}

class Bench {
 public:
  Bench(const JobSpec& spec, Task& task, std::vector<TensorSpec> phases, Layout layout,
        std::function<void()> goes_on)
      : goes_on_(std::move(goes_on)),
        spec_(spec),
        training_(spec.training),
        runtime_(spec.runtime),
        phases_(std::move(phases)),
        task_(task),
        layout_(std::move(layout)),
        pool_(static_cast<size_t>(layout_.elements())),
        runner_(task, layout_, spec.training, /*measures=*/nullptr, /*counter=*/nullptr,
                train_metrics_, failpoints_) {}

  absl::Status Begin(CheckReport& report) {
    if (IsStreamed(training_)) runner_.OnlyTry();
    MUSTER_ASSIGN_OR_RETURN(rules_, UpdateRules::Make(training_, layout_));
    MUSTER_RETURN_IF_ERROR(task_.Bind(layout_.ModelSpace()));
    program_ = MemoryNow().now;
    state_ = pool_.BorrowZeroed();
    goes_on_();
    MUSTER_ASSIGN_OR_RETURN(const FirstState first, FirstState::Open(training_, task_));
    MUSTER_RETURN_IF_ERROR(first.Write(task_, layout_.ModelSpace(), Model()));
    if (first.values()) report.initial = InitialOf(training_, *first.values());
    gradient_ = pool_.BorrowZeroed();
    return absl::OkStatus();
  }

  // What the first weights measure.
  absl::Status Measure(LaneMeasures& measures, CheckReport& report) {
    MUSTER_RETURN_IF_ERROR(measures.Bind(layout_));
    goes_on_();
    MUSTER_ASSIGN_OR_RETURN(const std::vector<TaskMetricSum> sums,
                            measures.Probe(kProbedSamples, Model()));
    if (training_.validation.by_follower()) MUSTER_RETURN_IF_ERROR(TimeMeasure(measures, report));
    report.validation = CheckedValidation{measures.task().SampleCount(),
                                          measures.task().DataHash(),
                                          measures.task().DataLeftOut(),
                                          {}};
    std::vector<muster::Measure> pairs;
    for (const TaskMetricSum& sum : sums)
      pairs.push_back(sum.counts.empty() ? muster::Measure{sum.sum, sum.weight}
                                         : AucOf(sum.counts));
    report.validation->values = ValuesOf(MetricsIn(measures.sum_tensors()), pairs);
    return absl::OkStatus();
  }

  // Once more, as the first one may have made things ready.
  absl::Status TimeMeasure(LaneMeasures& measures, CheckReport& report) {
    const int64_t before = MemoryNow().now;
    ForgetPeak();
    goes_on_();
    const auto begin = std::chrono::steady_clock::now();
    MUSTER_RETURN_IF_ERROR(measures.Probe(kProbedSamples, Model()).status());
    const uint64_t samples = measures.task().SampleCount();
    report.follower = CheckedFollower{Seconds(std::chrono::steady_clock::now() - begin) *
                                      static_cast<double>(samples) /
                                      static_cast<double>(std::min(kProbedSamples, samples))};
    measure_memory_ = std::max<int64_t>(0, MemoryNow().peak - before);
    return absl::OkStatus();
  }

  absl::Status RunLane(CheckReport& report) {
    const int64_t before = MemoryNow().now;
    ForgetPeak();
    const auto begin = std::chrono::steady_clock::now();
    MUSTER_ASSIGN_OR_RETURN(const LaneOutput output, Run(LaneId(0)));
    CheckedLane& lane = report.lane;
    lane.seconds = Seconds(std::chrono::steady_clock::now() - begin);
    lane_memory_ = std::max<int64_t>(0, MemoryNow().peak - before);
    lane.samples =
        static_cast<int64_t>(LaneSamples(training_, task_.SampleCount(), Step(0), LaneId(0)).count);
    lane.weight = output.weight;
    lane.loss = output.loss / static_cast<double>(std::max<int64_t>(output.weight, 1));
    lane.input_seconds = std::min(output.input_seconds, lane.seconds);
    const absl::Span<const float> gradient =
        gradient_->all().first(static_cast<size_t>(layout_.parameter_elements()));
    lane.gradient_norm = std::sqrt(SumOfSquares(gradient));
    lane.is_finite = std::isfinite(output.loss) && AllFinite(gradient);
    return absl::OkStatus();
  }

  // The same lane once more, after others.
  absl::Status RunAgain(CheckReport& report) {
    const Fingerprint first = PrintOfGradient();
    const LaneId other(training_.lanes - 1);
    if (other != LaneId(0)) MUSTER_RETURN_IF_ERROR(Run(other).status());
    MUSTER_RETURN_IF_ERROR(RunSmallest());
    MUSTER_RETURN_IF_ERROR(Run(LaneId(0)).status());
    report.lane.is_repeatable = first == PrintOfGradient();
    return absl::OkStatus();
  }

  absl::Status CompareGradient(int entries, CheckReport& report) {
    LossOfLane loss = [this]() -> absl::StatusOr<double> {
      MUSTER_ASSIGN_OR_RETURN(const LaneOutput output, Run(LaneId(0)));
      return output.loss;
    };
    std::unique_ptr<MeetingLanes> meeting;
    if (!phases_.empty()) {
      meeting =
          std::make_unique<MeetingLanes>(PhaseList{phases_, met_}, [] { SetFloatEnvironment(); });
      loss = [this, &meeting] { return LossOfMeeting(*meeting); };
      MUSTER_RETURN_IF_ERROR(loss().status());
    }
    MUSTER_ASSIGN_OR_RETURN(report.gradients, CheckGradient(Trained(), training_.seed, entries,
                                                            loss, state_->all(), gradient_->all()));
    return absl::OkStatus();
  }

  CheckedMemory Memory() const {
    const bool applies = training_.sync == Sync::kAllreduce;
    const int64_t flat = layout_.elements() * kFloat;
    const int64_t slots = SlotCount(training_) * layout_.parameter_elements() * kFloat;
    const int64_t workers = std::min<int64_t>(runtime_.workers_max, training_.lanes);
    const int64_t owners = applies ? workers : std::max(runtime_.servers, 1);
    const auto lanes = static_cast<uint64_t>(LanesOfWorker());
    const int64_t held = MostLanesHeld(spec_);
    CheckedMemory memory;
    memory.program = program_ + kOfAMember;
    memory.state = flat * (applies ? 3 : 2);
    memory.slots = applies ? slots : 0;
    // One more is on its way while the next step begins.
    memory.sums = flat * (std::bit_width(lanes) + 1);
    if (!phases_.empty()) memory.sums = flat * (held + 1) + held * FloatsOfPhases() * kFloat;
    memory.copies = applies ? CeilDiv(flat + slots, owners) : 0;
    memory.lane = lane_memory_ * (phases_.empty() ? 1 : held);
    // What comes of the workers waits for its sum; two states, the slots, and a copy of its part.
    if (!applies) memory.server = CeilDiv(flat * (2 + workers) + slots + (flat + slots), owners);
    // It reads values alone.
    if (training_.validation.by_follower())
      memory.follower = memory.program + flat + measure_memory_;
    return memory;
  }

  // Without the time for results and updates, which a lane does not show.
  void CompareWithSteps(CheckReport& report) const {
    if (!report.follower) return;
    const double step = report.lane.seconds * static_cast<double>(LanesOfWorker());
    report.follower->steps = step > 0 ? report.follower->seconds / step : 0;
    const auto delay = static_cast<double>(training_.validation.delay);
    if (report.follower->steps <= delay) return;
    report.notes.push_back(absl::StrFormat(
        "validation.delay: training may wait for the follower, as a measure takes about as long as "
        "%.0f steps; write more than these, or measure fewer samples",
        report.follower->steps));
  }

 private:
  int64_t LanesOfWorker() const {
    return CeilDiv(training_.lanes, std::min<int64_t>(runtime_.workers_max, training_.lanes));
  }
  absl::Span<float> Model() const {
    return state_->all().first(static_cast<size_t>(layout_.model_elements()));
  }
  // The gradient of what is frozen counts for nothing.
  std::vector<Placed> Trained() const {
    std::vector<Placed> trained;
    for (const Placed& tensor : layout_.tensors())
      if (tensor.spec.kind == TensorKind::kParameter && !rules_.In(tensor.offset, 1)[0].rule.frozen)
        trained.push_back(tensor);
    return trained;
  }
  // An epoch's last step may have lanes with fewer samples than any other, which are too few for
  // batch norm, for one. Lanes that meet have what the others bring, too.
  absl::Status RunSmallest() {
    const uint64_t samples = task_.SampleCount();
    if (IsStreamed(training_) || !phases_.empty()) return absl::OkStatus();
    const Step last(StepsPerEpoch(training_, samples) - 1);
    if (last >= Step(TotalSteps(training_, samples))) return absl::OkStatus();
    const auto count_in = [&](Step step, int32_t lane) {
      return LaneSamples(training_, samples, step, LaneId(lane)).count;
    };
    // Lanes have fewer the later they come, and the last ones may have none.
    int32_t lane = training_.lanes - 1;
    while (lane > 0 && count_in(last, lane) == 0) --lane;
    if (count_in(last, lane) >= std::max<uint64_t>(1, count_in(Step(0), training_.lanes - 1)))
      return absl::OkStatus();
    return Run(LaneId(lane), last).status();
  }

  absl::StatusOr<LaneOutput> Run(LaneId lane, Step step = Step(0)) {
    const absl::Span<float> gradient = gradient_->all();
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    goes_on_();
    if (phases_.empty()) return runner_.Examine(step, lane, state_->all(), gradient);
    met_.clear();
    return runner_.Examine(step, lane, state_->all(), gradient, AloneIn(phases_, met_));
  }

  // The first two lanes as one: what each brings to a phase changes the other's loss. Their
  // gradient is the sum of both.
  absl::StatusOr<double> LossOfMeeting(MeetingLanes& meeting) {
    meeting.GiveUp();
    const TreeNode both{0, std::min(training_.lanes, 2)};
    std::vector<FlatPtr> gradients;
    double loss = 0;
    for (int32_t l = both.lo; l < both.hi; ++l) {
      gradients.push_back(pool_.BorrowZeroed());
      meeting.Add(LaneId(l),
                  [&, l, gradient = gradients.back()](
                      const Exchange& exchange) -> absl::StatusOr<LaneOutput> {
                    MUSTER_ASSIGN_OR_RETURN(LaneOutput output,
                                            runner_.Examine(Step(0), LaneId(l), state_->all(),
                                                            gradient->all(), exchange));
                    loss += output.loss;
                    return output;
                  });
    }
    std::map<size_t, std::vector<float>> totals;
    while (const std::optional<LaneId> next = meeting.Next()) {
      goes_on_();
      MUSTER_RETURN_IF_ERROR(meeting.Run(*next));
      for (const size_t phase : met_) {
        if (totals.count(phase) > 0 || !meeting.HaveAllBrought(phase)) continue;
        std::vector<float>& total = totals[phase];
        total.resize(static_cast<size_t>(phases_[phase].Elements()));
        meeting.SumOf(phase, both, absl::MakeSpan(total));
        meeting.Give(phase, total);
      }
    }
    meeting.GiveUp();
    std::fill(gradient_->all().begin(), gradient_->all().end(), 0.0F);
    for (const FlatPtr& of : gradients) Add(gradient_->all(), of->all(), gradient_->all());
    return loss;
  }

  int64_t FloatsOfPhases() const {
    int64_t floats = 0;
    for (const TensorSpec& phase : phases_) floats += phase.Elements();
    return floats;
  }

  Fingerprint PrintOfGradient() const { return FingerprintOf(0, 0, 0, gradient_->all()); }

  const std::function<void()> goes_on_;
  const JobSpec& spec_;
  const TrainingSpec& training_;
  const RuntimeSpec& runtime_;
  const std::vector<TensorSpec> phases_;  // that lanes meet in; empty: they do not
  std::vector<size_t> met_;               // in the last lane that ran alone
  Task& task_;
  const Layout layout_;
  UpdateRules rules_;
  FlatPool pool_;
  Metrics metrics_{ConstantLabels{}, kVersion};
  TrainMetrics train_metrics_{metrics_};
  Failpoints failpoints_{[](absl::string_view) {}};
  LaneRunner runner_;
  FlatPtr state_, gradient_;
  int64_t program_ = 0;
  int64_t lane_memory_ = 0;
  int64_t measure_memory_ = 0;
};

// What a model remembers, by names.
using Hashes = std::map<std::string, std::string>;

Hashes HashesOf(Remembers* remembers) {
  return remembers == nullptr ? Hashes() : remembers->Remembered();
}

// What the first lanes alone have set, such as a table that is kept, is the same from then on.
std::vector<std::string> Changed(const Hashes& before, const Hashes& now) {
  std::vector<std::string> names;
  for (const auto& [name, hash] : now)
    if (const auto was = before.find(name); was != before.end() && was->second != hash)
      names.push_back(name);
  return names;
}

void JudgeChanges(CheckReport& report) {
  const std::vector<std::string>& changes = report.lane.changes;
  if (changes.empty()) return;
  const size_t others = changes.size() - 1;
  report.problems.push_back(absl::StrCat(
      "Each lane changes the model's attribute '", CutMiddle(Printable(changes.front())), "'",
      others == 0 ? "" : absl::StrCat(" (and ", others, " more)"),
      ", which is not put back, may differ between workers and may grow until memory is full: "
      "make it a buffer of fixed shape, or do not change it in forward."));
}

void JudgeGradients(CheckReport& report) {
  const auto entries = static_cast<int64_t>(report.gradients.size());
  int64_t wrong = 0, untold = 0;
  std::set<std::string> tensors;  // those of which an entry is not told
  for (const CheckedGradient& g : report.gradients) {
    if (g.is_told && !g.agrees) ++wrong;
    if (g.is_told) continue;
    ++untold;
    tensors.insert(g.tensor);
  }
  if (wrong > 0)
    report.problems.push_back(absl::StrCat("The gradient is not that of the loss at ", wrong,
                                           " of ", entries, " entries: see the table."));
  if (untold == 0) return;
  const std::string what =
      absl::StrCat("hether the gradient is that of the loss cannot be told at ", untold, " of ",
                   entries, " entries, since the loss bends or rounds too much there");
  // With as few that agree nothing is known.
  if (2 * untold > entries)
    report.problems.push_back(absl::StrCat(
        "W", what, ": try it with fewer samples in a lane (more `lanes`), a smaller model or ",
        "other first weights, or leave --gradients out."));
  else
    report.notes.push_back(absl::StrCat("w", what, ": of ", absl::StrJoin(tensors, ", ")));
}

void Judge(CheckReport& report) {
  const CheckedLane& lane = report.lane;
  if (!lane.is_finite)
    report.problems.push_back(
        "The first lane's loss or gradient is not finite: look at the data, and at the first "
        "weights.");
  if (!lane.is_repeatable)
    report.problems.push_back(
        "The first lane gives other bits when it is run again: it carries something from one lane "
        "to the next, or draws random numbers that are not seeded by the lane.");
  if (lane.is_finite && lane.gradient_norm == 0)
    report.problems.push_back("The first lane's gradient is zero: no parameter would ever change.");
  JudgeChanges(report);
  JudgeGradients(report);
}

}  // namespace

absl::StatusOr<CheckReport> Check(const JobSpec& spec, Task& task, LaneMeasures* measures,
                                  const CheckOptions& options) {
  CheckReport report;
  report.spec = spec;
  report.tensors = task.Tensors();
  report.samples = task.SampleCount();
  report.data_hash = task.DataHash();
  report.left_out = task.DataLeftOut();
  if (!IsSampleCount(report.samples))
    return absl::FailedPreconditionError(absl::StrCat(
        "the task has ", report.samples, " samples; 1 to ", kMostSamples, " are allowed"));
  for (const TensorSpec& tensor : report.tensors)
    if (tensor.kind == TensorKind::kParameter) report.parameters += tensor.Elements();
  if (const absl::Status fits = CheckDelay(spec.training, report.samples); !fits.ok())
    return absl::FailedPreconditionError(fits.message());
  if (IsStreamed(spec.training)) {
    MUSTER_ASSIGN_OR_RETURN(report.sample_bytes, StreamSampleBytes(spec.training.data));
    report.steps = spec.training.steps;
  } else {
    report.steps_per_epoch = StepsPerEpoch(spec.training, report.samples);
    report.steps = TotalSteps(spec.training, report.samples);
  }
  std::vector<TensorSpec> tensors = report.tensors;
  if (measures != nullptr)
    tensors.insert(tensors.end(), measures->sum_tensors().begin(), measures->sum_tensors().end());
  if (LeavesOut(spec.training)) tensors.push_back(LeftOutTensor(spec.training));
  if (spec.training.sync_batch_norm) {
    MUSTER_RETURN_IF_ERROR(CheckSyncs(spec, task));
    report.phases = task.syncs()->Phases();
    tensors.insert(tensors.end(), report.phases.begin(), report.phases.end());
  }
  absl::StatusOr<Layout> layout = Layout::Make(tensors, ChunkBytes(spec.training));
  if (!layout.ok()) return absl::FailedPreconditionError(layout.status().message());
  MUSTER_RETURN_IF_ERROR(CheckMemoryOfMember(*layout, SlotCount(spec.training)));
  Bench bench(spec, task, report.phases, *std::move(layout), options.goes_on);
  MUSTER_RETURN_IF_ERROR(bench.Begin(report));
  if (measures != nullptr) MUSTER_RETURN_IF_ERROR(bench.Measure(*measures, report));
  MUSTER_RETURN_IF_ERROR(bench.RunLane(report));
  report.memory = bench.Memory();
  const Hashes before = HashesOf(options.remembers);
  MUSTER_RETURN_IF_ERROR(bench.RunAgain(report));
  report.lane.changes = Changed(before, HashesOf(options.remembers));
  if (options.gradients > 0 && report.lane.is_finite)
    MUSTER_RETURN_IF_ERROR(bench.CompareGradient(options.gradients, report));
  report.notes = NotesOn(spec);
  if (std::string note = NoteOnBatchNorm(spec.training, report.tensors); !note.empty())
    report.notes.push_back(std::move(note));
  Judge(report);
  bench.CompareWithSteps(report);
  return report;
}

}  // namespace muster::worker
