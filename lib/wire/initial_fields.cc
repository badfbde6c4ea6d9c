#include "lib/wire/initial_fields.h"

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

constexpr size_t kLongestPrefix = 1024;
constexpr size_t kLongestMeasure = 80;

// As tasks call them: lower-case letters, digits and "_".
bool IsMetricName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(static_cast<unsigned char>(c)) ||
           absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '_';
  });
}

absl::Status ReadPrefix(const Document& document, const std::string& field, const json& value,
                        std::string& prefix) {
  MUSTER_ASSIGN_OR_RETURN(prefix, ReadText(document, field, value));
  if (prefix.size() <= kLongestPrefix) return absl::OkStatus();
  return ErrorAt(document, field,
                 absl::StrCat(prefix.size(), " bytes; at most ", kLongestPrefix, " are allowed"));
}

absl::Status ReadChange(const Document& document, const std::string& path, const json& value,
                        PrefixChange& change) {
  MUSTER_RETURN_IF_ERROR(CheckKeys(document, path, value, {"from", "to"}));
  const json from = value.value("from", json()), to = value.value("to", json());
  if (!from.is_null())
    MUSTER_RETURN_IF_ERROR(ReadPrefix(document, FieldPath(path, "from"), from, change.from));
  if (!to.is_null())
    MUSTER_RETURN_IF_ERROR(ReadPrefix(document, FieldPath(path, "to"), to, change.to));
  if (!change.from.empty() || !change.to.empty()) return absl::OkStatus();
  return ErrorAt(document, path,
                 "changes nothing; write how names of the file begin, such as {from: \"module.\"}");
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

absl::Status ReadPrefixChanges(const Document& document, const json& value,
                               std::vector<PrefixChange>& map) {
  if (!value.is_array())
    return ErrorAt(document, "initial.map",
                   absl::StrCat(Describe(value), " is not a list; write [{from: \"module.\"}]"));
  if (value.size() > kMostPrefixChanges)
    return ErrorAt(
        document, "initial.map",
        absl::StrCat(value.size(), " items; at most ", kMostPrefixChanges, " are allowed"));
  map.assign(value.size(), {});
  for (size_t i = 0; i < value.size(); ++i)
    MUSTER_RETURN_IF_ERROR(ReadChange(document, FieldPath("initial.map", i), value[i], map[i]));
  return absl::OkStatus();
}

json FromPrefixChanges(const std::vector<PrefixChange>& map) {
  json list = json::array();
  for (const PrefixChange& change : map) {
    json& written = list.emplace_back(json::object());
    if (!change.from.empty()) written["from"] = change.from;
    if (!change.to.empty()) written["to"] = change.to;
  }
  return list;
}

json PrefixChangesSchema() {
  const json prefix = {{"type", "string"}, {"maxLength", kLongestPrefix}};
  return {{"type", "array"},
          {"maxItems", kMostPrefixChanges},
          {"items",
           {{"type", "object"},
            {"additionalProperties", false},
            {"properties", {{"from", prefix}, {"to", prefix}}}}}};
}

absl::Status ReadKeep(const Document& document, const json& value, CheckpointPolicy& policy) {
  const std::string field = "checkpoint.keep";
  const bool is_rule = value.is_object();
  if (is_rule) MUSTER_RETURN_IF_ERROR(CheckKeys(document, field, value, {"last", "every", "best"}));
  const json last = is_rule ? value.value("last", json()) : value;
  const json every = is_rule ? value.value("every", json()) : json();
  const json best = is_rule ? value.value("best", json()) : json();
  if (!best.is_null())
    MUSTER_RETURN_IF_ERROR(ReadBest(document, FieldPath(field, "best"), best, policy.keep_best));
  if (!last.is_null()) {
    MUSTER_ASSIGN_OR_RETURN(
        const absl::int128 number,
        ReadWhole(document, is_rule ? FieldPath(field, "last") : field, last, 1, kMostKept));
    policy.keep = static_cast<int32_t>(number);
  }
  if (every.is_null()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 number,
                          ReadWhole(document, FieldPath(field, "every"), every, 0, kMostSteps));
  policy.keep_every = static_cast<int64_t>(number);
  return absl::OkStatus();
}

absl::Status CheckKeep(const Document& document, const JobSpec& spec) {
  if (spec.runtime.checkpoint.keep_best.empty() || spec.training.validation.wanted())
    return absl::OkStatus();
  return ErrorAt(document, "checkpoint.keep.best",
                 "nothing is measured: give validation.every_steps or every_epochs");
}

json FromKeep(const CheckpointPolicy& policy) {
  if (policy.keep_every == 0 && policy.keep_best.empty()) return policy.keep;
  json keep = {{"last", policy.keep}};
  if (policy.keep_every != 0) keep["every"] = policy.keep_every;
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
             {"properties", {{"last", last}, {"every", every}, {"best", best}}}}}}};
}

}  // namespace muster
