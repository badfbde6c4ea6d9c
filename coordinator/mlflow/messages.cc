#include "coordinator/mlflow/messages.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/printable.h"
#include "lib/base/status.h"
#include "lib/domain/history_series.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostErrorBytes = 256;
// It takes 250: there is room for a number behind, and for "muster.now." before.
constexpr size_t kMostNameBytes = 225;

// What is no UTF-8 is replaced: text comes from specifications and tasks.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json TextsOf(const MlflowTexts& texts) {
  Json list = Json::array();
  for (const auto& [key, value] : texts) list.push_back({{"key", key}, {"value", value}});
  return list;
}

std::string StringIn(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

// Versions differ in whether a 64-bit number is one or a text.
std::optional<int64_t> NumberIn(const Json& object, const char* name) {
  const auto it = object.find(name);
  if (it == object.end()) return std::nullopt;
  if (it->is_number_integer()) return it->get<int64_t>();
  int64_t number = 0;
  if (it->is_string() && absl::SimpleAtoi(it->get<std::string>(), &number)) return number;
  return std::nullopt;
}

Json ObjectIn(const Json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_object() ? *it : Json::object();
}

std::vector<Json> ListIn(const Json& object, const char* name) {
  std::vector<Json> list;
  if (const auto it = object.find(name); it != object.end() && it->is_array())
    for (const Json& entry : *it)
      if (entry.is_object()) list.push_back(entry);
  return list;
}

absl::StatusOr<Json> ObjectOf(const std::string& answer) {
  Json object = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return object;
  return absl::DataLossError("it answers with something else than MLflow does; is it one?");
}

absl::Status Lacks(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("its answer has no ", what, "; is it MLflow?"));
}

absl::StatusOr<MlflowRun> RunFrom(const Json& object) {
  const Json info = ObjectIn(object, "info"), data = ObjectIn(object, "data");
  MlflowRun run{.id = StringIn(info, "run_id"), .status = StringIn(info, "status")};
  if (run.id.empty()) return Lacks("run_id");
  run.is_deleted = StringIn(info, "lifecycle_stage") == "deleted";
  for (const Json& metric : ListIn(data, "metrics")) {
    // A server of long ago leaves out a step of 0.
    const int64_t step = NumberIn(metric, "step").value_or(0);
    int64_t& newest = run.newest.try_emplace(StringIn(metric, "key"), step).first->second;
    newest = std::max(newest, step);
  }
  for (const Json& param : ListIn(data, "params"))
    run.params[StringIn(param, "key")] = StringIn(param, "value");
  for (const Json& tag : ListIn(data, "tags"))
    run.tags[StringIn(tag, "key")] = StringIn(tag, "value");
  return run;
}

// MLflow takes letters, digits, "_", "-", ".", " ", ":" and "/" in names. To it a name is a path,
// which it takes in the shortest form alone.
std::string NameForMlflow(std::string name) {
  name.resize(std::min(name.size(), kMostNameBytes));
  const auto is_taken = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.' || c == ' ' || c == ':' ||
           c == '/';
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !is_taken(c); }, '_');
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const bool is_shortest = std::none_of(parts.begin(), parts.end(), [](absl::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
  if (!is_shortest) std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const unsigned char c : text) {
    if (absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~') {
      escaped += static_cast<char>(c);
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      escaped += {'%', kDigits[c >> 4], kDigits[c & 15]};
    }
  }
  return escaped;
}

}  // namespace

std::string MlflowFindExperiment(const std::string& name) {
  return absl::StrCat("/api/2.0/mlflow/experiments/get-by-name?experiment_name=", Escaped(name));
}

std::string CreateExperimentBody(const std::string& name) { return Text({{"name", name}}); }

// The key has no quote: it is of ids and numbers.
std::string SearchRunsBody(const std::string& experiment, const std::string& key) {
  return Text({{"experiment_ids", Json::array({experiment})},
               {"filter", absl::StrCat("tags.`", kMlflowRunTag, "` = '", key, "'")},
               {"run_view_type", "ALL"},
               {"order_by", Json::array({"attributes.start_time ASC"})},
               {"max_results", 1}});
}

std::string CreateRunBody(const std::string& experiment, const std::string& name, int64_t unix_ms,
                          const MlflowTexts& tags) {
  return Text({{"experiment_id", experiment},
               {"run_name", name},
               {"start_time", unix_ms},
               {"tags", TextsOf(tags)}});
}

