// The command line of a member's process. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/state/actions.h"

namespace muster::agent {

// What the agent of a host knows of a process besides what it is to start.
struct MemberSurroundings {
  std::string programs;     // the folder of ours
  std::string coordinator;  // where it answers
  std::string node;
  std::string listen;
  std::string metrics;
  std::string identity;  // a folder; empty: members have none
  std::string cluster;   // empty: not known yet
  std::string job_folder;
  std::vector<std::string> plugins;  // folders
};

std::vector<std::string> MemberCommand(const Spawn& spawn, const MemberSurroundings& around);

}  // namespace muster::agent
