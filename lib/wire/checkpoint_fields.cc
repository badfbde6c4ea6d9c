#include "lib/wire/checkpoint_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/status.h"
#include "lib/domain/best_state.h"
#include "lib/wire/learning_fields.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kLongestMeasure = 80;

// As tasks call them: lower-case letters, digits and "_".
bool IsMetricName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
  });
}

// "" is that of a job which keeps no best one.
absl::Status ReadBest(const Document& document, const std::string& field, const json& value,
                      std::string& best) {
  MUSTER_ASSIGN_OR_RETURN(best, ReadText(document, field, value));
  absl::string_view metric = best;
  if (best.empty() || (best.size() <= kLongestMeasure &&
                       absl::ConsumePrefix(&metric, kMeasuredPrefix) && IsMetricName(metric)))
    return absl::OkStatus();
  return ErrorAt(document, field,
                 absl::StrCat("'", best.substr(0, kLongestMeasure), "' is no measure; write ",
                              kMeasuredPrefix, "METRIC, such as validation.loss"));
}

}  // namespace

absl::Status ReadKeep(const Document& document, const json& value, CheckpointPolicy& policy) {
  const std::string field = "checkpoint.keep";
  const bool is_rule = value.is_object();
  if (is_rule)
    MUSTER_RETURN_IF_ERROR(
        CheckKeys(document, field, value, {"last", "every", "every_epochs", "best"}));
  const json last = is_rule ? value.value("last", json()) : value;
  const json best = is_rule ? value.value("best", json()) : json();
  if (!best.is_null())
    MUSTER_RETURN_IF_ERROR(ReadBest(document, FieldPath(field, "best"), best, policy.keep_best));
  if (!last.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(
        const absl::int128 number,
        ReadWhole(document, is_rule ? FieldPath(field, "last") : field, last, 1, kMostKept));
    policy.keep = static_cast<int32_t>(number);
  }
  const std::pair<const char*, int64_t*> periods[] = {{"every", &policy.keep_every},
                                                      {"every_epochs", &policy.keep_epochs}};
  for (const auto& [name, period] : periods) {
    const json given = is_rule ? value.value(name, json()) : json();
    if (given.is_null()) continue;
    MUSTER_ASSIGN_OR_RETURN(const absl::int128 number,
                            ReadWhole(document, FieldPath(field, name), given, 0, kMostSteps));
    *period = static_cast<int64_t>(number);
  }
  return absl::OkStatus();
}

absl::Status CheckKeep(const Document& document, const JobSpec& spec) {
  if (spec.runtime.checkpoint.keep_best.empty() || spec.training.validation.wanted())
    return absl::OkStatus();
  return ErrorAt(document, "checkpoint.keep.best",
                 "nothing is measured: give validation.every_steps or every_epochs");
}

json FromKeep(const CheckpointPolicy& policy) {
  if (policy.keep_every == 0 && policy.keep_epochs == 0 && policy.keep_best.empty())
    return policy.keep;
  json keep = {{"last", policy.keep}};
  if (policy.keep_every != 0) keep["every"] = policy.keep_every;
  if (policy.keep_epochs != 0) keep["every_epochs"] = policy.keep_epochs;
  if (!policy.keep_best.empty()) keep["best"] = policy.keep_best;
  return keep;
}

json KeepSchema() {
  const json last = {
      {"type", "integer"}, {"format", "int64"}, {"minimum", 1}, {"maximum", kMostKept}};
  const json every = {
      {"type", "integer"}, {"format", "int64"}, {"minimum", 0}, {"maximum", kMostSteps}};
  const json best = {{"type", "string"}, {"maxLength", kLongestMeasure}};
  return {{"anyOf",
           {last,
            {{"type", "object"},
             {"additionalProperties", false},
             {"properties",
              {{"last", last}, {"every", every}, {"every_epochs", every}, {"best", best}}}}}}};
}

}  // namespace muster
