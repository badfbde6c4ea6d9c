// Valid specifications made of a seed: every field is varied, those that have no meaning for the
// job stay at rest.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>

#include "lib/domain/job.h"
#include "lib/task/registry.h"

namespace muster {

class RandomJob {
 public:
  explicit RandomJob(uint64_t seed) : random_(seed) {}

  JobSpec Make() {
    JobSpec spec;
    FillLaw(spec.law);
    FillRun(spec.run);
    if (spec.law.sync == Sync::kServer) spec.run.servers = Int<int32_t>(1, 4096);
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

  void FillTask(Law& law) {
    const TaskInfo& task = Tasks()[Int<size_t>(0, Tasks().size() - 1)];
    law.task = task.name;
    for (const TaskParameter& parameter : task.parameters) {
      const double value = Real(parameter.min, parameter.max);
      law.parameters[parameter.name] = parameter.integer ? std::floor(value) : value;
    }
    if (!task.multiple.empty()) {
      law.parameters[task.divisor] = Int(1, 64);
      law.parameters[task.multiple] = law.parameters[task.divisor] * Int(1, 64);
    }
    if (!task.data_needed) {
      law.data.samples = Int<uint64_t>(0, 1 << 30);
      return;
    }
    for (int paths = Int(1, 4); paths > 0; --paths) law.data.paths.push_back(Text());
    for (int suffixes = Int(0, 4); suffixes > 0; --suffixes)
      law.data.suffixes.push_back(Coin() ? "" : Text());
    law.data.max_bytes = Int<uint64_t>(0, 1 << 30);
  }

  void FillOptimizer(OptimizerSpec& optimizer) {
    optimizer.kind = Pick(OptimizerKind::kAdamW);
    optimizer.learning_rate = Real(0, 10);
    optimizer.weight_decay = Real(0, 2);
    if (optimizer.kind == OptimizerKind::kMomentum) optimizer.momentum = Real(0, 1);
    if (optimizer.kind != OptimizerKind::kAdam && optimizer.kind != OptimizerKind::kAdamW) return;
    optimizer.beta1 = Real(0, 1);
    optimizer.beta2 = Real(0, 1);
    optimizer.epsilon = std::pow(10.0, -Int(1, 300));
  }

  void FillLaw(Law& law) {
    FillTask(law);
    law.lanes = Int(1, 4096);
    law.batch = Int<int64_t>(1, int64_t{1} << 31);
    (Coin() ? law.steps : law.epochs) = Int<int64_t>(1, 1 << 20);
    FillOptimizer(law.optimizer);
    law.schedule.kind = Pick(ScheduleKind::kCosine);
    law.schedule.warmup_steps = Int<int64_t>(0, 1 << 20);
    if (law.schedule.kind != ScheduleKind::kConstant) law.schedule.final_ratio = Real(0, 1);
    law.clip_norm = Real(0, 100);
    law.reduction = Pick(Reduction::kSum);
    law.seed = random_();
    law.order = Pick(SumOrder::kFree);
    law.sync = Pick(Sync::kServer);
    law.threads = Int(1, 1024);
    law.chunk_bytes = Int<int64_t>(1, 4096) * 64;
  }

  void FillRun(Run& run) {
    run.name = "job-" + std::to_string(Int(0, 1 << 20));
    run.workers_min = Int(1, 4096);
    run.workers_max = Int(run.workers_min, 4096);
    run.checkpoint = {Int<int64_t>(0, 1 << 20), Real(0, 1e6), Int(1, 1'000'000)};
    run.resume.kind = Pick(ResumeKind::kNever);
    if (run.resume.kind == ResumeKind::kStep) run.resume.step = Int<int64_t>(1, int64_t{1} << 40);
    run.bucket_bytes = Int<int64_t>(64, int64_t{1} << 31);
    run.first_bucket_bytes = Int<int64_t>(64, int64_t{1} << 31);
    run.fingerprint_every = Int<int64_t>(0, 1 << 20);
  }

  std::mt19937_64 random_;
};

}  // namespace muster
