// The forks that a coordinator makes (docs/decisions/0103-forks.md): a job that is submitted with
// `initial.parent` and is not there yet. Its state is copied on the driver's thread for what takes
// long, and whoever submitted it is answered once the job is journalled. Until then its id is
// reserved. Who submits the same again meanwhile waits for the same fork.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/asked_checkpoint.h"
#include "coordinator/service/control_api.h"
#include "lib/base/mutex.h"

namespace muster::coordinator {

class Forks {
 public:
  // What a submission of such a job decides; also told: whether there was none of that id.
  using Decide = std::function<absl::StatusOr<std::optional<Input>>(
      const KnownJobs&, const std::string& id, const JobSpec&, Accepts, const Caller&,
      const ManifestPtr& found, bool& created)>;
  // The answer about a job that is there.
  using Pick =
      std::function<absl::StatusOr<JobInfo>(const absl::StatusOr<KnownJobs>&, const std::string&)>;

  // `driver` and `journal` outlive it, and the driver is stopped before its end; `root` as
  // DriverOptions' checkpoint_root.
  Forks(Driver& driver, const Journal& journal, std::string root, Decide decide, Pick pick);

  // As JobApi::Submit, of a specification that was looked at and has a parent. `found`: the
  // parent's checkpoint of the step that the specification has, or what `Decide` is to know of a
  // job that is there; null: what is asked for is among those that jobs know themselves.
  // Thread-safe.
  void Submit(const std::string& id, const JobSpec& spec, Accepts accepts, const Caller& caller,
              const ManifestPtr& found, const JobApi::Reply<SubmittedJob>& reply);
  // kAlreadyExists: a job of that id is being forked. On the driver's thread: between this and the
  // decision that the job is taken no fork can reserve the id.
  absl::Status CheckFree(const std::string& job) const;

 private:
  struct Record {
    std::string id;
    JobSpec asked;
    Caller caller;
    KnownJobPtr parent;
    LineageNumber lineage;  // of the parent's checkpoint
    Step step;
    // The rest is changed under the lock.
    std::vector<JobApi::Reply<SubmittedJob>> waiting;
    bool is_begun = false;
  };
  using RecordPtr = std::shared_ptr<Record>;

  absl::StatusOr<RecordPtr> Plan(const KnownJobs& jobs, const std::string& id, const JobSpec& spec,
                                 const Caller& caller, const ManifestPtr& found) const;
  absl::StatusOr<RecordPtr> Reserve(const KnownJobs& jobs, const std::string& id,
                                    const JobSpec& spec, const Caller& caller,
                                    const ManifestPtr& found,
                                    const JobApi::Reply<SubmittedJob>& reply);
  void Copy(const RecordPtr& record, const std::stop_token& stop);
  absl::StatusOr<Fork> MakeCopy(const Record& record, const std::stop_token& stop);
  void Drop(const RecordPtr& record, const absl::Status& why);
  void Answer(const RecordPtr& record, const absl::StatusOr<SubmittedJob>& answer);

  Driver& driver_;
  const Journal& journal_;
  const std::string root_;
  const Decide decide_;
  const Pick pick_;

  mutable Mutex mutex_;
  std::map<std::string, RecordPtr> under_way_ ABSL_GUARDED_BY(mutex_);  // by id
  // Ids for which something was copied that could not be removed.
  std::set<std::string> left_behind_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
