#include "coordinator/state/places.h"

#include <algorithm>
#include <tuple>

namespace muster::coordinator {
namespace {

Role RoleOf(const std::string& name) {
  if (name == kReaderName) return Role::kReader;
  return IsServer(name) ? Role::kServer : name == kFollowerName ? Role::kFollower : Role::kWorker;
}

}  // namespace

bool IsServer(const std::string& name) { return name.rfind("server-", 0) == 0; }

Places::Places(const Room& room, std::set<std::string> left_out,
               const std::map<std::string, std::string>& placed, NodePairs apart)
    : left_out_(std::move(left_out)), apart_(std::move(apart)) {
  for (const auto& [member, host] : placed)
    if (const std::optional<size_t> index = room.IndexOf(host))
      placed_.emplace_back(*index, RoleOf(member));
}

std::optional<Places::Given> Places::Give(Room& room, Role role, int32_t devices,
                                          const std::string& only) {
  // The smallest is the best; of equal ones the first by name.
  using Key = std::tuple<int32_t, int32_t, int32_t, int32_t>;
  if (on_host_.empty()) Look(room);
  // After a restart: a host that has not come back yet may be one that others cannot reach.
  if (!apart_.empty() && nodes_.count("") > 0) return std::nullopt;
  const std::vector<Host>& hosts = room.hosts();
  std::optional<std::pair<Key, size_t>> best;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const Host& host = hosts[i];
    const int32_t fits = host.Fits(devices);
    const Here& here = on_host_[i];
    const bool is_apart = IsInViews(role) && IsKeptApart(host.room->node);
    const bool is_other = !only.empty() && host.room->name != only;
    if (fits <= 0 || !TakesNew(host) || here.is_left_out || is_apart || is_other) continue;
    const bool is_known = has_workers_[static_cast<size_t>(host.node)];
    const bool wastes = devices == 0 && !host.room->devices.empty();
    const Key key = role != Role::kServer ? Key{!is_known, here.workers == 0, wastes, -fits}
                                          : Key{here.servers, 0, wastes, -fits};
    if (!best || key < best->first) best = {key, i};
  }
  if (!best) return std::nullopt;
  const size_t index = best->second;
  Devices ids;
  if (devices > 0) ids = hosts[index].FreeDevices();
  ids.resize(static_cast<size_t>(devices));
  room.TakeAt(index, ids);
  Count(room, index, role);
  return Given{hosts[index].room->name, std::move(ids)};
}

bool Places::IsKeptApart(const std::string& node) const {
  return std::any_of(apart_.begin(), apart_.end(), [&](const auto& pair) {
    return (pair.first == node && nodes_.count(pair.second) > 0) ||
           (pair.second == node && nodes_.count(pair.first) > 0);
  });
}

// Most jobs need no place, and it is done for none of these.
void Places::Look(const Room& room) {
  on_host_.resize(room.hosts().size());
  has_workers_.resize(room.hosts().size(), false);
  for (const std::string& name : left_out_)
    if (const std::optional<size_t> index = room.IndexOf(name)) on_host_[*index].is_left_out = true;
  for (const auto& [index, role] : std::exchange(placed_, {})) Count(room, index, role);
}

void Places::Count(const Room& room, size_t index, Role role) {
  const Host& host = room.hosts()[index];
  if (!IsInViews(role)) return;  // it talks to no peer
  if (!host.room->name.empty()) nodes_.insert(host.room->node);
  if (role == Role::kServer) {
    ++on_host_[index].servers;
    return;
  }
  ++on_host_[index].workers;
  has_workers_[static_cast<size_t>(host.node)] = true;
}

}  // namespace muster::coordinator
