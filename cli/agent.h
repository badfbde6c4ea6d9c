// `muster agent`: this machine as one more host of a cluster. Main thread; returns the exit code.
#pragma once

#include "cli/arguments.h"
#include "cli/cluster.h"
#include "cli/meeting.h"
#include "cli/screen.h"

namespace muster::cli {

int RunAgent(AgentArguments arguments, const ClusterMaker& make_cluster, const Terminal& terminal);

// One more host of `muster run`: it goes where the meeting says that the coordinator is, and ends
// with the run. `json`: lines for people are not shown.
int RunHost(const AgentArguments& arguments, const MeetingReader& meeting, bool json,
            const ClusterMaker& make_cluster, const Terminal& terminal);

}  // namespace muster::cli
