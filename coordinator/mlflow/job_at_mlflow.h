// One job as a run of MLflow, which is found again by the job's key: by this coordinator after a
// restart, and by one that goes on elsewhere with the same store. It is made of the ledger. Lives
// as long as the job is known. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/mlflow/messages.h"
#include "coordinator/runtime/job_history.h"
#include "coordinator/state/job_state.h"

namespace muster::coordinator {

// As MlflowClient::Ask.
using AskMlflow =
    std::function<absl::StatusOr<std::string>(const std::string& path, const std::string& body)>;
// Steps of a job's history from that one on, page by page.
using ReadSteps =
    std::function<absl::StatusOr<HistoryPage>(const JobJournal& job, Step recorded, int64_t from)>;

// The ids of experiments by their names, as the server told them.
using MlflowExperiments = std::map<std::string, std::string>;

// Where the run of a job belongs.
struct MlflowPlace {
  std::string cluster;     // id of ours
  std::string experiment;  // its name; empty: by the job's namespace
};

class JobAtMlflow {
 public:
  explicit JobAtMlflow(MlflowPlace place) : place_(std::move(place)) {}

  // Sends what the server lacks: the run itself with the first step, then points, and at last how
  // the job ended. True: there is more, as one call sends a bounded part. After an error the server
  // is asked anew what it has. kFailedPrecondition: people have deleted the run, or its experiment,
  // at the server, and nothing more is sent.
  absl::StatusOr<bool> Follow(const JobJournal& job, Step recorded, const ReadSteps& read,
                              const AskMlflow& ask, MlflowExperiments& experiments);

  // The step from which on the server lacks points, as far as we know.
  int64_t next() const { return next_; }

 private:
  absl::StatusOr<bool> Send(const JobJournal& job, Step recorded, const ReadSteps& read,
                            const AskMlflow& ask);
  absl::Status Find(const JobJournal& job, Step recorded, const ReadSteps& read,
                    const AskMlflow& ask, MlflowExperiments& experiments);
  absl::Status SendTexts(const JobJournal& job, const AskMlflow& ask);
  absl::Status SendPoints(absl::Span<const MlflowPoint> points, const AskMlflow& ask);
  absl::Status SetStatus(const std::string& status, int64_t end_ms, const AskMlflow& ask);

  const MlflowPlace place_;
  std::optional<MlflowRun> run_;  // as the server has it; nothing: it is to be asked
  int64_t next_ = 0;
  int64_t newest_ms_ = 0;  // when the step before it was recorded; 0: not known
};

// Of which a run is the only one: no other job of any cluster has it.
std::string MlflowKeyOf(const std::string& cluster, const JobJournal& job);

}  // namespace muster::coordinator
