#include "worker/runtime/trainer.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/hash.h"
#include "lib/base/plural.h"
#include "lib/base/status.h"
#include "lib/base/time.h"
#include "lib/domain/buckets.h"
#include "lib/domain/left_out.h"
#include "lib/domain/plugin_use.h"
#include "lib/domain/samples.h"
#include "lib/domain/validation.h"
#include "lib/kernels/fingerprint.h"
#include "lib/kernels/finite.h"
#include "lib/kernels/float_env.h"
#include "lib/log/log.h"
#include "lib/member/runtime/load_state.h"
#include "lib/member/runtime/numeric_environment.h"
#include "lib/member/runtime/step_boundary.h"
#include "worker/runtime/check_syncs.h"

namespace muster::worker {
namespace {

constexpr uint64_t kProbeSamples = 4;

using Moment = std::chrono::steady_clock::time_point;
Moment Now() { return std::chrono::steady_clock::now(); }
double Since(Moment begin) { return Seconds(Now() - begin); }

Slots SlotsOf(const StateMemory& state) {
  Slots slots;
  for (size_t s = 0; s < state.slots.size(); ++s) slots[s] = state.slots[s]->all();
  return slots;
}

Slots SlotsOf(const StateMemory& state, const Chunk& chunk) {
  Slots slots;
  for (size_t s = 0; s < state.slots.size() && chunk.kind == TensorKind::kParameter; ++s)
    slots[s] = state.slots[s]->of(chunk);
  return slots;
}

// A job whose lanes have many samples may fail with these few.
absl::Status OfProbe(const TrainingSpec& training, size_t samples, const absl::Status& why) {
  if (why.ok()) return why;
  const std::string which =
      samples == 1 ? "the data's only sample" : absl::StrCat("the first ", samples, " samples");
  if (!LeavesOut(training) || !absl::IsFailedPrecondition(why))
    return Prefix(absl::StrCat("probe lane of ", which), why);
  return Prefix(absl::StrCat("probe lane of ", which,
                             ", without those that cannot be read (data.on_bad_sample; where these "
                             "are so many that too few are left, put others first in data.paths)"),
                why);
}

}  // namespace

Trainer::Trainer(TrainerParts parts) : parts_(std::move(parts)), metrics_(*parts_.metrics) {}
Trainer::~Trainer() = default;

void Trainer::Run() {
  SetFloatEnvironment();
  while (true) {
    const Moment begin = Now();
    std::optional<TrainCommand> command = parts_.port->box.TakeUntil(Time::max());
    if (!command && parts_.port->box.closed()) return;
    if (waits_) metrics_.exposed.Add(Since(begin));
    if (!command || failed_) continue;
    GoOn();
    std::visit([this](const auto& c) { Do(c); }, *command);
    parts_.port->progress.Rests();
  }
}

void Trainer::GoOn() { parts_.port->progress.GoesOn(Now()); }

void Trainer::Fail(const absl::Status& why) {
  failed_ = true;
  parts_.events->Post(TrainFailed{why});
}

// ---- the job

void Trainer::Do(const DoPrepare& command) {
  absl::StatusOr<SetupPtr> setup = Prepare(command);
  failed_ = !setup.ok();
  parts_.events->Post(Prepared{std::move(setup)});
}

absl::StatusOr<SetupPtr> Trainer::Prepare(const DoPrepare& command) {
  const JobIs& job = command.job;
  phased_.reset();  // it holds on to what is made anew
  if (parts_.comes) parts_.comes(job.spec);
  MUSTER_ASSIGN_OR_RETURN(task_,
                          parts_.make_task(job.spec.training, DataPart::kTraining, command.spool));
  GoOn();
  MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
  if (IsStreamed(job.spec.training) && task_->SampleCount() != kMostSamples)
    return absl::FailedPreconditionError(
        absl::StrCat("data.format: task ", job.spec.training.task,
                     " does not read its samples from a data set of Muster's alone, and so cannot "
                     "be trained with a stream"));
  NumericEnvironment environment;
  environment.samples = task_->SampleCount();
  environment.data_hash = task_->DataHash();
  environment.tensors = task_->Tensors();
  if (parts_.follows && !job.spec.training.validation.by_follower())
    return absl::FailedPreconditionError(
        "this is a follower, and the job has none: it says validation.on: workers");
  if (const absl::Status fits = CheckDelay(job.spec.training, environment.samples); !fits.ok())
    return absl::FailedPreconditionError(fits.message());
  MUSTER_RETURN_IF_ERROR(PrepareMeasures(job.spec.training, environment.tensors));
  GoOn();
  if (measures_) MUSTER_RETURN_IF_ERROR(measures_->CheckBest(job.spec));
  if (measures_) MUSTER_RETURN_IF_ERROR(measures_->CheckSplit(*task_));
  if (LeavesOut(job.spec.training)) environment.tensors.push_back(LeftOutTensor(job.spec.training));
  MUSTER_RETURN_IF_ERROR(PreparePhases(job.spec, environment.tensors));
  MUSTER_ASSIGN_OR_RETURN(const SetupPtr draft, MakeSetup(job, environment));
  MUSTER_RETURN_IF_ERROR(task_->Bind(draft->layout.ModelSpace()));
  if (measures_) MUSTER_RETURN_IF_ERROR(measures_->Bind(draft->layout));
  MUSTER_ASSIGN_OR_RETURN(first_state_, FirstState::Open(job.spec.training, *task_));
  GoOn();
  auto setup = std::make_shared<Setup>(*draft);
  MUSTER_ASSIGN_OR_RETURN(setup->environment.numeric, NumericProperties(*draft));
  setup_ = setup;
  // What has told its part of the environment is needed no more: by who is no follower the samples
  // that one measures with, by a follower those that are trained with.
  if (parts_.follows) {
    first_state_.reset();
    task_.reset();
    return setup_;
  }
  if (job.spec.training.validation.by_follower()) measures_.reset();
  PrepareToTrain();
  return setup_;
}

void Trainer::PrepareToTrain() {
  const muster::RuntimeSpec& runtime = setup_->spec.runtime;
  buckets_ = Buckets(setup_->layout, runtime.first_bucket_bytes, runtime.bucket_bytes);
  runner_ =
      std::make_unique<LaneRunner>(*task_, setup_->layout, setup_->spec.training, measures_.get(),
                                   parts_.lanes, metrics_, *parts_.failpoints, [this] {
                                     GoOn();
                                     return absl::OkStatus();
                                   });
  tree_ = std::make_unique<GradientTree>(setup_->layout, setup_->spec.training.lanes, *setup_->pool,
                                         *parts_.copied);
  updater_ = std::make_unique<Updater>(setup_->spec.training, setup_->rules, setup_->sums,
                                       setup_->environment.samples, *parts_.copied);
  way_ = {&setup_->layout,     &buckets_,         tree_.get(),
          parts_.events.get(), parts_.failpoints, [this] { GoOn(); }};
  if (setup_->spec.training.sync_batch_norm)
    phased_ = std::make_unique<PhasedLanes>(way_, *runner_, *parts_.port,
                                            setup_->spec.training.lanes, std::move(phase_order_));
}

// What lanes wait for in their midst.
absl::Status Trainer::PreparePhases(const JobSpec& spec, std::vector<TensorSpec>& tensors) {
  if (!spec.training.sync_batch_norm) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(CheckSyncs(spec, *task_));
  const std::vector<TensorSpec> phases = task_->syncs()->Phases();
  tensors.insert(tensors.end(), phases.begin(), phases.end());
  return absl::OkStatus();
}

// The task once more, over what the model is measured with.
absl::Status Trainer::PrepareMeasures(const TrainingSpec& training,
                                      std::vector<TensorSpec>& tensors) {
  measures_.reset();
  if (!training.validation.wanted()) return absl::OkStatus();
  validated_ = training;
  absl::StatusOr<std::unique_ptr<Task>> task =
      parts_.make_task(validated_, DataPart::kValidation, nullptr);
  MUSTER_RETURN_IF_ERROR(ErrorOfValidation(validated_, task.status()));
  MUSTER_CHECK(FloatEnvironmentIsSet(), "a task must leave the float environment as it is");
  MUSTER_ASSIGN_OR_RETURN(measures_, LaneMeasures::Make(*std::move(task), validated_, tensors));
  const std::vector<TensorSpec>& sums = measures_->sum_tensors();
  tensors.insert(tensors.end(), sums.begin(), sums.end());
  return absl::OkStatus();
}

absl::StatusOr<std::map<std::string, std::string>> Trainer::NumericProperties(const Setup& setup) {
  std::map<std::string, std::string> environment = KernelProperties(setup.spec.training);
  environment[kThreads] = absl::StrCat(setup.spec.training.threads);
  const std::string library = parts_.library_properties ? parts_.library_properties() : "";
  for (absl::string_view line : absl::StrSplit(library, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> property =
        absl::StrSplit(line, absl::MaxSplits(' ', 1));
    environment[property.first] = property.second;
  }
  if (const std::string left_out = task_->DataLeftOut(); !left_out.empty())
    environment[kDataLeftOut] = left_out;
  if (measures_) {
    const Task& measured = measures_->task();
    environment["validation_samples"] = absl::StrCat(measured.SampleCount());
    environment["validation_data_hash"] = measured.DataHash();
    if (const std::string left_out = measured.DataLeftOut(); !left_out.empty())
      environment["validation_data_left_out"] = left_out;
    MUSTER_ASSIGN_OR_RETURN(environment[kValidationProbe], ProbeMeasures(setup));
  }
  if (const std::optional<InitialValues>& initial = first_state_->values()) {
    environment[kInitial] = initial->content_hash();
    const std::string left_out = LeftOutOf(initial->match());
    LogInfo("%d of %s begin as %s has them%s", initial->loaded(),
            Plural(static_cast<int64_t>(initial->match().of_model.size()), "tensor"),
            setup.spec.training.initial.file, left_out.empty() ? "" : absl::StrCat("; ", left_out));
    if (!left_out.empty()) environment[kInitialLeftOut] = left_out;
  }
  MUSTER_ASSIGN_OR_RETURN(environment[kProbeLane], ProbeLane(setup));
  if (setup.spec.training.sync_batch_norm) {
    std::vector<std::string> met;
    for (const size_t phase : phase_order_)
      met.push_back(setup.layout.tensors()[setup.layout.phases()[phase].tensor].spec.name);
    environment[kSyncOrder] = SyncOrder(met);
  }
  return environment;
}

// What the first samples make of state(0): the same bits on every member, or their sums would
// differ.
absl::StatusOr<std::string> Trainer::ProbeLane(const Setup& setup) {
  const FlatPtr state = setup.pool->BorrowZeroed(), gradient = setup.pool->BorrowZeroed();
  const TrainingSpec& training = setup.spec.training;
  const auto model = static_cast<size_t>(setup.layout.model_elements());
  MUSTER_RETURN_IF_ERROR(first_state_->Write(*task_, setup.layout.ModelSpace(),
                                             state->all().first(model), [this] { GoOn(); }));
  std::vector<uint64_t> samples;
  for (uint64_t s = 0; s < std::min(kProbeSamples, setup.environment.samples); ++s)
    samples.push_back(s);
  LaneInput input;
  // Of a stream nothing may have come yet: its samples are made.
  if (IsStreamed(training)) input.epoch = -1;
  input.seed = LaneSeed(training.seed, Step(0), LaneId(0));
  input.samples = samples;
  input.parameters = state->all().first(model);
  std::vector<TensorSpec> phases;
  phase_order_.clear();
  if (training.sync_batch_norm) {
    phases = task_->syncs()->Phases();
    input.exchange = AloneIn(phases, phase_order_);
  }
  const GradientSink sink{gradient->all().first(model), [](LaneOutput) {}, [](size_t) {}};
  MUSTER_RETURN_IF_ERROR(OfProbe(training, samples.size(), task_->RunLane(input, sink).status()));
  if (training.sync_batch_norm && phase_order_.empty())
    return absl::FailedPreconditionError(absl::StrCat(
        "sync_batch_norm: the first ", samples.size(),
        " samples met none of the model's layers of batch norm, so that lanes would not wait for "
        "each other; where these samples cannot be read, put others first, and where such layers "
        "are frozen, leave sync_batch_norm out"));
  return ToHex(FingerprintOf(0, 0, 0, gradient->all()));
}

// Likewise of what is measured.
absl::StatusOr<std::string> Trainer::ProbeMeasures(const Setup& setup) {
  const FlatPtr state = setup.pool->BorrowZeroed();
  const absl::Span<float> model =
      state->all().first(static_cast<size_t>(setup.layout.model_elements()));
  MUSTER_RETURN_IF_ERROR(task_->Initialize(setup.spec.training.seed, model));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<TaskMetricSum> sums,
                          measures_->Probe(kProbeSamples, model));
  uint64_t hash = 0;
  for (const TaskMetricSum& sum : sums) {
    hash = Mix64(hash, std::bit_cast<uint64_t>(sum.sum), std::bit_cast<uint64_t>(sum.weight));
    for (const double count : sum.counts) hash = Mix64(hash, std::bit_cast<uint64_t>(count), 0);
  }
  return absl::StrFormat("%016x", hash);
}

absl::Span<float> Trainer::ModelIn(const FlatBuffer& flat) const {
  return flat.all().first(static_cast<size_t>(setup_->layout.model_elements()));
}

absl::StatusOr<StateMemory> Trainer::MakeState(const Make& make) {
  if (make.manifest) return LoadState(*setup_, make, [this] { GoOn(); });
  StateMemory state = EmptyState(*setup_, make.slots);
  MUSTER_RETURN_IF_ERROR(first_state_->Write(*task_, setup_->layout.ModelSpace(),
                                             ModelIn(*state.values), [this] { GoOn(); }));
  return state;
}

void Trainer::Do(const DoMake& command) {
  ForgetLanes();
  absl::StatusOr<StateMemory> state = MakeState(command.make);
  StateMade made{state.status(), command.make.step, {}};
  if (state.ok()) made.state = *std::move(state);
  parts_.events->Post(std::move(made));
}

// ---- lanes

void Trainer::Do(const DoCompute& command) {
  const Compute& compute = command.compute;
  if (compute.id < parts_.port->abandoned) return;
  if (std::exchange(tree_step_, compute.step) != compute.step) ForgetLanes();
  runner_->LearnSamples(compute.samples);
  // Empty lanes first: then the last one has a backward pass to send under.
  std::vector<LaneId> lanes = compute.lanes;
  std::stable_partition(lanes.begin(), lanes.end(),
                        [&](LaneId l) { return runner_->Empty(compute.step, l); });
  const Step end =
      std::min(Step(setup_->total_steps), compute.step + (compute.next_is_known ? 2 : 1));
  if (const absl::Status told = runner_->TellComing(compute.step, lanes, end); !told.ok())
    return Fail(told);
  if (phased_) return Reach(phased_->Compute(command));
  for (LaneId lane : lanes) {
    if (compute.id < parts_.port->abandoned) return;
    GoOn();
    const absl::Status status =
        lane == lanes.back() ? RunLast(command, lane) : RunInner(command, lane);
    if (!status.ok()) return Fail(status);
  }
  tree_->Publish();
  waits_ = true;
}

void Trainer::Do(const DoGiveTotals& command) {
  if (phased_ && command.given.step == tree_step_) Reach(phased_->Give(command));
}

// Lanes wait for each other, or are done.
void Trainer::Reach(const absl::Status& status) {
  if (!status.ok()) return Fail(status);
  waits_ = true;
}

absl::Status Trainer::RunInner(const DoCompute& command, LaneId lane) {
  FlatPtr gradient = tree_->NewLeaf();
  const GradientSink sink{gradient->all(), [](LaneOutput) {}, [this](size_t) { GoOn(); }};
  MUSTER_ASSIGN_OR_RETURN(
      const LaneOutput output,
      runner_->Run(command.lineage, command.compute.step, lane, command.values->all(), sink));
  tree_->Add(lane, std::move(gradient), output.weight, output.loss);
  return absl::OkStatus();
}

absl::Status Trainer::RunLast(const DoCompute& command, LaneId lane) {
  LeavingLane leaving(way_, command.compute.id, lane, tree_->NewLeaf());
  return runner_
      ->Run(command.lineage, command.compute.step, lane, command.values->all(), leaving.Sink())
      .status();
}

void Trainer::ForgetLanes() {
  if (phased_) phased_->Forget();
  if (tree_) tree_->Clear();
  waits_ = false;
}

void Trainer::Do(const DoAbandon& command) {
  ForgetLanes();
  parts_.events->Post(LanesAbandoned{{command.id, runner_->lanes_run()}});
}

// ---- the step boundary

// Memory that frames may still read is left to them.
StateMemory Trainer::Unlent(const StateMemory& state) {
  StateMemory own{setup_->pool->Borrow(), {}};
  for (const FlatPtr& slot : state.slots) {
    own.slots.push_back(setup_->pool->Borrow());
    CopyFloats(slot->all(), own.slots.back()->all(), *parts_.copied);
  }
  return own;
}

// Each by itself: in their sum one cannot see whose it was.
absl::StatusOr<std::vector<LaneId>> Trainer::LanesNotFinite(const DoApply& command) {
  const auto parameters = static_cast<size_t>(setup_->layout.parameter_elements());
  std::vector<LaneId> found;
  // Where a total is not finite, no lane is after it: who has spoilt it is named.
  std::optional<size_t> spoilt;
  if (phased_) spoilt = phased_->FirstNotFinite(*command.results);
  for (LaneId lane : command.apply.examine) {
    GoOn();
    const FlatPtr gradient = setup_->pool->BorrowZeroed();
    bool is_spoiler = false;
    Exchange exchange;
    if (phased_) exchange = phased_->Examining(*command.results, spoilt, is_spoiler);
    MUSTER_ASSIGN_OR_RETURN(const LaneOutput output,
                            runner_->Examine(command.apply.step, lane, command.values->all(),
                                             gradient->all(), exchange));
    const absl::Span<float> values = gradient->all().first(parameters);
    setup_->rules.ZeroFrozen(0, values);
    const bool is_finite = std::isfinite(output.loss) && AllFinite(values);
    if (spoilt ? is_spoiler : !is_finite) found.push_back(lane);
  }
  return found;
}

// The step is not finite: state(step + 1) is state(step).
void Trainer::Skip(const DoApply& command) {
  runner_->LearnSamples(command.apply.samples);
  absl::StatusOr<std::vector<LaneId>> found = LanesNotFinite(command);
  if (!found.ok()) return Fail(found.status());
  StateMemory to = command.state;
  if (command.lent) {
    to = Unlent(command.state);
    CopyFloats(command.state.values->all(), to.values->all(), *parts_.copied);
  }
  if (!to.slots.empty()) {
    for (const Chunk& chunk : setup_->layout.chunks())
      updater_->MoveAverage(chunk, command.apply.step, to.values->of(chunk), SlotsOf(to, chunk));
  }
  parts_.events->Post(StateApplied{command.apply.step, std::move(to), *std::move(found)});
}

double Trainer::RateOf(const DoApply& command) const {
  const SumPlaces& sums = setup_->sums;
  const int64_t cuts =
      sums.empty() ? 0 : sums.Read(command.state.values->of(sums.chunk())).learned.cuts;
  return updater_->RateOf(command.apply.step, cuts);
}

void Trainer::Do(const DoApply& command) {
  ForgetLanes();
  if (command.apply.skip) return Skip(command);
  MUSTER_CHECK(FloatEnvironmentIsSet(), "updates are made where subnormal numbers count as zero");
  const Moment begin = Now();
  StateMemory to = command.state;
  if (command.lent) to = Unlent(command.state);
  const double rate = command.results ? RateOf(command) : 0;
  if (command.results) {  // else servers have applied
    updater_->ApplyAll(setup_->layout, command.apply.step, rate, command.apply.norm,
                       command.results->all(), command.state.values->all(), to.values->all(),
                       SlotsOf(to), [this] { GoOn(); });
  }
  metrics_.update.Add(Since(begin));
  parts_.events->Post(StateApplied{command.apply.step, std::move(to), {}});
}

void Trainer::Do(const DoStepBoundary& command) {
  StepBoundaryTaken taken{{command.boundary.step, std::nullopt}, std::nullopt};
  if (command.boundary.fingerprint)
    taken.done.fingerprint = FingerprintOfState(*setup_, command.state, AllChunks(setup_->layout),
                                                /*whole=*/true, [this] { GoOn(); });
  if (!command.boundary.part.empty()) {
    taken.part = CopyCheckpointPart(*setup_, command.state, command.lineage, command.boundary.step,
                                    command.boundary.part, *parts_.copied, [this] { GoOn(); });
    parts_.failpoints->Pass("part_copied");
  }
  parts_.events->Post(std::move(taken));
}

// The model alone: neither slots nor what stands behind it in the flat space.
absl::StatusOr<StateMemory> Trainer::LoadMeasured(const Manifest& manifest) {
  Make make{manifest.lineage, manifest.step, manifest, {}, /*slots=*/false};
  for (int32_t c = 0; c < setup_->layout.chunk_count(); ++c)
    if (IsOfModel(setup_->layout.chunk(ChunkId(c)).kind)) make.chunks.emplace_back(c);
  return LoadState(*setup_, make, [this] { GoOn(); });
}

void Trainer::Do(const DoMeasure& command) {
  const int64_t id = command.measure.id;
  if (id < parts_.port->abandoned) return;
  const Moment begin = Now();
  FlatPtr values = command.values;
  if (!values) {
    absl::StatusOr<StateMemory> state = LoadMeasured(command.measure.manifest);
    if (!state.ok()) {
      parts_.events->Post(StateMeasured{{id, state.status()}, Since(begin)});
      return;
    }
    values = state->values;
  }
  const Moment measuring = Now();
  absl::StatusOr<MeasureSums> sums = measures_->MeasureAll(ModelIn(*values), [&] {
    GoOn();
    parts_.failpoints->Pass("measuring");
    return id < parts_.port->abandoned ? absl::CancelledError("another state is to be measured")
                                       : absl::OkStatus();
  });
  metrics_.validation.Add(Since(measuring));
  if (!sums.ok() && !absl::IsCancelled(sums.status())) return Fail(sums.status());
  parts_.events->Post(StateMeasured{{id, std::move(sums)}, Since(begin)});
}

void Trainer::Do(const DoGenerate& command) {
  Generates* const generates = task_->generates();
  absl::StatusOr<std::string> text = absl::UnimplementedError("this task makes no text");
  if (generates != nullptr)
    text = generates->Generate(ModelIn(*command.values), command.prompt, command.bytes,
                               setup_->spec.training.seed, [this](absl::string_view) {
                                 GoOn();
                                 return absl::OkStatus();
                               });
  parts_.events->Post(Generated{std::move(text)});
}

}  // namespace muster::worker
