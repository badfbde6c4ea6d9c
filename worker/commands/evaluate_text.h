// What a saved model has done, as people and as programs read it. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/commands/evaluate.h"

namespace muster::worker {

struct EvaluatedModel {
  std::string job;  // its id
  std::string task;
  int64_t step = 0;  // of the checkpoint
  uint64_t samples = 0;
  std::string data_hash;
  std::vector<Measured> measured;
  bool average = false;  // by the moving average of the parameters
};
std::string EvaluationAsText(const EvaluatedModel& evaluated);
std::string EvaluationAsJson(const EvaluatedModel& evaluated);

// {"prompt", "text"}; bytes that are no UTF-8 become U+FFFD.
std::string GeneratedAsJson(const std::string& prompt, const std::string& text);

}  // namespace muster::worker
