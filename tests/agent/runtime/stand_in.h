// Small processes to supervise: this test's own binary, started again with "--stand-in WHAT".
#pragma once

#include <string>
#include <vector>

#include "agent/runtime/event_loop.h"

namespace muster::agent {

// WHAT: "exit N", "member N [M]" (reports what every member does, and that it ends with M, then
// exit N), "hang" (reports ready, then waits), "ignore SIGTERM", "abort", "say TEXT" (to
// stderr, then exit 1), "steps N" (reports them, then exit 0), "flood N" (N
// reports, whether anybody reads or not, then exit 0), "environment" (reports what it
// inherited), "family N FOLDER" (an agent of N hanging processes, of which it reports the process
// ids).
std::vector<std::string> StandIn(const std::string& what);

// Runs the loop until something quits it; fails the test when nothing does for a generous time.
void RunUntilQuit(EventLoop& loop);

std::string MakeTestFolder();

}  // namespace muster::agent
