#include "coordinator/state/host_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

void HostTable::Expect(const AgentId& agent, Time now) {
  Host& host = hosts_[agent.host];
  host.incarnation = std::max(host.incarnation, agent.incarnation);
  host.is_expected = true;
  host.down_since = now;
  ++host.slots;
}

// Two agents of one name, on two machines, would each start what one of them is to run.
std::string HostTable::Up(const AgentHello& hello, bool lives, Time now) {
  const auto known = hosts_.find(hello.agent.host);
  if (known != hosts_.end() && known->second.incarnation != hello.agent.incarnation) {
    const Host& other = known->second;
    const bool has_ended = other.incarnation == hello.follows;  // or was never there
    if (lives || (!has_ended && (other.up || now - other.down_since <= lease_)))
      return absl::StrCat("another agent speaks for host ", hello.agent.host,
                          lives ? ", or members that it started may still live" : "",
                          "; this one is waited for until that is over, and otherwise each agent "
                          "needs a name of its own (--host)");
  }
  if (known == hosts_.end() && hosts_.size() >= kMostHosts)
    return absl::StrCat("the cluster has ", kMostHosts,
                        " hosts, which is the most that it may have");
  Host& host = hosts_[hello.agent.host];
  host.is_expected = false;
  host.incarnation = hello.agent.incarnation;
  host.node = hello.node;
  host.slots = hello.slots;
  host.up = true;
  return "";
}

bool HostTable::Down(const AgentId& agent, Time now) {
  if (!Speaks(agent)) return false;
  Host& host = hosts_.at(agent.host);
  host.up = false;
  host.down_since = now;
  return true;
}

void HostTable::HeldUp(Duration time, Time now) {
  for (auto& [name, host] : hosts_)
    if (!host.up) host.down_since = std::min(host.down_since + time, now);
}

bool HostTable::AwaitsAnother(const std::string& than) const {
  return std::any_of(hosts_.begin(), hosts_.end(), [&](const auto& entry) {
    return entry.second.is_expected && entry.first != than;
  });
}

std::vector<std::string> HostTable::OthersOf(const AgentId& agent, Incarnation spoke) const {
  std::vector<std::string> others;
  for (const auto& [name, host] : hosts_)
    if (name != agent.host && !host.up && host.incarnation == spoke && spoke != Incarnation{})
      others.push_back(name);
  return others;
}

bool HostTable::Speaks(const AgentId& agent) const {
  const auto it = hosts_.find(agent.host);
  return it != hosts_.end() && it->second.up && it->second.incarnation == agent.incarnation;
}

std::vector<HostRoom> HostTable::Rooms() const {
  std::vector<HostRoom> rooms;
  if (own_slots_ > 0) rooms.push_back({"", "", own_slots_});
  for (const auto& [name, host] : hosts_) rooms.push_back({name, host.node, host.slots, host.up});
  return rooms;
}

Incarnation HostTable::AgentOf(const std::string& host) const {
  const auto it = hosts_.find(host);
  return it == hosts_.end() ? Incarnation{} : it->second.incarnation;
}

std::vector<AgentId> HostTable::Agents() const {
  std::vector<AgentId> agents;
  for (const auto& [name, host] : hosts_)
    if (host.up) agents.push_back({name, host.incarnation});
  return agents;
}

std::vector<std::string> HostTable::SilentFor(Duration patience, Time now) const {
  std::vector<std::string> silent;
  for (const auto& [name, host] : hosts_)
    if (!host.up && now - host.down_since >= patience) silent.push_back(name);
  return silent;
}

}  // namespace muster::coordinator
