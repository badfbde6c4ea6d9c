#include "coordinator/state/host_failures.h"

#include <algorithm>
#include <utility>

namespace muster::coordinator {

void HostFailures::Note(const std::string& host, const Job& job, bool elsewhere, Time now) {
  for (auto& [other, failed] : jobs_)
    if (!AreEnough(failed))
      std::erase_if(failed, [&](const auto& entry) { return now - entry.second.when > kWindow; });
  if (elsewhere) {
    for (auto& [other, failed] : jobs_) failed.erase(job.id);
  } else {
    Failure& failure = jobs_[host][job.id];
    failure.when = now;
    failure.owner = job.owner;
  }
  std::erase_if(jobs_, [](const auto& entry) { return entry.second.empty(); });
}

void HostFailures::Runs(const std::string& job, const std::set<std::string>& hosts) {
  for (auto& [host, failed] : jobs_)
    if (const auto failure = failed.find(job); failure != failed.end() && !hosts.contains(host))
      failure->second.counts = true;
}

bool HostFailures::Awaits(const std::string& job) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& entry) {
    const auto failure = entry.second.find(job);
    return failure != entry.second.end() && !failure->second.counts;
  });
}

// One person could leave out any host for everybody with two jobs that fail there.
bool HostFailures::AreEnough(const Failures& failures) {
  std::set<std::pair<std::string, std::string>> different;  // owner, or job without one
  for (const auto& [job, failure] : failures)
    if (failure.counts) different.emplace(failure.owner, failure.owner.empty() ? job : "");
  return different.size() >= kEnough;
}

std::map<std::string, std::vector<std::string>> HostFailures::Bad() const {
  std::map<std::string, std::vector<std::string>> bad;
  for (const auto& [host, failed] : jobs_) {
    if (!AreEnough(failed)) continue;
    for (const auto& [job, failure] : failed)
      if (failure.counts) bad[host].push_back(job);
  }
  return bad;
}

}  // namespace muster::coordinator
