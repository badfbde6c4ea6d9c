#include "coordinator/runtime/known_job.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/domain/view.h"

namespace muster::coordinator {

bool HoldsPlaces(const JobJournal& job) {
  return job.phase != JobPhase::kQueued && !Ended(job.phase);
}

JobRights RightsOf(const JobJournal& job) {
  return {std::string(NamespaceOf(job.spec)), job.owner};
}

absl::Status NoSuchJob(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job ", Cut(Printable(id)), "; `muster list` shows all jobs"));
}

absl::Status CheckRights(const Caller& caller, Need need, const std::string& object,
                         const JobRights* job) {
  switch (RulingOn(caller, need, job)) {
    case Ruling::kAllowed: return absl::OkStatus();
    case Ruling::kNoSuchJob: return NoSuchJob(object);
    case Ruling::kForbidden: break;
  }
  return absl::PermissionDeniedError(WhatItNeeds(caller, need, job));
}

absl::StatusOr<KnownJobPtr> FindJob(const KnownJobs& jobs, const std::string& id) {
  const auto known = std::lower_bound(jobs.begin(), jobs.end(), id,
                                      [](const KnownJobPtr& job, const std::string& wanted) {
                                        return job->status.job.id < wanted;
                                      });
  if (known == jobs.end() || (*known)->status.job.id != id) return NoSuchJob(id);
  return *known;
}

std::string WithPreparing(const std::string& waits_for, const std::set<std::string>& processes) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> workers;
  for (const std::string& name : processes)
    if (absl::StartsWith(name, "worker-")) workers.push_back(name);
  // It begins when a worker has joined.
  if (workers.empty() && processes.contains(kFollowerName)) workers.emplace_back(kFollowerName);
  if (waits_for.empty() || workers.empty()) return waits_for;
  if (workers.size() == 1)
    return absl::StrCat(waits_for, "; ", workers[0], " reads its data and makes its model");
  const std::string last =
      workers.size() > kNamed ? absl::StrCat(workers.size() - kNamed, " more") : workers.back();
  workers.resize(std::min(kNamed, workers.size() - 1));
  return absl::StrCat(waits_for, "; ", absl::StrJoin(workers, ", "), " and ", last,
                      " read their data and make their models");
}

}  // namespace muster::coordinator
