// The adoptions of a coordinator, from the request to the journalled job. Copying takes as long as
// the disk does, so it runs on the driver's thread for what takes long, and whoever asked looks how
// far it is. The id of a job that is being adopted is reserved from the moment it is known until
// the job is journalled, or nothing of the copy is left: no other job can come to have that id, and
// lose its checkpoints to the copy, or go on from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "coordinator/runtime/adoption.h"
#include "coordinator/runtime/driver.h"
#include "coordinator/runtime/journal.h"
#include "coordinator/service/control_api.h"
#include "lib/base/mutex.h"

namespace muster::coordinator {

class Adoptions {
 public:
  // Whether such a job may be had here at all. On the driver's thread.
  using MayHave =
      std::function<absl::Status(const KnownJobs&, const std::string& id, const JobSpec&)>;

  // `driver` and `journal` outlive it, and the driver is stopped before its end; `root` as
  // DriverOptions' checkpoint_root.
  Adoptions(Driver& driver, const Journal& journal, std::string root, MayHave may_have);

  // As JobApi::Adopt and FindAdoption, of arguments that were looked at. Thread-safe.
  void Begin(const AdoptionSource& source, JobApi::Reply<AdoptionInfo> reply);
  absl::StatusOr<AdoptionInfo> Find(const std::string& adoption) const;
  // kAlreadyExists: a job of that id is being adopted. On the driver's thread: between this and
  // the decision that the job is taken no adoption can reserve the id.
  absl::Status CheckFree(const std::string& job) const;

 private:
  struct Record {
    int64_t number = 0;
    AdoptionSource source;
    AdoptionInfo info;
    Time began{};
    Time ended{};
  };
  using RecordPtr = std::shared_ptr<Record>;  // changed under the lock only

  static bool IsUnderWay(const Record& record);
  AdoptionInfo InfoOf(const Record& record) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<RecordPtr> Open(const AdoptionSource& source, bool& is_new);
  void Change(const RecordPtr& record, const std::function<void(AdoptionInfo&)>& change);
  absl::Status Reserve(const RecordPtr& record, const std::string& job);
  void Plan(const RecordPtr& record, const std::stop_token& stop);
  void Copy(const RecordPtr& record, const AdoptionPlan& plan, const std::stop_token& stop);
  void Finish(const RecordPtr& record, const AdoptedCopy& copy);
  void Drop(const RecordPtr& record, const absl::Status& why);
  void Fail(const RecordPtr& record, const absl::Status& why);
  void End(const RecordPtr& record, const std::function<void(AdoptionInfo&)>& change);
  void Release(const RecordPtr& record);
  void RunLong(const RecordPtr& record, Background::Call call);

  Driver& driver_;
  const Journal& journal_;
  const std::string root_;
  const MayHave may_have_;

  mutable Mutex mutex_;
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, RecordPtr> records_ ABSL_GUARDED_BY(mutex_);  // by number
  // By id of the job: who reserved it.
  std::map<std::string, RecordPtr> reserved_ ABSL_GUARDED_BY(mutex_);
  // Ids for which something was copied that could not be removed.
  std::set<std::string> left_behind_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::coordinator
