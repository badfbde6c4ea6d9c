// A tracking server as strict as MLflow's, in memory. It keeps points in the order in which they
// come, and twice what comes twice, as MLflow does that keeps them in files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace muster::coordinator {

class FakeMlflow {
 public:
  using Json = nlohmann::json;
  struct Answer {
    int status = 200;
    std::string body;
  };
  struct Run {
    std::string experiment, name, status = "RUNNING", stage = "active";
    int64_t start_time = 0, end_time = 0;
    std::map<std::string, std::string> tags, params;
    std::map<std::string, std::vector<std::pair<int64_t, double>>> points;  // step and value
  };

  // Of the next batch only so many points are kept, and nobody is told.
  int64_t keep_points = -1;
  std::map<std::string, std::pair<std::string, std::string>> experiments;  // id → name, stage
  std::map<std::string, Run> runs;                                         // by id
  int requests = 0;

  Answer Ask(const std::string& path, const std::string& body) {
    ++requests;
    constexpr char kFind[] = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=";
    if (absl::StartsWith(path, kFind)) {
      if (!body.empty()) return Error(405, "BAD_REQUEST", "it is a GET");
      for (const auto& [id, experiment] : experiments)
        if (experiment.first == path.substr(sizeof kFind - 1))
          return {200, Json{{"experiment",
                             {{"experiment_id", id},
                              {"name", experiment.first},
                              {"lifecycle_stage", experiment.second}}}}
                           .dump()};
      return Error(404, "RESOURCE_DOES_NOT_EXIST", "No experiment");
    }
    const Json asked = Json::parse(body, nullptr, false);
    if (!asked.is_object()) return Error(400, "INVALID_PARAMETER_VALUE", "no object");
    if (path == "/api/2.0/mlflow/experiments/create") return MakeExperiment(asked);
    if (path == "/api/2.0/mlflow/runs/create") return MakeRun(asked);
    if (path == "/api/2.0/mlflow/runs/search") return Search(asked);
    if (path == "/api/2.0/mlflow/runs/update") return Update(asked);
    if (path == "/api/2.0/mlflow/runs/log-batch") return LogBatch(asked);
    return Error(404, "ENDPOINT_NOT_FOUND", path);
  }

  Run* RunOf(const std::string& job) {
    for (auto& [id, run] : runs)
      if (run.tags["muster.job"] == job) return &run;
    return nullptr;
  }

