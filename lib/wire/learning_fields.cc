#include "lib/wire/learning_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/domain/left_out.h"
#include "lib/domain/update_rules.h"
#include "lib/wire/task_parameters.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kLongestMatch = 1024;
constexpr NumberRange kFactors = {.min = 0, .max = 1000};

absl::Status ReadMatch(const Document& document, const std::string& field, const json& value,
                       ParameterGroup& group) {
  MUSTER_ASSIGN_OR_RETURN(group.match, ReadText(document, field, value));
  if (group.match.empty())
    return ErrorAt(document, field, "is empty; write a name of parameters, such as \"*.bias\"");
  if (group.match.size() <= kLongestMatch) return absl::OkStatus();
  return ErrorAt(
      document, field,
      absl::StrCat(group.match.size(), " bytes; at most ", kLongestMatch, " are allowed"));
}

// What is frozen has neither a rate nor a decay.
absl::Status CheckFrozen(const Document& document, const std::string& path, const json& value) {
  for (const char* key : {"learning_rate_factor", "weight_decay"}) {
    if (value.value(key, json()).is_null()) continue;
    return ErrorAt(document, FieldPath(path, key), "means nothing where frozen is true; remove it");
  }
  return absl::OkStatus();
}

absl::Status ReadGroup(const Document& document, const std::string& path, const json& value,
                       ParameterGroup& group) {
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, path, value,
                                   {"match", "learning_rate_factor", "weight_decay", "frozen"}));
  const auto given = [&](const char* key) { return value.value(key, json()); };
  const auto field = [&](const char* key) { return FieldPath(path, key); };
  if (given("match").is_null())
    return ErrorAt(document, field("match"),
                   "is missing; write a pattern of the names of parameters, such as \"*.bias\"");
  MUSTER_RETURN_IF_ERROR(ReadMatch(document, field("match"), given("match"), group));
  if (const json factor = given("learning_rate_factor"); !factor.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(group.learning_rate_factor,
                            ReadNumber(document, field("learning_rate_factor"), factor, kFactors));
  }
  if (const json decay = given("weight_decay"); !decay.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(group.weight_decay,
                            ReadNumber(document, field("weight_decay"), decay, kFactors));
  }
  if (const json frozen = given("frozen"); !frozen.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(group.frozen, ReadSwitch(document, field("frozen"), frozen));
  }
  return group.frozen ? CheckFrozen(document, path, value) : absl::OkStatus();
}

json FromGroup(const ParameterGroup& group) {
  json written = {{"match", group.match}};
  if (group.learning_rate_factor != 1)
    written["learning_rate_factor"] = FromNumber(group.learning_rate_factor);
  if (group.weight_decay) written["weight_decay"] = FromNumber(*group.weight_decay);
  if (group.frozen) written["frozen"] = true;
  return written;
}

json RangeSchema(const NumberRange& range) {
  return {{"type", "number"}, {"minimum", range.min}, {"maximum", range.max}};
}

}  // namespace

absl::Status ReadGroups(const Document& document, const json& value,
                        std::vector<ParameterGroup>& groups) {
  if (!value.is_array())
    return ErrorAt(
        document, "groups",
        absl::StrCat(Describe(value), " is not a list; write [{match: \"*.bias\", ...}]"));
  if (value.size() > kMostGroups)
    return ErrorAt(document, "groups",
                   absl::StrCat(value.size(), " groups; at most ", kMostGroups, " are allowed"));
  groups.assign(value.size(), {});
  for (size_t i = 0; i < value.size(); ++i)
    MUSTER_RETURN_IF_ERROR(ReadGroup(document, FieldPath("groups", i), value[i], groups[i]));
  return absl::OkStatus();
}

json FromGroups(const std::vector<ParameterGroup>& groups) {
  json list = json::array();
  for (const ParameterGroup& group : groups) list.push_back(FromGroup(group));
  return list;
}

