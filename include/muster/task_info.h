// What a task tells of itself before it is made: its name, and which parameters a job
// specification may give it. Values that hold no memory of a job; any thread.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/task_options.h"

namespace muster {

// kStructure: lists and mappings within one another; its value is the text of them as JSON.
enum class ParameterKind {
  kInteger,
  kReal,
  kBoolean,
  kText,
  kIntegers,
  kReals,
  kTexts,
  kStructure
};

struct TaskParameter {
  std::string name;  // lower-case letters, digits and "_": "hidden_size"
  ParameterKind kind = ParameterKind::kInteger;
  ParameterValue default_value = 0.0;
  double min = 0;  // of a number, and of each in a list; both ends are allowed
  double max = 0;
  std::vector<std::string> choices{};  // of a text, and of each in a list; empty: any
  std::string help;

  static TaskParameter Integer(std::string name, int64_t fallback, int64_t min, int64_t max,
                               std::string help) {
    return {std::move(name),          ParameterKind::kInteger,  static_cast<double>(fallback),
            static_cast<double>(min), static_cast<double>(max), {},
            std::move(help)};
  }
  static TaskParameter Real(std::string name, double fallback, double min, double max,
                            std::string help) {
    return {std::move(name), ParameterKind::kReal, fallback, min, max, {}, std::move(help)};
  }
  static TaskParameter Boolean(std::string name, bool fallback, std::string help) {
    return {std::move(name), ParameterKind::kBoolean, fallback, 0, 0, {}, std::move(help)};
  }
  static TaskParameter Text(std::string name, std::string fallback,
                            std::vector<std::string> choices, std::string help) {
    return {std::move(name),    ParameterKind::kText, std::move(fallback), 0, 0,
            std::move(choices), std::move(help)};
  }
  static TaskParameter Integers(std::string name, std::vector<double> fallback, int64_t min,
                                int64_t max, std::string help) {
    return {std::move(name),          ParameterKind::kIntegers, std::move(fallback),
            static_cast<double>(min), static_cast<double>(max), {},
            std::move(help)};
  }
  static TaskParameter Reals(std::string name, std::vector<double> fallback, double min, double max,
                             std::string help) {
    return {std::move(name), ParameterKind::kReals, std::move(fallback), min, max, {},
            std::move(help)};
  }
  static TaskParameter Texts(std::string name, std::vector<std::string> fallback,
                             std::vector<std::string> choices, std::string help) {
    return {std::move(name),    ParameterKind::kTexts, std::move(fallback), 0, 0,
            std::move(choices), std::move(help)};
  }
  static TaskParameter Structure(std::string name, std::string fallback, std::string help) {
    return {std::move(name), ParameterKind::kStructure, std::move(fallback), 0, 0, {},
            std::move(help)};
  }
};

// Two parameters that do not go together: which one to change, and why.
struct ParameterConflict {
  std::string parameter;
  std::string reason;
};

struct TaskInfo {
  std::string name;  // as a job specification says it: letters, digits and "-", such as "code-lm"
  std::string help;  // half a sentence
  std::vector<TaskParameter> parameters;
  // data.paths must be given; otherwise the task makes data.samples samples.
  bool data_needed = false;
  uint64_t default_samples = 0;  // of a task that makes its data: what data.samples = 0 means
  // `multiple` must be a multiple of `divisor`, both whole numbers; both empty: no such rule.
  std::string multiple;
  std::string divisor;
  // All that Generate needs beside a prompt, and all that `prepare` gives the model, stand in its
  // parameters and buffers, so that a checkpoint has them. With one, such a task can do without the
  // training data: where it is to generate it is made for DataPart::kNone, opens no data, and is
  // asked for no samples, no hash and no lane; and where it is to measure, too, nothing is prepared
  // and `options.prepared` is empty. Its tensors are those that it has else, whatever they hold.
  bool model_holds_all = false;

  // nullptr: there is none of that name.
  const TaskParameter* Parameter(std::string_view parameter) const {
    for (const TaskParameter& p : parameters)
      if (p.name == parameter) return &p;
    return nullptr;
  }
};

}  // namespace muster
