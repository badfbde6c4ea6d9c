// Valid specifications made of a seed: every field is varied, those that have no meaning for the
// job stay at rest.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/domain/job.h"
#include "lib/domain/left_out.h"
#include "lib/domain/stream.h"
#include "lib/task/registry.h"

namespace muster {

class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : random_(seed) {}

  JobSpec Make() {
    JobSpec spec;
    FillTraining(spec.training);
    FillRuntime(spec.runtime);
    if (IsStreamed(spec.training)) FillStream(spec);
    if (spec.training.validation.wanted() && Coin())
      spec.runtime.checkpoint.keep_best = Coin() ? "validation.loss" : "validation.top_5";
    FillQueue(spec.queue);
    if (spec.training.sync == Sync::kServer) spec.runtime.servers = Int<int32_t>(1, 4096);
    return spec;
  }

 private:
  template <class T>
  T Int(T low, T high) {
    return std::uniform_int_distribution<T>(low, high)(random_);
  }
  bool Coin() { return Int(0, 1) == 1; }
  double Real(double low, double high) {
    const double number = std::uniform_real_distribution<double>(low, high)(random_);
    return Coin() ? number : std::floor(number);  // whole ones are written without a point
  }
  template <class E>
  E Pick(E last) {
    return static_cast<E>(Int(0, static_cast<int>(last)));
  }

  // Anything but zero bytes: quotes, newlines, control characters, words and numbers of YAML.
  std::string Text() {
    static const char* const kPieces[] = {
        "a",  "Z9",     ".h",         "/usr", "-",  "_",  " ",    "'", "\"", "\\",
        "\n", "\t",     "\x01",       "\x7f", "#",  ": ", "[x]",  "{", "}",  ",",
        "ä",  "\u2028", "\U0001F600", "true", "12", "~",  "null", "&", "*",  "!"};
    std::string text;
    for (int pieces = Int(1, 6); pieces > 0; --pieces)
      text += kPieces[Int<size_t>(0, std::size(kPieces) - 1)];
    return text;
  }

  void FillPluginTask(TrainingSpec& training) {
    training.task = "of-a-plugin";
    for (int left = Int(0, 4); left > 0; --left) {
      ParameterValue& value = training.parameters[absl::StrCat("p_", left)];
      switch (Int(0, 4)) {
        case 0: value = Real(-1e9, 1e9); break;
        case 1: value = Coin(); break;
        case 2: value = Text(); break;
        case 3: value = std::vector<double>{Real(-1, 1), 4}; break;
        case 4: value = std::vector<std::string>{Text(), ""}; break;
      }
    }
    if (Coin()) training.data.samples = Int<uint64_t>(0, 1 << 30);
    FillDataSet(training);
  }

  // Once all else is filled: what a stream needs, and what cannot go together with one.
  void FillStream(JobSpec& spec) {
    TrainingSpec& training = spec.training;
    if (training.steps == 0) training.epochs = 1;
    if (training.steps == 0 && DependsOnLength(training.schedule.kind)) training.schedule = {};
    training.data.on_bad_sample = OnBadSample::kStop;
    training.data.validation_share = 0;
    CheckpointPolicy& policy = spec.runtime.checkpoint;
    policy.every_epochs = 0;
    policy.every_steps = std::max<int64_t>(policy.every_steps, 1);
    policy.at_end = true;
    StreamRuntime& stream = spec.runtime.stream;
    stream.path = Coin() ? "/socket" : "/" + Text();
    stream.host = Coin() ? "" : Text();
    const uint64_t least =
        4 * (static_cast<uint64_t>(training.batch) + 1) * StreamSampleBytes(training.data).value();
    stream.max_bytes = Int<uint64_t>(least, uint64_t{1} << 60);
  }

  void FillStreamFields(TrainingSpec& training) {
    training.stream = Pick(StreamFrom::kSocket);
    for (int fields = Int(1, 3); fields > 0; --fields)
      training.data.fields.push_back({absl::StrCat(Text(), fields), Pick(TensorType::kBool),
                                      std::vector<int64_t>(Int<size_t>(0, 2), Int<int64_t>(1, 9))});
    if (Coin()) training.data.label = training.data.fields.back().name;
  }

