#include "coordinator/state/host_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace muster::coordinator {

void HostTable::Expect(const AgentId& agent, const std::vector<std::string>& devices, Time now) {
  Host& host = hosts_[agent.host];
  host.incarnation = std::max(host.incarnation, agent.incarnation);
  host.is_expected = true;
  host.down_since = now;
  ++host.slots;
  for (const std::string& id : devices) host.devices.push_back({id});
  changed_ = true;
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
  if (host.incarnation != hello.agent.incarnation) host.ends = false;
  host.is_expected = false;
  host.incarnation = hello.agent.incarnation;
  host.node = hello.node;
  host.slots = hello.slots;
  host.devices = hello.devices;
  host.trusts.clear();
  host.up = true;
  changed_ = true;
  return "";
}

bool HostTable::Drain(const std::string& host, bool on) {
  const bool is_new = on ? drained_.insert(host).second : drained_.erase(host) > 0;
  changed_ |= is_new;
  return is_new;
}

bool HostTable::LeaveOut(const std::string& host, std::string why) {
  if (!hosts_.contains(host) || left_out_.contains(host)) return false;
  // Machines come and go, and nobody need let back one that is gone.
  if (left_out_.size() >= kMostHosts)
    std::erase_if(left_out_, [this](const auto& entry) { return !hosts_.contains(entry.first); });
  left_out_[host] = std::move(why);
  changed_ = true;
  return true;
}

bool HostTable::LetBack(const std::string& host) {
  const bool is_new = left_out_.erase(host) > 0;
  changed_ |= is_new;
  return is_new;
}

// One that is away may come back, and is lost before long if it does not.
std::set<std::string> HostTable::KeptOff(const std::vector<HostRoom>& rooms) const {
  std::set<std::string> have_others, kept_off;  // of the first: namespaces
  for (const HostRoom& room : rooms)
    if (!room.drains && room.slots > 0 && !left_out_.contains(room.name))
      have_others.insert(room.name_space);
  for (const HostRoom& room : rooms)
    if (left_out_.contains(room.name) && have_others.contains(room.name_space))
      kept_off.insert(room.name);
  return kept_off;
}

bool HostTable::Ends(const AgentId& agent) {
  const bool is_new = Speaks(agent) && !std::exchange(hosts_.at(agent.host).ends, true);
  changed_ |= is_new;
  return is_new;
}

bool HostTable::Hold(const AgentId& agent, const std::vector<HostDevice>& devices) {
  if (!Speaks(agent)) return false;
  std::map<std::string, PlacementNumber> holders;
  for (const HostDevice& device : devices) holders[device.id] = device.holder;
  bool is_new = false;
  for (HostDevice& device : hosts_.at(agent.host).devices) {
    const auto holder = holders.find(device.id);
    const PlacementNumber now = holder == holders.end() ? PlacementNumber() : holder->second;
    is_new |= std::exchange(device.holder, now) != now;
  }
  changed_ |= is_new;
  return is_new;
}

void HostTable::Trusts(const AgentId& agent, const std::string& hash) {
  if (!Speaks(agent)) return;
  hosts_.at(agent.host).trusts = hash;
  changed_ = true;
}

bool HostTable::Down(const AgentId& agent, Time now) {
  if (!Speaks(agent)) return false;
  Host& host = hosts_.at(agent.host);
  host.up = false;
  host.trusts.clear();
  host.down_since = now;
  changed_ = true;
  return true;
}

void HostTable::HeldUp(Duration time, Time now) {
  for (auto& [name, host] : hosts_)
    if (!host.up) host.down_since = std::min(host.down_since + time, now);
  changed_ = true;
}

void HostTable::Forget(const std::string& host) {
  if (hosts_.erase(host) > 0) changed_ = true;
}

bool HostTable::HearsNoOther(const std::string& node) const {
  bool knows_others = false;
  for (const auto& [name, host] : hosts_) {
    if (!host.is_expected && host.node == node) continue;
    if (host.up) return false;
    knows_others = true;
  }
  return knows_others;
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
  for (const auto& [name, host] : hosts_) {
    HostRoom& room = rooms.emplace_back(
        HostRoom{name, host.node, host.slots, host.up, Drains(name, host), host.ends});
    for (const HostDevice& device : host.devices) {
      room.devices.push_back(device.id);
      if (device.holder != PlacementNumber()) room.held.insert(device.id);
    }
  }
  return rooms;
}

std::vector<HostStatus> HostTable::Status(const std::set<std::string>& kept_off) const {
  std::vector<HostStatus> hosts;
  hosts.reserve(hosts_.size());
  for (const auto& [name, host] : hosts_)
    hosts.push_back({.name = name,
                     .node = host.node,
                     .slots = host.slots,
                     .up = host.up,
                     .away_since = host.down_since,
                     .draining = Drains(name, host),
                     .devices = host.devices,
                     .trusts = host.trusts});
  // One that is not known any more is drained, or left out, until somebody says otherwise.
  std::set<std::string> gone = drained_;
  for (const auto& [name, why] : left_out_) gone.insert(name);
  for (const std::string& name : gone)
    if (!hosts_.contains(name))
      hosts.push_back({.name = name, .draining = drained_.contains(name)});
  for (HostStatus& host : hosts)
    if (const auto why = left_out_.find(host.name);
        why != left_out_.end() && (kept_off.contains(host.name) || !hosts_.contains(host.name)))
      host.left_out = why->second;
  std::sort(hosts.begin(), hosts.end(),
            [](const HostStatus& a, const HostStatus& b) { return a.name < b.name; });
  return hosts;
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
