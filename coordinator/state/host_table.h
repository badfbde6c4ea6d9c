// The hosts of a cluster: which agents are there, what they offer, and since when those that are
// away have been silent (docs/hosts.md sections 1, 2 and 5). It knows nothing of jobs. Lives as
// long as its Coordinator.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/state/placement.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::coordinator {

inline constexpr size_t kMostHosts = 4096;  // as members of a job

class HostTable {
 public:
  // `own_slots`: of members that are started by others than host agents. `lease`: of an agent.
  HostTable(int32_t own_slots, Duration lease) : own_slots_(own_slots), lease_(lease) {}

  // A member is placed there, as the journal says, by that agent, which may come.
  void Expect(const AgentId& agent, Time now);
  // `lives`: a member that another agent of that name was told to start may live. Why this agent
  // cannot speak for its host, for people; empty: it does from now on.
  std::string Up(const AgentHello& hello, bool lives, Time now);
  // False: it spoke for no host.
  bool Down(const AgentId& agent, Time now);
  // Nothing was handled for so long, or longer, until now: agents may be back already.
  void HeldUp(Duration time, Time now);
  // Its members are placed anew; should it come back, it begins afresh.
  void Forget(const std::string& host) { hosts_.erase(host); }

  std::vector<HostRoom> Rooms() const;  // with the coordinator's own slots, if it has any
  // An agent is expected that has not said yet how many slots its host has.
  bool AwaitsAnother(const std::string& than) const;
  // Other hosts of which that agent spoke.
  std::vector<std::string> OthersOf(const AgentId& agent, Incarnation spoke) const;
  std::vector<AgentId> Agents() const;                 // that have a session
  Incarnation AgentOf(const std::string& host) const;  // zero: none was there yet
  bool Speaks(const AgentId& agent) const;
  // Hosts without a session for so long, or longer.
  std::vector<std::string> SilentFor(Duration patience, Time now) const;

 private:
  struct Host {
    Incarnation incarnation{};  // of the agent that speaks for it, or spoke last; zero: none yet
    std::string node;
    int32_t slots = 0;  // of one that is expected: as many as are placed there
    bool is_expected = false;
    bool up = false;
    Time down_since{};
  };

  const int32_t own_slots_;
  const Duration lease_;
  std::map<std::string, Host> hosts_;
};

}  // namespace muster::coordinator