  void FillDataSet(TrainingSpec& training) {
    DataSpec& data = training.data;
    data.format = Pick(DataFormat::kStream);
    if (data.format == DataFormat::kStream) FillStreamFields(training);
    const bool arrays = data.format == DataFormat::kNumpy ||
                        data.format == DataFormat::kSafetensors || data.format == DataFormat::kPt ||
                        data.format == DataFormat::kHdf5;
    const bool decoded =
        data.format == DataFormat::kImages || data.format == DataFormat::kWebDataset;
    data.on_bad_sample = Pick(OnBadSample::kSkip);
    data.validation_share = Coin() ? 0 : 0.25;
    data.split_seed = Int<uint64_t>(0, 9);
    if (data.format == DataFormat::kText) {
      if (Coin()) data.shape = {Int<int64_t>(1, 999)};
      return;
    }
    if (data.format == DataFormat::kCsv) {
      for (int columns = Int(0, 3); columns > 0; --columns) data.columns.push_back(Text());
      for (int classes = Int(0, 3); classes > 0; --classes) data.classes.push_back(Text());
      data.header = Coin();
      data.delimiter = Coin() ? ";" : ",";
    }
    if (arrays)
      for (int keys = Int(0, 3); keys > 0; --keys) data.keys.push_back(Text());
    if (arrays || data.format == DataFormat::kCsv) {
      data.label = Coin() ? "" : Text();
      for (int types = Int(0, 3); types > 0; --types) data.types[Text()] = Pick(TensorType::kBool);
    }
    if (arrays)
      for (int shapes = Int(0, 3); shapes > 0; --shapes)
        data.shapes[Text()] = std::vector<int64_t>(Int<size_t>(0, 3), Int<int64_t>(1, 99));
    const bool is_shaped =
        arrays || data.format == DataFormat::kIdx || data.format == DataFormat::kStream;
    if (is_shaped && Coin()) data.shape = {2, 3};
    if (decoded) {
      if (Coin()) data.image_size = {Int<int64_t>(1, 8192), 32};
      data.fit = Pick(ImageFit::kStretch);
      data.channels = Coin() ? 1 : 3;
    }
    if (Coin()) data.mean = {Real(-1, 1), 0.5, 0.25};
    if (Coin()) data.deviation = {0.5};
    data.crop = Int<uint64_t>(0, 8);
    data.flip = Coin();
  }

  void FillTask(TrainingSpec& training) {
    if (Int(0, 3) == 0) return FillPluginTask(training);
    const TaskInfo& task = Tasks()[Int<size_t>(0, Tasks().size() - 1)];
    training.task = task.name;
    for (const TaskParameter& parameter : task.parameters) {
      if (parameter.kind == ParameterKind::kText) {
        training.parameters[parameter.name] =
            parameter.choices.empty()
                ? Text()
                : parameter.choices[Int<size_t>(0, parameter.choices.size() - 1)];
        continue;
      }
      if (parameter.kind == ParameterKind::kStructure) {
        training.parameters[parameter.name] =
            absl::StrCat("[\"relu\",{\"linear\":", Int(1, 9), "}]");
        continue;
      }
      const double value = Real(parameter.min, parameter.max);
      training.parameters[parameter.name] =
          parameter.kind == ParameterKind::kInteger ? std::floor(value) : value;
    }
    if (!task.multiple.empty()) {
      const int divisor = Int(1, 64);
      training.parameters[task.divisor] = divisor;
      training.parameters[task.multiple] = divisor * Int(1, 64);
    }
    if (!task.data_needed) {
      training.data.samples = Int<uint64_t>(0, 1 << 30);
      return;
    }
    for (int paths = Int(1, 4); paths > 0; --paths) training.data.paths.push_back(Text());
    for (int suffixes = Int(0, 4); suffixes > 0; --suffixes)
      training.data.suffixes.push_back(Coin() ? "" : Text());
    training.data.max_bytes = Int<uint64_t>(0, 1 << 30);
    training.data.unreadable = Pick(Unreadable::kSkip);
    training.data.verify = Pick(VerifyData::kQuick);
  }