 private:
  static Answer Error(int status, const std::string& code, const std::string& message) {
    return {status, Json{{"error_code", code}, {"message", message}}.dump()};
  }
  static Answer Invalid(const std::string& message) {
    return Error(400, "INVALID_PARAMETER_VALUE", message);
  }
  // As validate_param_and_metric_names of MLflow: a path in its shortest form, of few letters.
  static bool IsName(const std::string& name) {
    constexpr char kTaken[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-. :/";
    return !name.empty() && name.size() <= 250 && name.find_first_not_of(kTaken) == name.npos &&
           std::filesystem::path(name).lexically_normal().native() == name && name != "." &&
           !absl::StartsWith(name, "..") && name.front() != '/' && name.back() != '/';
  }
  static bool HasOnly(const Json& object, const std::set<std::string>& fields) {
    for (const auto& item : object.items())
      if (!fields.contains(item.key())) return false;
    return true;
  }

  Answer MakeExperiment(const Json& asked) {
    if (!HasOnly(asked, {"name"})) return Invalid("unknown field");
    for (const auto& [id, experiment] : experiments)
      if (experiment.first == asked.at("name"))
        return Error(400, "RESOURCE_ALREADY_EXISTS", "it is there");
    const std::string id = absl::StrCat(experiments.size() + 1);
    experiments[id] = {asked.at("name"), "active"};
    return {200, Json{{"experiment_id", id}}.dump()};
  }

  Answer MakeRun(const Json& asked) {
    if (!HasOnly(asked, {"experiment_id", "run_name", "start_time", "tags"}))
      return Invalid("unknown field");
    const auto experiment = experiments.find(asked.at("experiment_id"));
    if (experiment == experiments.end()) return Error(404, "RESOURCE_DOES_NOT_EXIST", "none");
    if (experiment->second.second != "active") return Invalid("the experiment is deleted");
    const std::string id = absl::StrCat("run", runs.size());
    Run& run = runs[id];
    run.experiment = experiment->first;
    run.name = asked.at("run_name");
    run.start_time = asked.at("start_time");
    for (const Json& tag : asked.at("tags")) run.tags[tag.at("key")] = tag.at("value");
    return {200, Json{{"run", Described(id)}}.dump()};
  }

  Json Described(const std::string& id) {
    const Run& run = runs.at(id);
    Json described = {{"info",
                       {{"run_id", id},
                        {"status", run.status},
                        {"lifecycle_stage", run.stage},
                        {"experiment_id", run.experiment}}},
                      {"data", {{"metrics", Json::array()}, {"tags", Json::array()}}}};
    for (const auto& [key, points] : run.points) {
      std::pair<int64_t, double> last = points.front();
      for (const auto& point : points)
        if (point.first >= last.first) last = point;
      described["data"]["metrics"].push_back(
          {{"key", key}, {"value", last.second}, {"timestamp", 1}, {"step", last.first}});
    }
    for (const auto& [key, value] : run.tags)
      described["data"]["tags"].push_back({{"key", key}, {"value", value}});
    for (const auto& [key, value] : run.params)
      described["data"]["params"].push_back({{"key", key}, {"value", value}});
    return described;
  }

  Answer Search(const Json& asked) {
    if (!HasOnly(asked, {"experiment_ids", "filter", "run_view_type", "order_by", "max_results"}))
      return Invalid("unknown field");
    if (!experiments.contains(asked.at("experiment_ids").at(0)))
      return Error(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment");
    Json found = {{"runs", Json::array()}};
    for (const auto& [id, run] : runs) {
      const auto tag = run.tags.find("muster.run");
      const bool fits =
          run.experiment == asked.at("experiment_ids").at(0) && tag != run.tags.end() &&
          asked.at("filter") == absl::StrCat("tags.`muster.run` = '", tag->second, "'");
      if (fits) found["runs"].push_back(Described(id));
    }
    return {200, found["runs"].empty() ? "{}" : found.dump()};
  }

  Answer Update(const Json& asked) {
    if (!HasOnly(asked, {"run_id", "status", "end_time"})) return Invalid("unknown field");
    const auto run = runs.find(asked.at("run_id"));
    if (run == runs.end()) return Error(404, "RESOURCE_DOES_NOT_EXIST", "no such run");
    if (run->second.stage != "active") return Invalid("the run is deleted");
    run->second.status = asked.at("status");
    if (asked.contains("end_time")) run->second.end_time = asked.at("end_time");
    return {200, "{}"};
  }

  Answer LogBatch(const Json& asked) {
    if (!HasOnly(asked, {"run_id", "metrics", "params", "tags"})) return Invalid("unknown field");
    const auto found = runs.find(asked.at("run_id"));
    if (found == runs.end()) return Error(404, "RESOURCE_DOES_NOT_EXIST", "no such run");
    Run& run = found->second;
    if (run.stage != "active") return Invalid("the run is deleted");
    if (asked.at("metrics").size() > 1000 || asked.at("params").size() > 100 ||
        asked.at("tags").size() > 100)
      return Invalid("too much for one request");
    std::set<std::string> keys;
    for (const char* list : {"metrics", "params", "tags"})
      for (const Json& entry : asked.at(list)) {
        if (!IsName(entry.at("key"))) return Invalid("Invalid name");
        if (list == std::string("params") && !keys.insert(entry.at("key")).second)
          return Invalid("a parameter stands twice");
      }
    for (const Json& point : asked.at("metrics"))
      if (!point.at("value").is_number()) return Invalid("a value is no number");
    for (const Json& param : asked.at("params")) {
      const auto known = run.params.try_emplace(param.at("key"), param.at("value"));
      if (!known.second && known.first->second != param.at("value"))
        return Invalid("a parameter is not changed");
    }
    for (const Json& tag : asked.at("tags")) run.tags[tag.at("key")] = tag.at("value");
    for (const Json& point : asked.at("metrics")) {
      if (keep_points == 0) return {500, "<html>"};
      if (keep_points > 0) --keep_points;
      run.points[point.at("key")].push_back({point.at("step"), point.at("value")});
    }
    if (keep_points == 0 && !asked.at("metrics").empty()) return {500, "<html>"};
    return {200, "{}"};
  }
};

}  // namespace muster::coordinator
