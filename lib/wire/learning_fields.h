// For lib/wire alone: the fields of how a job learns that are more than one value, and those that
// are resolved when a job is submitted, so that a specification that writes the result out is the
// same job.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/config/document.h"
#include "lib/domain/job.h"

namespace muster {

// The value of `groups`, a list of mappings. kInvalidArgument with the path, as in
// groups[1].frozen.
absl::Status ReadGroups(const Document& document, const nlohmann::json& value,
                        std::vector<ParameterGroup>& groups);
// Without what has its default.
nlohmann::json FromGroups(const std::vector<ParameterGroup>& groups);
nlohmann::json GroupsSchema();

// The value of `optimizer.learning_rate`: a number, or {value, per_samples}, of which the value is
// taken here and the rest when all is read (ResolveLearning).
absl::Status ReadLearningRate(const Document& document, const nlohmann::json& value,
                              OptimizerSpec& optimizer);
nlohmann::json LearningRateSchema();
inline constexpr NumberRange kLearningRates = {.min = 0, .max = 1000};
inline constexpr int64_t kMostSamplesPerStep = int64_t{1} << 31;
inline constexpr int32_t kMostLanes = 4096;

// `accumulate: n` makes n times as many samples and lanes of a step; a rate per_samples is
// multiplied with the samples of a step then. `training` has its lanes and batch as given;
// `accumulate` and `learning_rate` are those fields of the document, which have been read; null:
// absent. kInvalidArgument: more lanes, samples or a higher rate than are allowed.
absl::Status ResolveLearning(const Document& document, const nlohmann::json& accumulate,
                             const nlohmann::json& learning_rate, TrainingSpec& training);

// What a kind of schedule needs and has not.
absl::Status CheckSchedule(const Document& document, const ScheduleSpec& schedule);

// The optimizer and who applies it go together.
absl::Status CheckOptimizer(const Document& document, const TrainingSpec& training);

// A place for each sample of a step, where the bad ones are left out.
absl::Status CheckLeavesOut(const Document& document, const TrainingSpec& training);
absl::Status CheckSyncs(const Document& document, const TrainingSpec& training);

// Data to measure with, for a plateau measures and no servers, and for a follower one cadence and a
// delay within it.
absl::Status CheckValidation(const Document& document, const TrainingSpec& training);

// A list of steps, ascending, each once.
absl::Status ReadMilestones(const Document& document, const nlohmann::json& value,
                            std::vector<int64_t>& milestones);
inline constexpr int64_t kMostMilestones = 4096;
inline constexpr int64_t kMostSteps = int64_t{1} << 40;  // of a job

}  // namespace muster