  void FillOptimizer(OptimizerSpec& optimizer) {
    optimizer.kind = Pick(OptimizerKind::kLars);
    optimizer.learning_rate = Real(0, 10);
    optimizer.weight_decay = Real(0, 2);
    if (optimizer.weight_decay > 0) optimizer.weight_decay_on = Pick(DecayOn::kMatrices);
    if (optimizer.kind == OptimizerKind::kMomentum) {
      optimizer.momentum = Real(0, 1);
      optimizer.nesterov = Coin();
    }
    if (optimizer.kind == OptimizerKind::kLars) {
      optimizer.momentum = Real(0, 1);
      optimizer.trust = 0.001 + Real(0, 9);
    }
    if (optimizer.kind == OptimizerKind::kRmsprop) optimizer.alpha = Real(0, 1);
    if (optimizer.kind == OptimizerKind::kSgd || optimizer.kind == OptimizerKind::kMomentum) return;
    optimizer.epsilon = std::pow(10.0, -Int(1, 300));
    if (optimizer.kind != OptimizerKind::kAdam && optimizer.kind != OptimizerKind::kAdamW &&
        optimizer.kind != OptimizerKind::kLamb)
      return;
    optimizer.beta1 = Real(0, 1);
    optimizer.beta2 = Real(0, 1);
  }

  void FillSchedule(ScheduleSpec& schedule) {
    schedule.kind = Pick(ScheduleKind::kPlateau);
    if (schedule.kind != ScheduleKind::kOneCycle) schedule.warmup_steps = Int<int64_t>(0, 1 << 20);
    switch (schedule.kind) {
      case ScheduleKind::kConstant: break;
      case ScheduleKind::kPolynomial: schedule.power = Real(0, 9) + 0.5; [[fallthrough]];
      case ScheduleKind::kLinear:
      case ScheduleKind::kCosine: schedule.final_ratio = Real(0, 1); break;
      case ScheduleKind::kMilestones:
        for (int left = Int(1, 4); left > 0; --left)
          schedule.milestones.push_back(
              (schedule.milestones.empty() ? 0 : schedule.milestones.back()) +
              Int<int64_t>(1, int64_t{1} << 35));
        schedule.gamma = Real(0, 1);
        break;
      case ScheduleKind::kStep:
        schedule.step_size = Int<int64_t>(1, 1 << 20);
        schedule.gamma = Real(0, 1);
        break;
      case ScheduleKind::kPlateau:
        schedule.gamma = Real(0, 1);
        schedule.final_ratio = Real(0, 1);
        schedule.patience = Int<int64_t>(0, 99);
        break;
      case ScheduleKind::kOneCycle:
        schedule.pct_start = Real(0, 1);
        schedule.div_factor = Real(1, 100);
        schedule.final_div_factor = Real(1, 1e6);
        break;
    }
  }

  void FillValidation(TrainingSpec& training) {
    ValidationSpec& validation = training.validation;
    const bool is_plateau = training.schedule.kind == ScheduleKind::kPlateau;
    if (training.data.paths.empty()) {
      if (is_plateau) training.schedule = {};
      return;
    }
    if (!is_plateau && Coin()) return;
    validation.every_steps = Int<int64_t>(1, 1 << 20);
    validation.every_epochs = Int<int64_t>(0, 9);
    validation.paths = {Text(), Text()};
    validation.batch = Int<int64_t>(0, 99);
    if (Coin()) validation.patience = Int<int64_t>(1, 99);
    if (Coin()) {
      validation.on = MeasuredOn::kFollower;
      validation.every_epochs = 0;
      validation.delay = Int<int64_t>(1, validation.every_steps);
    }
    if (validation.patience == 0 && !is_plateau) return;
    validation.metric = Text();
    validation.mode = Pick(Better::kLarger);
    validation.min_delta = Real(0, 1);
  }

  void FillGroups(std::vector<ParameterGroup>& groups) {
    for (int left = Int(0, 3); left > 0; --left) {
      ParameterGroup& group = groups.emplace_back();
      group.match = Text();
      group.frozen = Coin();
      if (group.frozen) continue;
      group.learning_rate_factor = Real(0, 10);
      if (Coin()) group.weight_decay = Real(0, 1);
    }
  }

  void FillInitial(InitialSpec& initial) {
    if (Coin()) return;
    if (Coin()) {
      ParentState& parent = initial.parent.emplace();
      parent.job = "job-" + std::to_string(Int(0, 99));
      if (Coin()) parent.step = Int<int64_t>(0, int64_t{1} << 40);
      if (!parent.step && Coin()) parent.name = "cut-" + std::to_string(Int(0, 99));
      if (Coin()) parent.digest = std::string(64, "0123456789abcdef"[Int(0, 15)]);
      if (Coin()) parent.updates = Int<int64_t>(0, int64_t{1} << 50);
      if (Coin()) parent.average = Coin();
      return;
    }
    initial.file = "/" + Text();
    for (int left = Int(0, 3); left > 0; --left)
      initial.map.push_back({Coin() ? "" : Text(), Text()});
    initial.strict = Coin();
  }

