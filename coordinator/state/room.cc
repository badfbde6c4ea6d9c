#include "coordinator/state/room.h"

#include <algorithm>

namespace muster::coordinator {

const Devices& DevicesOf(const PlacedJob& job, const std::string& member) {
  static const Devices kNone;
  const auto it = job.devices.find(member);
  return it == job.devices.end() ? kNone : it->second;
}

void Host::CountFreeDevices() {
  free_devices = 0;
  for (size_t i = 0; i < taken.size(); ++i) free_devices += IsFree(i) ? 1 : 0;
}

void Host::Mark(const Devices& devices, bool is_taken) {
  for (const std::string& id : devices)
    for (size_t i = 0; i < taken.size(); ++i)
      if (room->devices[i] == id) taken[i] = is_taken;
  if (!devices.empty()) CountFreeDevices();
}

Devices Host::FreeDevices() const {
  Devices ids;
  for (size_t i = 0; i < taken.size(); ++i)
    if (IsFree(i)) ids.push_back(room->devices[i]);
  return ids;
}

int32_t Host::Fits(int32_t devices_each) const {
  const int32_t slots = std::max(0, free);
  if (devices_each == 0 || slots == 0) return slots;
  return std::min(slots, free_devices / devices_each);
}

Room::Room(const std::vector<HostRoom>& hosts, const std::vector<PlacedJob>& running) {
  std::map<std::string, int32_t> nodes;
  for (const HostRoom& room : hosts) {
    const auto count = static_cast<int32_t>(nodes.size());
    hosts_.push_back({.room = std::make_shared<const HostRoom>(room),
                      .node = nodes.try_emplace(room.node, count).first->second,
                      .free = room.slots,
                      .takes_new = room.takes_new,
                      .taken = std::vector<bool>(room.devices.size(), false)});
    hosts_.back().CountFreeDevices();
  }
  std::sort(hosts_.begin(), hosts_.end(),
            [](const Host& a, const Host& b) { return a.room->name < b.room->name; });
  for (const PlacedJob& job : running)
    for (const auto& [member, host] : job.placed) Take(host, DevicesOf(job, member));
}

bool Room::empty() const {
  return std::none_of(hosts_.begin(), hosts_.end(),
                      [](const Host& host) { return TakesNew(host); });
}

bool Room::is_one_away() const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [](const Host& host) { return !host.takes_new && !host.room->drains; });
}

std::optional<size_t> Room::IndexOf(const std::string& name) const {
  const auto it =
      std::lower_bound(hosts_.begin(), hosts_.end(), name,
                       [](const Host& host, const std::string& n) { return host.room->name < n; });
  if (it == hosts_.end() || it->room->name != name) return std::nullopt;
  return static_cast<size_t>(it - hosts_.begin());
}

const Host* Room::Find(const std::string& name) const {
  const std::optional<size_t> index = IndexOf(name);
  return index ? &hosts_[*index] : nullptr;
}

// Free slots can be added up; devices cannot.
bool Room::Holds(const QueuedJob& job) const {
  return FreeFor(job.left_out) >= job.workers_min + OthersOf(job) &&
         FreeFor(job.left_out, job.devices_each) >= job.workers_min + job.followers;
}

void Room::Take(const std::string& name, const Devices& devices) {
  if (const std::optional<size_t> index = IndexOf(name)) Change(*index, devices, true);
}

void Room::GiveBack(const std::string& name, const Devices& devices) {
  if (const std::optional<size_t> index = IndexOf(name)) Change(*index, devices, false);
}

Room Room::WithoutHolders() const {
  Room room = *this;
  room.sums_ = {};
  for (Host& host : room.hosts_) {
    host.heeds_holders = false;
    host.CountFreeDevices();
  }
  return room;
}

Room Room::Emptied() const {
  Room room = *this;
  room.sums_ = {};
  for (Host& host : room.hosts_) {
    host.free = host.room->slots;
    host.taken.assign(host.taken.size(), false);
    host.takes_new = true;
    host.heeds_holders = false;
    host.CountFreeDevices();
  }
  return room;
}

void Room::Change(size_t index, const Devices& devices, bool is_taken) {
  sums_ = {};
  Host& host = hosts_[index];
  host.free += is_taken ? -1 : 1;
  host.Mark(devices, is_taken);
}

const Room::Sums& Room::SumsFor(const std::set<std::string>& left_out, int32_t devices_each) const {
  if (sums_.left_out != left_out) sums_ = {.left_out = left_out};
  const auto [it, is_new] = sums_.by_devices.try_emplace(devices_each);
  if (is_new) it->second = Count(left_out, devices_each);
  return it->second;
}

Room::Sums Room::Count(const std::set<std::string>& left_out, int32_t devices_each) const {
  Sums sums;
  for (const Host& host : hosts_) {
    if (left_out.contains(host.room->name)) continue;
    if (TakesNew(host)) sums.free += host.Fits(devices_each);
    if (host.room->drains) continue;
    sums.slots += host.room->slots;
    sums.most_workers += MostWorkersOn(*host.room, devices_each);
    sums.most_devices = std::max(sums.most_devices, host.room->devices.size());
  }
  return sums;
}

}  // namespace muster::coordinator
