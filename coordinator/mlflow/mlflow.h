// The jobs of a coordinator as runs of an MLflow tracking server. The ledger is what counts: the
// server is told what it lacks, and whatever keeps it from taking that holds nothing up here. What
// is not sent when the coordinator ends, the next start sends.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/mlflow/client.h"
#include "coordinator/mlflow/job_at_mlflow.h"
#include "coordinator/mlflow/settings.h"
#include "coordinator/runtime/known_job.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_signal.h"

namespace muster::coordinator {

struct MlflowOptions {
  MlflowSettings settings;
  std::string cluster;  // id of ours
  std::function<absl::StatusOr<KnownJobsPtr>()> known;
  ReadSteps read;
  // kAborted: another coordinator has taken this one's place, which then sends nothing any more.
  std::function<absl::Status()> check_claim;
  // A sentence for people: the server does not take what it is sent, or takes it again.
  std::function<void(const std::string& text)> tell;
  MlflowPatience patience{};
  Duration period = std::chrono::seconds(1);         // from one look at the jobs to the next
  Duration longest_pause = std::chrono::minutes(1);  // after failures, which begins with `period`
  // With the server when this ends; a host agent kills a coordinator after ten.
  Duration last_patience = std::chrono::seconds(5);
};

// After failures, twice as long each time.
class GrowingPause {
 public:
  bool IsOver(Time now) const { return now >= until_; }
  void Failed(Time now, Duration first, Duration longest);
  void Worked() { *this = {}; }

 private:
  Duration pause_{};
  Time until_{};
};

class Mlflow {
 public:
  explicit Mlflow(MlflowOptions options);
  // After a last look, which sends what there is, within `last_patience` and about a second.
  ~Mlflow();
  Mlflow(const Mlflow&) = delete;
  Mlflow& operator=(const Mlflow&) = delete;

 private:
  struct Kept {
    StartNumber first_start;  // which job of that id it is
    JobAtMlflow run;
    KnownJobPtr sent{};       // all of it
    bool is_deleted = false;  // at the server
    bool is_failing = false;  // by itself, and was told so
    GrowingPause pause{};
  };
  void Loop();
  bool LookAtAll(bool is_last);  // true: there is more to be sent at once
  absl::StatusOr<bool> LookAt(const KnownJobPtr& known, bool is_last);
  void Note(const std::string& job, const absl::Status& sent, Kept& kept);
  void TellWhatIsLeft();

  const MlflowOptions options_;
  std::atomic<bool> gives_up_{false};  // of the last look, too
  StopSignal stop_;
  Mutex mutex_;
  CondVar changed_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  // The thread's, from here on.
  MlflowClient client_;
  MlflowExperiments experiments_;
  std::map<std::string, Kept> kept_;
  GrowingPause pause_;        // of a server that nothing can be sent to
  bool is_failing_ = false;   // it is so, and was told so
  bool is_replaced_ = false;  // by another coordinator
  std::thread thread_;
};

}  // namespace muster::coordinator