json GroupsSchema() {
  return {{"type", "array"},
          {"maxItems", kMostGroups},
          {"items",
           {{"type", "object"},
            {"additionalProperties", false},
            {"required", json::array({"match"})},
            {"properties",
             {{"match", {{"type", "string"}, {"minLength", 1}, {"maxLength", kLongestMatch}}},
              {"learning_rate_factor", RangeSchema(kFactors)},
              {"weight_decay", RangeSchema(kFactors)},
              {"frozen", {{"type", "boolean"}}}}}}}};
}

absl::Status ReadLearningRate(const Document& document, const json& value,
                              OptimizerSpec& optimizer) {
  const std::string field = "optimizer.learning_rate";
  const bool is_scaled = value.is_object();
  if (is_scaled) {
    MUSTER_RETURN_IF_ERROR(CheckKeys(document, field, value, {"value", "per_samples"}));
    for (const char* key : {"value", "per_samples"})
      if (value.value(key, json()).is_null())
        return ErrorAt(document, FieldPath(field, key),
                       "is missing; write {value: 0.1, per_samples: 256}, or the rate alone");
    MUSTER_RETURN_IF_ERROR(ReadWhole(document, FieldPath(field, "per_samples"),
                                     value["per_samples"], 1, kMostSamplesPerStep)
                               .status());
  }
  MUSTER_ASSIGN_OR_RETURN(optimizer.learning_rate,
                          ReadNumber(document, is_scaled ? FieldPath(field, "value") : field,
                                     is_scaled ? value["value"] : value, kLearningRates));
  return absl::OkStatus();
}

json LearningRateSchema() {
  const json rate = RangeSchema(kLearningRates);
  return {{"anyOf",
           {rate,
            {{"type", "object"},
             {"additionalProperties", false},
             {"required", {"value", "per_samples"}},
             {"properties",
              {{"value", rate},
               {"per_samples",
                {{"type", "integer"},
                 {"format", "int64"},
                 {"minimum", 1},
                 {"maximum", kMostSamplesPerStep}}}}}}}}};
}

absl::Status ResolveLearning(const Document& document, const json& accumulate,
                             const json& learning_rate, TrainingSpec& training) {
  if (!accumulate.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 times,
                            ReadWhole(document, "accumulate", accumulate, 1, kMostLanes));
    const absl::int128 lanes = times * training.lanes, batch = times * training.batch;
    if (lanes > kMostLanes || batch > kMostSamplesPerStep)
      return ErrorAt(document, "accumulate",
                     absl::StrCat("makes steps of ", static_cast<int64_t>(lanes), " lanes and ",
                                  static_cast<int64_t>(batch), " samples; at most ", kMostLanes,
                                  " and ", kMostSamplesPerStep, " are allowed"));
    training.lanes = static_cast<int32_t>(lanes);
    training.batch = static_cast<int64_t>(batch);
  }
  if (!learning_rate.is_object()) return absl::OkStatus();
  double& rate = training.optimizer.learning_rate;
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 per_samples,
                          ReadWhole(document, "optimizer.learning_rate.per_samples",
                                    learning_rate["per_samples"], 1, kMostSamplesPerStep));
  rate = rate * static_cast<double>(training.batch) / static_cast<double>(per_samples);
  if (rate <= kLearningRates.max) return absl::OkStatus();
  return ErrorAt(document, "optimizer.learning_rate",
                 absl::StrCat("is ", ToText(rate), " for the ", training.batch,
                              " samples of a step; allowed: ", ToText(kLearningRates)));
}

absl::Status CheckSchedule(const Document& document, const ScheduleSpec& schedule) {
  if (schedule.kind == ScheduleKind::kStep && schedule.step_size == 0)
    return ErrorAt(document, "schedule.step_size",
                   "is missing; write how many steps there are from one fall of the rate to the "
                   "next");
  if (schedule.kind == ScheduleKind::kMilestones && schedule.milestones.empty())
    return ErrorAt(document, "schedule.milestones",
                   "is missing; write the steps at which the rate falls, such as [1000, 2000]");
  return absl::OkStatus();
}

absl::Status CheckOptimizer(const Document& document, const TrainingSpec& training) {
  if (!IsLayerwise(training.optimizer.kind) || training.sync == Sync::kAllreduce)
    return absl::OkStatus();
  return ErrorAt(document, "optimizer.kind",
                 "lamb and lars are for sync: allreduce; servers have pieces of tensors, and these "
                 "optimizers need the norms of whole ones");
}