std::string UpdateRunBody(const std::string& run, const std::string& status, int64_t end_ms) {
  Json body = {{"run_id", run}, {"status", status}};
  if (end_ms > 0) body["end_time"] = end_ms;
  return Text(body);
}

std::string BatchBody(const std::string& run, absl::Span<const MlflowPoint> points,
                      const MlflowTexts& params, const MlflowTexts& tags) {
  Json metrics = Json::array();
  for (const MlflowPoint& point : points)
    metrics.push_back({{"key", point.key},
                       {"value", point.value},
                       {"timestamp", point.unix_ms},
                       {"step", point.step}});
  return Text({{"run_id", run},
               {"metrics", std::move(metrics)},
               {"params", TextsOf(params)},
               {"tags", TextsOf(tags)}});
}

absl::StatusOr<MlflowExperiment> ExperimentIn(const std::string& answer) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ObjectOf(answer));
  const Json experiment = ObjectIn(object, "experiment");
  MlflowExperiment found{StringIn(experiment, "experiment_id"),
                         StringIn(experiment, "lifecycle_stage") == "deleted"};
  if (found.id.empty()) return Lacks("experiment_id");
  return found;
}

absl::StatusOr<std::string> CreatedExperimentIn(const std::string& answer) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ObjectOf(answer));
  std::string id = StringIn(object, "experiment_id");
  if (id.empty()) return Lacks("experiment_id");
  return id;
}

absl::StatusOr<std::optional<MlflowRun>> FoundRunIn(const std::string& answer) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ObjectOf(answer));
  const std::vector<Json> runs = ListIn(object, "runs");
  if (runs.empty()) return std::nullopt;
  MUSTER_ASSIGN_OR_RETURN(MlflowRun run, RunFrom(runs.front()));
  return run;
}

absl::StatusOr<MlflowRun> CreatedRunIn(const std::string& answer) {
  MUSTER_ASSIGN_OR_RETURN(const Json object, ObjectOf(answer));
  return RunFrom(ObjectIn(object, "run"));
}

absl::Status CheckTaken(const std::string& answer) { return ObjectOf(answer).status(); }

MlflowError MlflowErrorIn(const std::string& answer) {
  const Json object = Json::parse(answer, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return {};
  MlflowError error{StringIn(object, "error_code"), ""};
  const std::string message = StringIn(object, "message");
  if (error.code.empty() && message.empty()) return {};
  error.text = Cut(Printable(absl::StrCat(error.code, error.code.empty() ? "" : ": ", message)),
                   kMostErrorBytes);
  return error;
}

std::vector<std::string> NamesForMlflow(const std::vector<std::string>& names) {
  std::set<std::string> taken;
  for (const std::string& name : names)
    if (NameForMlflow(name) == name) taken.insert(name);
  std::map<std::string, int> numbers;
  std::vector<std::string> there;
  for (const std::string& name : names) {
    const std::string plain = NameForMlflow(name);
    std::string unique = plain;
    int& number = numbers.try_emplace(plain, 1).first->second;
    while (plain != name && !taken.insert(unique).second)
      unique = absl::StrCat(plain, "_", ++number);
    there.push_back(std::move(unique));
  }
  return there;
}

std::vector<MlflowPoint> PointsBehind(absl::Span<const HistoryStep> steps,
                                      const std::map<std::string, int64_t>& newest) {
  std::vector<MlflowPoint> points;
  for (const HistoryStep& step : steps)
    for (auto& [name, value] : ValuesOf(step)) {
      std::string key = NameForMlflow(std::move(name));
      const auto known = newest.find(key);
      if (known == newest.end() || known->second < step.step)
        points.push_back({std::move(key), value, step.unix_ms, step.step});
    }
  return points;
}

// Of the last step that it has some points may be missing: whoever keeps them in files keeps one
// after the other. What was measured tells nothing of it: that of a last state has the number of
// the step that would bring it, and where the job is made longer, others come before that one.
int64_t FirstStepToRead(const std::map<std::string, int64_t>& newest) {
  int64_t first = 0;
  for (const std::string& series : HistorySeriesNames())
    if (const auto known = newest.find(series); known != newest.end())
      first = std::max(first, known->second);
  return first;
}

}  // namespace muster::coordinator
