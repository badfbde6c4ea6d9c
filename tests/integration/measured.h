// What a job has measured while it trained, as the files that it left tell.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/cluster.h"

namespace muster::integration {

// Text to measure a language model with.
inline std::string HeldOutText() {
  std::string text;
  for (int i = 0; i < 90; ++i) absl::StrAppend(&text, "a server sums ", i * i, " lanes. ");
  return text;
}

// The steps of a run in `dir`, as metrics.jsonl has them, which is written within a second of the
// end. Where the last state was measured, it comes behind them.
inline std::vector<nlohmann::json> StepsIn(const std::string& dir, const TrainRun& run) {
  std::ifstream lines(absl::StrCat(dir, "/jobs/", run.result.value("job", ""), "/metrics.jsonl"));
  std::vector<nlohmann::json> steps;
  for (std::string line; std::getline(lines, line);) steps.push_back(nlohmann::json::parse(line));
  return steps;
}

struct Measured {
  int64_t step = 0;
  double loss = 0;
  bool operator==(const Measured&) const = default;
};

inline std::vector<Measured> MeasuredIn(const std::string& dir, const TrainRun& run) {
  std::vector<Measured> measured;
  for (const nlohmann::json& step : StepsIn(dir, run))
    if (step.contains("validation.loss"))
      measured.push_back({step.value("step", int64_t{-1}), step.value("validation.loss", -1.0)});
  return measured;
}

inline std::vector<double> RatesIn(const std::string& dir, const TrainRun& run) {
  std::vector<double> rates;
  for (const nlohmann::json& step : StepsIn(dir, run))
    if (!step.contains("last_state")) rates.push_back(step.value("learning_rate", -1.0));
  return rates;
}

}  // namespace muster::integration
