// What a user asks for (docs/protocol.md section 1). `TrainingSpec`: whatever can change a bit;
// hashed, immutable. `RuntimeSpec`: how it runs. `QueueSpec`: what the queue and people need. Plain
// values; lib/wire/job_codec reads and writes them as YAML, JSON and protobuf and checks them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/domain/initial_spec.h"
#include "muster/task_options.h"

namespace muster {

enum class Sync { kAllreduce, kServer };
enum class SumOrder { kCanonical, kFree };
enum class Reduction { kMean, kSum };
enum class Precision { kFp32 };
enum class OptimizerKind { kSgd, kMomentum, kAdam, kAdamW, kRmsprop, kAdagrad, kLamb, kLars };
// Which parameters `weight_decay` is for: all, or those of two or more dimensions, so that biases
// and the scales of norms are left out.
enum class DecayOn { kAll, kMatrices };
// What is done about a step whose gradient or loss is not finite.
enum class OnNan { kStop, kSkip, kContinue };
enum class ScheduleKind {
  kConstant,
  kLinear,
  kCosine,
  kStep,
  kMilestones,
  kPolynomial,
  kOneCycle,
  kPlateau
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double learning_rate = 0.01;
  double momentum = 0.9;  // momentum, LARS
  bool nesterov = false;  // momentum only
  double beta1 = 0.9;     // Adam, AdamW, LAMB
  double beta2 = 0.999;
  double alpha = 0.99;      // RMSprop
  double epsilon = 1e-8;    // all but sgd, momentum
  double trust = 0.001;     // LARS: its rate is this × norm of the values ÷ norm of the gradient
  double weight_decay = 0;  // decoupled for AdamW, L2 for all others, as LibTorch does
  DecayOn weight_decay_on = DecayOn::kAll;
  bool operator==(const OptimizerSpec&) const = default;
};

// The optimizer's own slots, each as large as the parameters: sgd 0, momentum, RMSprop, Adagrad and
// LARS 1, Adam, AdamW and LAMB 2.
int SlotCount(OptimizerKind kind);

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::kConstant;
  int64_t warmup_steps = 0;  // linear from 0 (exclusive) to the full rate
  double final_ratio = 0;    // linear, cosine, polynomial: rate at the last step ÷ learning_rate
  int64_t step_size = 0;     // step: steps from one fall to the next; at least 1 there
  std::vector<int64_t> milestones{};  // milestones: the steps of its falls, ascending, at least one
  double gamma = 0.1;     // step, milestones, plateau: what each fall multiplies the rate with
  int64_t patience = 10;  // plateau: so many measures in a row may be no better
  double power = 1;       // polynomial
  // One cycle: the share of the steps in which the rate rises, learning_rate ÷ the first rate, and
  // the first rate ÷ the last one.
  double pct_start = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool operator==(const ScheduleSpec&) const = default;
};

// Which means of a metric are the better ones.
enum class Better { kSmaller, kLarger };

// Who measures: the workers in the step, or a process beside them while they train on.
enum class MeasuredOn { kWorkers, kFollower };

// The model is measured on samples of its own while it trains (lib/domain/validation.h).
struct ValidationSpec {
  int64_t every_steps = 0;           // 0: no
  int64_t every_epochs = 0;          // 0: no; both 0: it is not measured at all
  std::vector<std::string> paths{};  // as data.paths; empty: what data.validation_share leaves out
  int64_t batch = 0;                 // samples that are measured at a time; 0: a lane's of a step
  std::string metric = "loss";       // by which one state is better than another
  Better mode = Better::kSmaller;    // whether its mean is to fall or to rise
  double min_delta = 0;              // what is better by less than this is not
  int64_t patience = 0;              // so many in a row that are no better end the job; 0: never
  MeasuredOn on = MeasuredOn::kWorkers;
  int64_t delay = 1;  // kFollower: what is measured of state(s) is learned by state(s + delay)

  bool by_follower() const { return on == MeasuredOn::kFollower; }
  bool wanted() const { return every_steps > 0 || every_epochs > 0; }
  bool operator==(const ValidationSpec&) const = default;
};

// Whether the rate of a step depends on how many steps there are in all.
bool DependsOnLength(ScheduleKind kind);

