// Which agents were told last to start which member, so that only what they say counts as what the
// member printed; also after the member has left, which is when it prints its last lines. It may be
// placed elsewhere by then, so the place before the last counts, too. On the driver's thread. After
// a restart it knows what agents are told since.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "lib/domain/message.h"

namespace muster::coordinator {

class LogPlaces {
 public:
  void Told(const AgentId& agent, const Wanted& wanted) {
    for (const JobProcesses& job : wanted.jobs)
      for (const ProcessWanted& process : job.processes) {
        std::deque<Place>& places = places_[job.job][process.name];
        const Place place{agent, process.placement};
        if (!places.empty() && places.back() == place) continue;
        places.push_back(place);
        if (places.size() > kPlacesKept) places.pop_front();
      }
  }
  bool Has(const AgentId& agent, const LogLines& lines) const {
    const auto job = places_.find(lines.job);
    if (job == places_.end()) return false;
    const auto member = job->second.find(lines.name);
    if (member == job->second.end()) return false;
    const Place said{agent, lines.placement};
    return std::find(member->second.begin(), member->second.end(), said) != member->second.end();
  }
  void Forget(const std::string& job) { places_.erase(job); }

 private:
  static constexpr size_t kPlacesKept = 2;
  struct Place {
    AgentId agent;
    PlacementNumber number;
    bool operator==(const Place&) const = default;
  };
  std::map<std::string, std::map<std::string, std::deque<Place>>> places_;  // by job and member
};

}  // namespace muster::coordinator
