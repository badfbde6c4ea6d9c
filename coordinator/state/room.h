// The hosts, and what is left of them while places are given away; copies are trials. Lives as long
// as one decision about placement, on one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "coordinator/state/placement.h"

namespace muster::coordinator {

using Devices = std::vector<std::string>;
const Devices& DevicesOf(const PlacedJob& job, const std::string& member);

// One host, and what is left of it.
struct Host {
  std::shared_ptr<const HostRoom> room{};  // of all copies, as trials make many
  int32_t node = 0;                        // a number for it
  int32_t free = 0;
  bool takes_new = true;
  bool heeds_holders = true;  // else as it will be when they have ended
  std::vector<bool> taken{};  // of its devices
  int32_t free_devices = 0;

  bool IsFree(size_t device) const {
    return !taken[device] && !(heeds_holders && room->held.contains(room->devices[device]));
  }
  void CountFreeDevices();
  void Mark(const Devices& devices, bool is_taken);
  Devices FreeDevices() const;
  // Workers that need so many devices each.
  int32_t Fits(int32_t devices_each) const;
};

inline bool TakesNew(const Host& host) { return host.takes_new && !host.room->drains; }

// There may be thousands of hosts, and of jobs that wait and are each asked about: what hosts have
// together is counted once.
class Room {
 public:
  Room(const std::vector<HostRoom>& hosts, const std::vector<PlacedJob>& running);

  bool empty() const;        // no host takes anybody
  bool is_one_away() const;  // it may come back with room for those who wait
  const std::vector<Host>& hosts() const { return hosts_; }  // by name
  // Of that name among them; nothing: there is none.
  std::optional<size_t> IndexOf(const std::string& name) const;
  const Host* Find(const std::string& name) const;
  // Hosts that are away count: they come back, or are lost before long and not listed any more.
  int32_t SlotsFor(const std::set<std::string>& left_out) const {
    return SumsFor(left_out, 0).slots;
  }
  int32_t MostWorkersFor(const std::set<std::string>& left_out, int32_t devices_each) const {
    return SumsFor(left_out, devices_each).most_workers;
  }
  size_t MostDevicesFor(const std::set<std::string>& left_out) const {
    return SumsFor(left_out, 0).most_devices;
  }
  int32_t FreeFor(const std::set<std::string>& left_out, int32_t devices_each = 0) const {
    return SumsFor(left_out, devices_each).free;
  }
  bool Holds(const QueuedJob& job) const;
  // On a host that is not known any more nothing is taken, or given back.
  void Take(const std::string& name, const Devices& devices);
  void TakeAt(size_t index, const Devices& devices) { Change(index, devices, true); }
  void GiveBack(const std::string& name, const Devices& devices);
  // As it will be when the processes have ended that nobody wants any more.
  Room WithoutHolders() const;
  // As it will be when nobody is there any more, and who is away has come back.
  Room Emptied() const;

 private:
  // Of all hosts that are not left out, for workers that need so many devices each.
  struct Sums {
    int32_t slots = 0;
    int32_t most_workers = 0;
    size_t most_devices = 0;
    int32_t free = 0;
  };
  // Until something else is taken. Most jobs leave out the same hosts.
  struct KnownSums {
    std::set<std::string> left_out{};
    std::map<int32_t, Sums> by_devices{};
  };

  void Change(size_t index, const Devices& devices, bool is_taken);
  const Sums& SumsFor(const std::set<std::string>& left_out, int32_t devices_each) const;
  Sums Count(const std::set<std::string>& left_out, int32_t devices_each) const;

  std::vector<Host> hosts_;
  mutable KnownSums sums_;
};

}  // namespace muster::coordinator
