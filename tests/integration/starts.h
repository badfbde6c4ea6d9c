// What the agents of a cluster said of the members that they started, and whether any of them was
// started twice. Plain functions on what was printed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::integration {

// All that one agent printed until its end. Its members end with it.
struct AgentSaid {
  std::string host;
  std::string output;
};

struct Start {
  std::string host;
  std::string job;
  std::string member;
  int64_t placement = 0;
  std::string incarnation;
};

std::vector<Start> StartsIn(const std::vector<AgentSaid>& agents);

// A sentence for each start of a placement that another host had started before, of a member while
// the process of that name still ran on that host, and of an incarnation that was there before.
std::vector<std::string> StartedTwice(const std::vector<AgentSaid>& agents);

}  // namespace muster::integration