absl::Status CheckLeavesOut(const Document& document, const TrainingSpec& training) {
  const int64_t most = MostSamplesWithPlaces(training);
  if (!LeavesOut(training) || training.batch <= most) return absl::OkStatus();
  return ErrorAt(
      document, "data.on_bad_sample",
      absl::StrCat("skip keeps account of ", most, " samples of a step with ", training.lanes,
                   " lanes", training.validation.wanted() ? " and with validation" : "",
                   ", and the batch has ", training.batch,
                   "; take a smaller batch or fewer lanes, or leave it at stop"));
}

absl::Status CheckSyncs(const Document& document, const TrainingSpec& training) {
  if (!training.sync_batch_norm) return absl::OkStatus();
  const auto refused = [&](const std::string& why) {
    return ErrorAt(document, "sync_batch_norm", why);
  };
  if (training.sync == Sync::kServer)
    return refused(
        "is for sync: allreduce; a server holds its sums back until all of a step are known, and "
        "lanes would wait for them");
  if (training.order == SumOrder::kFree)
    return refused(
        "is for order: canonical; a total that is summed once more after a failure must be the "
        "same");
  if (training.task == "torchscript")
    return refused(
        "is not for task torchscript: what a compiled module does in its batch norm is its own; "
        "take layers, or a plug-in with muster::torch::SyncBatchNorm");
  if (training.lanes > kMostSyncLanes)
    return refused(absl::StrCat("needs at most ", kMostSyncLanes, " lanes, and there are ",
                                training.lanes,
                                ", since a worker keeps what each of its lanes has computed so "
                                "far; take fewer lanes"));
  return absl::OkStatus();
}

absl::Status CheckValidation(const Document& document, const TrainingSpec& training) {
  const ValidationSpec& validation = training.validation;
  const bool is_plateau = training.schedule.kind == ScheduleKind::kPlateau;
  if (is_plateau && !validation.wanted())
    return ErrorAt(document, "schedule.kind",
                   "plateau needs measures: give validation.every_steps or every_epochs");
  if (is_plateau && training.sync == Sync::kServer)
    return ErrorAt(document, "schedule.kind",
                   "plateau is for sync: allreduce; servers know only their part of the state, and "
                   "not what was measured");
  const bool has_data = !validation.paths.empty() || training.data.validation_share > 0;
  if (validation.wanted() && !has_data)
    return ErrorAt(document, "validation.paths",
                   "is missing; name files to measure the model with, or leave a part of the data "
                   "out of training by data.validation_share");
  if (!validation.wanted() || !validation.by_follower()) return absl::OkStatus();
  if (validation.every_steps > 0 && validation.every_epochs > 0)
    return ErrorAt(document, "validation.every_epochs",
                   "with validation.on: follower one cadence is allowed; remove this one or "
                   "validation.every_steps");
  // How many steps an epoch has, workers say.
  if (validation.every_steps > 0 && validation.delay > validation.every_steps)
    return ErrorAt(document, "validation.delay",
                   absl::StrCat(validation.delay, " is more than validation.every_steps (",
                                validation.every_steps, "); write at most as many"));
  return absl::OkStatus();
}

absl::Status ReadMilestones(const Document& document, const json& value,
                            std::vector<int64_t>& milestones) {
  const std::string field = "schedule.milestones";
  if (!value.is_array() || value.size() > static_cast<size_t>(kMostMilestones))
    return ErrorAt(
        document, field,
        value.is_array()
            ? absl::StrCat(value.size(), " steps; at most ", kMostMilestones, " are allowed")
            : absl::StrCat(Describe(value), " is not a list; write [1000, 2000]"));
  milestones.clear();
  for (size_t i = 0; i < value.size(); ++i) {
    const int64_t least = milestones.empty() ? 1 : milestones.back() + 1;
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 step,
                            ReadWhole(document, FieldPath(field, i), value[i], least, kMostSteps));
    milestones.push_back(static_cast<int64_t>(step));
  }
  return absl::OkStatus();
}

}  // namespace muster
