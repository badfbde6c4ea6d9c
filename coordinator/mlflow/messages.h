// What is said to an MLflow tracking server, and what it answers, as JSON
// (https://mlflow.org/docs/latest/api_reference/rest-api.html, version 2.0 of its interface). Pure.
//
// A server cannot take a point back, and one that is a file store keeps a point twice that it is
// told twice. So what it has is asked first, and only what lies behind is sent: each metric's
// points in the order of their steps.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "lib/domain/history.h"

namespace muster::coordinator {

// A run as the server has it.
struct MlflowRun {
  std::string id;
  std::string status;  // "RUNNING", …
  bool is_deleted = false;
  std::map<std::string, int64_t> newest{};  // metric → step of its last point
  std::map<std::string, std::string> params{};
  std::map<std::string, std::string> tags{};
};

// The tag by which a run is found again, and the others.
inline constexpr char kMlflowRunTag[] = "muster.run";

struct MlflowPoint {
  std::string key;
  double value = 0;
  int64_t unix_ms = 0;
  int64_t step = 0;
  bool operator==(const MlflowPoint&) const = default;
};

using MlflowTexts = std::vector<std::pair<std::string, std::string>>;  // name and value

// What the server takes in one request.
inline constexpr size_t kMostMlflowPoints = 1000;
inline constexpr size_t kMostMlflowTexts = 100;

// Below the address of the server.
inline constexpr char kMlflowCreateExperiment[] = "/api/2.0/mlflow/experiments/create";
inline constexpr char kMlflowSearchRuns[] = "/api/2.0/mlflow/runs/search";
inline constexpr char kMlflowCreateRun[] = "/api/2.0/mlflow/runs/create";
inline constexpr char kMlflowUpdateRun[] = "/api/2.0/mlflow/runs/update";
inline constexpr char kMlflowLogBatch[] = "/api/2.0/mlflow/runs/log-batch";
std::string MlflowFindExperiment(const std::string& name);  // to be asked with GET

std::string CreateExperimentBody(const std::string& name);
// `key`: value of kMlflowRunTag; deleted runs, too.
std::string SearchRunsBody(const std::string& experiment, const std::string& key);
std::string CreateRunBody(const std::string& experiment, const std::string& name, int64_t unix_ms,
                          const MlflowTexts& tags);
// `end_ms`: 0: it has not ended.
std::string UpdateRunBody(const std::string& run, const std::string& status, int64_t end_ms);
// Of each at most as many as one request takes.
std::string BatchBody(const std::string& run, absl::Span<const MlflowPoint> points,
                      const MlflowTexts& params, const MlflowTexts& tags);

// kDataLoss: it is not what such an answer is. The id, and whether people have deleted it.
struct MlflowExperiment {
  std::string id;
  bool is_deleted = false;
};
absl::StatusOr<MlflowExperiment> ExperimentIn(const std::string& answer);        // found
absl::StatusOr<std::string> CreatedExperimentIn(const std::string& answer);      // created
absl::StatusOr<std::optional<MlflowRun>> FoundRunIn(const std::string& answer);  // the oldest
absl::StatusOr<MlflowRun> CreatedRunIn(const std::string& answer);

// That of a request which changes something: whoever answers 200 to everything is no MLflow.
absl::Status CheckTaken(const std::string& answer);

// Of an answer that is an error: "RESOURCE_DOES_NOT_EXIST: No experiment with …", fit for a line of
// a log; empty: it is none of MLflow's.
struct MlflowError {
  std::string code;
  std::string text;
};
MlflowError MlflowErrorIn(const std::string& answer);

// What these are called there, in their order. A name that MLflow takes stays as it is; in others
// "_" stands for each byte that it does not take, and long ones are cut. Two that were different
// stay different: the second one is numbered.
std::vector<std::string> NamesForMlflow(const std::vector<std::string>& names);

// The values of these steps that lie behind `newest`, in the order of the steps, under names that
// MLflow takes.
std::vector<MlflowPoint> PointsBehind(absl::Span<const HistoryStep> steps,
                                      const std::map<std::string, int64_t>& newest);
// From which step those are to be read: all before is there.
int64_t FirstStepToRead(const std::map<std::string, int64_t>& newest);

}  // namespace muster::coordinator
