#include "coordinator/runtime/known_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace muster::coordinator {

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job ", Cut(Printable(id)), "; `muster list` shows all jobs"));
}

absl::StatusOr<KnownJobPtr> FindJob(const KnownJobs& jobs, const std::string& id) {
  const auto known = std::lower_bound(jobs.begin(), jobs.end(), id,
                                      [](const KnownJobPtr& job, const std::string& wanted) {
                                        return job->status.job.id < wanted;
                                      });
  if (known == jobs.end() || (*known)->status.job.id != id) return NoSuchJob(id);
  return *known;
}

}  // namespace muster::coordinator
