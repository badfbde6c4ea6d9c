// Which agent was told last to start which member, so that only what that one says counts as what
// the member printed; also after the member has left, which is when it prints its last lines. On
// the driver's thread. After a restart it knows what agents are told since.
#pragma once

#include <map>
#include <string>

#include "lib/domain/message.h"

namespace muster::coordinator {

class LogPlaces {
 public:
  void Told(const AgentId& agent, const Wanted& wanted) {
    for (const JobProcesses& job : wanted.jobs)
      for (const ProcessWanted& process : job.processes)
        places_[job.job][process.name] = {agent, process.placement};
  }
  bool Has(const AgentId& agent, const LogLines& lines) const {
    const auto job = places_.find(lines.job);
    if (job == places_.end()) return false;
    const auto member = job->second.find(lines.name);
    return member != job->second.end() && member->second.agent == agent &&
           member->second.number == lines.placement;
  }
  void Forget(const std::string& job) { places_.erase(job); }

 private:
  struct Place {
    AgentId agent;
    PlacementNumber number;
  };
  std::map<std::string, std::map<std::string, Place>> places_;  // by job and member
};

}  // namespace muster::coordinator
