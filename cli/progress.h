// Follows the steps that workers report and works out speed and time left. Pure: told the time.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "cli/format.h"
#include "lib/base/time.h"
#include "lib/domain/job.h"

namespace muster::cli {

struct StepSeen {
  std::string member;
  int64_t step = 0;
  int64_t epoch = 0;
  double loss = 0;
  int64_t samples = 0;
  std::optional<double> gradient_norm = {};
};

// The rate of the newest step. Nothing: it depends on the length of the job, which is not known
// yet, or the job has no such step.
std::optional<double> LearningRateAt(const TrainingSpec& training, const Progress& progress);

class ProgressTracker {
 public:
  // Totals of the job; 0: unknown.
  void SetTotals(int64_t steps, int64_t epochs);

  // True when training is now at another step than before: each step is told once for each worker,
  // and steps are done again after a rewind.
  bool OnStep(const StepSeen& seen, Time now);
  void OnGone(const std::string& member);  // its last step says nothing any more

  std::optional<Progress> Now() const;  // nothing before the first step
  std::optional<double> first_loss() const { return first_loss_; }

 private:
  struct Sample {
    Time at{};
    int64_t samples = 0;
  };
  int64_t steps_ = 0;
  int64_t epochs_ = 0;
  std::map<std::string, int64_t> at_;  // member → its last step
  std::optional<StepSeen> newest_;
  std::optional<double> first_loss_;
  std::deque<Sample> window_;  // of the last steps
};

}  // namespace muster::cli