// Where the samples of a stream come from (docs/decisions/0112): files of a folder that grows, or a
// UNIX socket.
enum class StreamFrom { kFolder, kSocket };

// How the parameters with certain names are updated; a parameter belongs to the first group that
// matches it (lib/domain/update_rules.h).
struct ParameterGroup {
  std::string match;  // of names: * any text, ? any one byte
  double learning_rate_factor = 1;
  std::optional<double> weight_decay{};  // nothing: as the optimizer's specification says
  bool frozen = false;                   // their bits never change
  bool operator==(const ParameterGroup&) const = default;
};
inline constexpr size_t kMostGroups = 256;

struct TrainingSpec {
  std::string task;  // a name of lib/task/registry.h, or that of a plug-in's task
  // The task's: of one that is part of Muster every one, of a plug-in's those that were given.
  ParameterValues parameters;
  DataSpec data;
  int32_t lanes = 1;  // L, 1 … 4096
  int64_t batch = 1;  // global samples per step, at least 1
  int64_t steps = 0;  // exactly one of steps and epochs is not 0
  int64_t epochs = 0;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  InitialSpec initial{};
  ValidationSpec validation{};
  std::vector<ParameterGroup> groups{};
  // data.stream.source; given exactly where data.format is stream.
  std::optional<StreamFrom> stream{};
  double ema_decay = 0;  // of a moving average of the parameters, kept as one more slot; 0: none
  double clip_norm = 0;  // 0: no clipping
  OnNan on_nan = OnNan::kStop;
  Reduction reduction = Reduction::kMean;
  uint64_t seed = 0;
  SumOrder order = SumOrder::kCanonical;
  Sync sync = Sync::kAllreduce;
  // Batch norm has mean and variance of all samples of a step (docs/decisions/0110).
  bool sync_batch_norm = false;
  Precision precision = Precision::kFp32;
  int32_t threads =
      1;  // intra-op threads per worker: changes sums, so it is part of the training specification
  int64_t chunk_bytes = 256 * 1024;  // multiple of 64, 64 … 262144
  bool operator==(const TrainingSpec&) const = default;
};

// All slots of a job: the optimizer's, and then the moving average where one is kept.
int SlotCount(const TrainingSpec& training);

struct CheckpointPolicy {
  int64_t every_steps = 0;    // 0: no
  int64_t every_epochs = 0;   // 0: no; of the state that an epoch begins with, and at the end
  double every_seconds = 60;  // 0: no
  int32_t keep = 3;           // newest committed ones; at least 1
  bool at_end = true;         // false: none of the state after the last of all steps
  int64_t keep_every = 0;     // besides, those whose step is a multiple of this; 0: none
  int64_t keep_epochs = 0;    // besides, those after so many epochs and multiples of it; 0: none
  std::string keep_best{};    // besides, the best by this: validation.loss; empty: none
  bool operator==(const CheckpointPolicy&) const = default;
};

enum class ResumeKind { kLatest, kStep, kNever, kNamed };
struct Resume {
  ResumeKind kind = ResumeKind::kLatest;
  int64_t step = 0;  // kStep only
  // kNamed only: of a checkpoint that is kept, or kBest. A job that was taken has a step instead.
  std::string name{};
  bool operator==(const Resume&) const = default;
};

// Of a job whose data is a stream: what its reader needs, and no bit depends on.
struct StreamRuntime {
  std::string path{};                       // of the folder or the socket, absolute
  std::string host{};                       // where the reader is to run; empty: anywhere
  uint64_t max_bytes = uint64_t{16} << 30;  // of the spool
  bool operator==(const StreamRuntime&) const = default;
};

inline constexpr int32_t kDefaultRestarts = 4;
inline constexpr int32_t kMostRestarts = 1'000'000;

inline constexpr int32_t kMostDevices = 256;  // of a host

