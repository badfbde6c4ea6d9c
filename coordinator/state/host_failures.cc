#include "coordinator/state/host_failures.h"

namespace muster::coordinator {

void HostFailures::Note(const std::string& host, const std::string& job, bool elsewhere, Time now) {
  for (auto& [other, failed] : jobs_)
    if (failed.size() < kEnough)
      std::erase_if(failed, [&](const auto& entry) { return now - entry.second > kWindow; });
  if (elsewhere) {
    for (auto& [other, failed] : jobs_) failed.erase(job);
  } else {
    jobs_[host][job] = now;
  }
  std::erase_if(jobs_, [](const auto& entry) { return entry.second.empty(); });
}

std::map<std::string, std::vector<std::string>> HostFailures::Bad() const {
  std::map<std::string, std::vector<std::string>> bad;
  for (const auto& [host, failed] : jobs_) {
    if (failed.size() < kEnough) continue;
    for (const auto& [job, when] : failed) bad[host].push_back(job);
  }
  return bad;
}

}  // namespace muster::coordinator
