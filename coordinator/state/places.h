// Where the members of one job are, while more of them are placed: which host is the best for one.
// Lives as long as one decision about placement.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/state/room.h"
#include "lib/domain/view.h"

namespace muster::coordinator {

bool IsServer(const std::string& name);

class Places {
 public:
  Places(const Room& room, std::set<std::string> left_out,
         const std::map<std::string, std::string>& placed, NodePairs apart = {});

  struct Given {
    std::string host;
    Devices devices;
  };
  // The workers of a job fill one node after the other, so that their ranks are consecutive there;
  // its servers are spread. Who needs no devices leaves hosts with devices to others. Nothing: no
  // host has room. `only`: on no other host; empty: on any.
  std::optional<Given> Give(Room& room, Role role, int32_t devices, const std::string& only = "");

 private:
  struct Here {
    int32_t workers = 0, servers = 0;
    bool is_left_out = false;
  };

  bool IsKeptApart(const std::string& node) const;
  void Look(const Room& room);
  void Count(const Room& room, size_t index, Role role);

  const std::set<std::string> left_out_;
  const NodePairs apart_;
  std::vector<std::pair<size_t, Role>> placed_;  // hosts of those that were before the first look
  std::set<std::string> nodes_;                  // of all members
  std::vector<Here> on_host_;                    // in the order of the room
  std::vector<bool> has_workers_;                // by node
};

}  // namespace muster::coordinator