struct RuntimeSpec {
  std::string name = "job";
  int32_t workers_min = 1;
  int32_t workers_max = 1;
  int32_t servers = 0;  // processes; at least 1 if and only if sync is server
  int32_t devices = 0;  // of its host, such as GPUs, for each worker
  // How often a process that fails is started again without a step in between; the failure after
  // these ends the job.
  int32_t restarts = kDefaultRestarts;
  CheckpointPolicy checkpoint;
  Resume resume;
  int64_t bucket_bytes = 25 << 20;  // a send schedule only
  int64_t first_bucket_bytes = 1 << 20;
  int64_t fingerprint_every = 10;  // steps; 0: never
  // Seconds that a member may be silent, and that one of its threads may stand still in its work;
  // less than the cluster's: those count.
  double lease = 0;
  double thread_patience = 0;
  StreamRuntime stream{};
  bool operator==(const RuntimeSpec&) const = default;
};

inline constexpr char kDefaultNamespace[] = "default";
inline constexpr int32_t kMostPriority = 1000;  // and the least is its negative
inline constexpr int32_t kMostRetries = 1000;
inline constexpr double kMostQueueSeconds = 1e9;
inline constexpr size_t kMostLabels = 64;

// May be another one at any time, also while the job runs; no bit and no process depends on it.
struct QueueSpec {
  std::string name_space = kDefaultNamespace;  // the one part that stays as it was submitted
  int32_t priority = 0;                        // higher ones go first
  // Seconds that the job may run in all, over all its starts; 0: without end.
  double deadline = 0;
  // Seconds after its end when all that is kept of it is deleted; 0: it is kept.
  double time_to_live = 0;
  // How often a job that failed is put back into the queue by itself.
  int32_t retries = 0;
  std::map<std::string, std::string> labels;
  bool operator==(const QueueSpec&) const = default;
};

// What is to be another in it; nothing: it stays.
struct QueueChange {
  std::optional<int32_t> priority;
  std::optional<double> deadline;
  std::optional<double> time_to_live;
  std::optional<int32_t> retries;
  std::map<std::string, std::optional<std::string>> labels;  // nothing: it is taken away
  bool operator==(const QueueChange&) const = default;
};

struct JobSpec {
  TrainingSpec training;
  RuntimeSpec runtime;
  QueueSpec queue{};
  bool operator==(const JobSpec&) const = default;
};

// Its data comes while it trains. The number of its samples, n, is kMostSamples until its end is
// known, and then its end (lib/domain/stream.h): steps below T are the same for both.
inline bool IsStreamed(const TrainingSpec& training) { return training.stream.has_value(); }
// Processes that spool a stream: one, or none.
inline int32_t ReadersOf(const TrainingSpec& training) { return IsStreamed(training) ? 1 : 0; }

// So many samples a data set may have: no number of steps or epochs overflows with it.
inline constexpr uint64_t kMostSamples = uint64_t{1} << 40;
inline bool IsSampleCount(uint64_t n) { return n >= 1 && n <= kMostSamples; }

// A sample weighs at most so much: no task has that many tokens in one (lib/task/registry.h).
inline constexpr int64_t kMostSampleWeight = 1 << 20;
// Whether a step of so many samples can have this weight, as far as its specification tells.
bool IsWeightOf(const TrainingSpec& training, uint64_t samples, int64_t weight);

// The gradient of each step is measured: to clip it, or to know whether all of it is finite.
bool IsMeasured(const TrainingSpec& training);

// With sync_batch_norm: a worker holds a lane's activations as long as the lane waits.
inline constexpr int32_t kMostSyncLanes = 256;

// Steps of the whole job and of one epoch, for a data set of n samples. The last step of an epoch
// takes what is left: it may be short. For an n that IsSampleCount refuses, of an old journal, an
// epoch still has at least one step and at most kMostSamples.
int64_t StepsPerEpoch(const TrainingSpec& training, uint64_t n);
// Of so many epochs, at most the largest number there is.
int64_t StepsOfEpochs(const TrainingSpec& training, uint64_t n, int64_t epochs);
// Of a stream with `steps`: the end may come before.
int64_t TotalSteps(const TrainingSpec& training, uint64_t n);

// Whether `asked` is the same training made longer: only steps or epochs are more, and nothing that
// was done depends on how many there are in all.
struct Lengthening {
  std::string field;    // steps or epochs, where only these differ; empty: it is another training
  std::string why_not;  // for people; empty: it is the same training made longer
  bool is_possible() const { return !field.empty() && why_not.empty(); }
};
Lengthening LengtheningOf(const TrainingSpec& held, const TrainingSpec& asked);

}  // namespace muster
