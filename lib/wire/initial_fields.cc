#include "lib/wire/initial_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/domain/job_id.h"
#include "lib/domain/labels.h"
#include "lib/wire/learning_fields.h"

namespace muster {
namespace {

using nlohmann::json;

constexpr size_t kLongestPrefix = 1024;
constexpr size_t kDigestDigits = 64;
// Of all forks together that a state may have come through.
constexpr int64_t kMostUpdates = int64_t{1} << 50;

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

namespace {

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::Status ReadCount(const Document& document, const std::string& field, const json& value,
                       int64_t most, std::optional<int64_t>& count) {
  if (value.is_null()) return absl::OkStatus();
  MUSTER_ASSIGN_OR_RETURN(const absl::int128 number, ReadWhole(document, field, value, 0, most));
  count = static_cast<int64_t>(number);
  return absl::OkStatus();
}

absl::Status ReadStep(const Document& document, const std::string& field, const json& value,
                      ParentState& state) {
  if (value == "latest") return absl::OkStatus();  // as where it is left out
  if (value.is_string() && IsKeptName(value.get<std::string>())) {
    state.name = value.get<std::string>();
    return absl::OkStatus();
  }
  if (ReadCount(document, field, value, kMostSteps, state.step).ok()) return absl::OkStatus();
  return ErrorAt(document, field,
                 absl::StrCat(Describe(value), " is not known; allowed: latest, best, a step, ",
                              ToText(0, kMostSteps), ", or the name of a checkpoint that is kept, ",
                              kKeptNameRule));
}

json CountSchema(int64_t most) {
  return {{"type", "integer"}, {"format", "int64"}, {"minimum", 0}, {"maximum", most}};
}

}  // namespace

absl::Status ReadParent(const Document& document, const json& value,
                        std::optional<ParentState>& parent) {
  const std::string field = "initial.parent";
  const auto path = [&](const char* key) { return FieldPath(field, key); };
  const auto given = [&](const char* key) { return value.value(key, json()); };
  MUSTER_RETURN_IF_ERROR(
      CheckKeys(document, field, value, {"job", "step", "digest", "updates", "average"}));
  ParentState state;
  if (given("job").is_null())
    return ErrorAt(document, path("job"), "is missing; write the id of the parent");
  MUSTER_ASSIGN_OR_RETURN(state.job, ReadText(document, path("job"), given("job")));
  if (!IsJobId(state.job))
    return ErrorAt(document, path("job"), absl::StrCat("must be ", JobIdRule()));
  MUSTER_RETURN_IF_ERROR(ReadStep(document, path("step"), given("step"), state));
  if (!given("digest").is_null()) {
    MUSTER_ASSIGN_OR_RETURN(state.digest, ReadText(document, path("digest"), given("digest")));
    if (!IsDigest(state.digest))
      return ErrorAt(document, path("digest"),
                     absl::StrCat(Describe(given("digest")), " is no digest; allowed: ",
                                  kDigestDigits, " digits 0 to 9, a to f"));
  }
  MUSTER_RETURN_IF_ERROR(
      ReadCount(document, path("updates"), given("updates"), kMostUpdates, state.updates));
  if (!given("average").is_null()) {
    MUSTER_ASSIGN_OR_RETURN(state.average, ReadSwitch(document, path("average"), given("average")));
  }
  parent = std::move(state);
  return absl::OkStatus();
}

json FromParent(const std::optional<ParentState>& parent) {
  if (!parent) return json();
  json written = {{"job", parent->job}};
  if (parent->step) written["step"] = *parent->step;
  if (!parent->name.empty()) written["step"] = parent->name;
  if (!parent->digest.empty()) written["digest"] = parent->digest;
  if (parent->updates) written["updates"] = *parent->updates;
  if (parent->average) written["average"] = *parent->average;
  return written;
}

json ParentSchema() {
  return {{"type", "object"},
          {"additionalProperties", false},
          {"required", json::array({"job"})},
          {"properties",
           {{"job", {{"type", "string"}, {"maxLength", kLongestJobId}}},
            {"step",
             {{"anyOf",
               {CountSchema(kMostSteps),
                {{"type", "string"}, {"pattern", "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"}}}}}},
            {"digest", {{"type", "string"}, {"pattern", "^[0-9a-f]{64}$"}}},
            {"updates", CountSchema(kMostUpdates)},
            {"average", {{"type", "boolean"}}}}}};
}

}  // namespace muster
