#include "coordinator/runtime/known_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/printable.h"
#include "lib/domain/view.h"

namespace muster::coordinator {
namespace {

constexpr size_t kNamed = 3;  // of processes that do the same

std::string TextOf(const std::string& name, const HowFar& how_far) {
  const char* does = how_far.waits
                         ? (how_far.hashes ? "waits for a process that is hashing the same data"
                                           : "waits for a process that prepares the same")
                         : (how_far.hashes ? "is hashing data" : "prepares what its task asks for");
  return absl::StrCat(name, " ", does, ": ", how_far.percent, " %",
                      how_far.what.empty() ? "" : ", ", how_far.what);
}

std::string ThatRead(std::vector<std::string> names) {
  if (names.size() == 1) return absl::StrCat(names[0], " reads its data and makes its model");
  const std::string last =
      names.size() > kNamed ? absl::StrCat(names.size() - kNamed, " more") : names.back();
  names.resize(std::min(kNamed, names.size() - 1));
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last,
                      " read their data and make their models");
}

}  // namespace

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

std::string WithPreparing(const std::string& waits_for, const PreparingProcesses& processes) {
  if (waits_for.empty()) return waits_for;
  std::vector<std::string> prepare, wait, read;
  const auto take = [&](const std::string& name, const std::optional<HowFar>& how_far) {
    if (!how_far) return read.push_back(name);
    (how_far->waits ? wait : prepare).push_back(TextOf(name, *how_far));
  };
  for (const auto& [name, how_far] : processes)
    if (absl::StartsWith(name, "worker-")) take(name, how_far);
  // It begins when a worker has joined.
  if (prepare.empty() && wait.empty() && read.empty())
    if (const auto follower = processes.find(kFollowerName); follower != processes.end())
      take(follower->first, follower->second);
  std::string text = waits_for;
  prepare.insert(prepare.end(), wait.begin(), wait.end());
  for (size_t i = 0; i < std::min(prepare.size(), kNamed); ++i)
    absl::StrAppend(&text, "; ", prepare[i]);
  if (prepare.size() > kNamed)
    absl::StrAppend(&text, "; ", prepare.size() - kNamed, " more prepare or wait for that");
  if (!read.empty()) absl::StrAppend(&text, "; ", ThatRead(std::move(read)));
  return text;
}

}  // namespace muster::coordinator