  void FillTraining(TrainingSpec& training) {
    FillTask(training);
    training.lanes = Int(1, Coin() ? kMostSyncLanes : 4096);
    training.batch = Int<int64_t>(1, int64_t{1} << 31);
    (Coin() ? training.steps : training.epochs) = Int<int64_t>(1, 1 << 20);
    FillOptimizer(training.optimizer);
    FillSchedule(training.schedule);
    FillInitial(training.initial);
    FillGroups(training.groups);
    if (Coin()) training.ema_decay = Real(0, 1);
    training.clip_norm = Real(0, 100);
    training.on_nan = Pick(OnNan::kContinue);
    training.reduction = Pick(Reduction::kSum);
    training.seed = random_();
    training.order = Pick(SumOrder::kFree);
    training.sync = Pick(Sync::kServer);
    FillValidation(training);
    if (training.schedule.kind == ScheduleKind::kPlateau ||
        training.optimizer.kind == OptimizerKind::kLamb ||
        training.optimizer.kind == OptimizerKind::kLars)
      training.sync = Sync::kAllreduce;
    training.sync_batch_norm = training.task != "torchscript" && training.lanes <= kMostSyncLanes &&
                               training.sync == Sync::kAllreduce &&
                               training.order == SumOrder::kCanonical && Coin();
    training.threads = Int(1, 1024);
    training.chunk_bytes = Int<int64_t>(1, 4096) * 64;
    if (!LeavesOut(training)) return;
    const int64_t most = MostSamplesWithPlaces(training);
    if (most == 0) training.data.on_bad_sample = OnBadSample::kStop;
    training.batch = std::min(training.batch, std::max<int64_t>(most, 1));
  }

  void FillRuntime(RuntimeSpec& runtime) {
    runtime.name = "job-" + std::to_string(Int(0, 1 << 20));
    runtime.workers_min = Int(1, 4096);
    runtime.workers_max = Int(runtime.workers_min, 4096);
    runtime.checkpoint = {.every_steps = Int<int64_t>(0, 1 << 20),
                          .every_epochs = Int<int64_t>(0, 1 << 20),
                          .every_seconds = Real(0, 1e6),
                          .keep = Int(1, 1'000'000),
                          .at_end = Coin(),
                          .keep_every = Coin() ? 0 : Int<int64_t>(1, 1 << 20),
                          .keep_epochs = Coin() ? 0 : Int<int64_t>(1, 1 << 20)};
    runtime.resume.kind = Pick(ResumeKind::kNamed);
    if (runtime.resume.kind == ResumeKind::kNamed)
      runtime.resume.name = "cut-" + std::to_string(Int(0, 99));
    if (runtime.resume.kind == ResumeKind::kStep)
      runtime.resume.step = Int<int64_t>(1, int64_t{1} << 40);
    runtime.bucket_bytes = Int<int64_t>(64, int64_t{1} << 31);
    runtime.first_bucket_bytes = Int<int64_t>(64, int64_t{1} << 31);
    runtime.fingerprint_every = Int<int64_t>(0, 1 << 20);
    runtime.restarts = Int(0, kMostRestarts);
    runtime.devices = Int(0, kMostDevices);
    runtime.lease = static_cast<double>(Int<int64_t>(0, 600));
    runtime.thread_patience = static_cast<double>(Int<int64_t>(0, 86'400));
  }

  void FillQueue(QueueSpec& queue) {
    queue.name_space = "space-" + std::to_string(Int(0, 9));
    queue.priority = Int(-kMostPriority, kMostPriority);
    queue.deadline = Coin() ? 0 : Real(0, 1e6);
    queue.time_to_live = Coin() ? 0 : Real(0, 1e6);
    queue.retries = Int(0, kMostRetries);
    for (int labels = Int(0, 3); labels > 0; --labels)
      queue.labels[Coin() ? "example.com/l" + std::to_string(labels)
                          : std::to_string(labels) + ".null"] =
          Coin() ? "" : "v_" + std::to_string(Int(0, 99));
  }

  std::mt19937_64 random_;
};

}  // namespace muster
