// How many file descriptors a process may have open, and who in it may have how many. A process
// that runs out of them can neither write its log nor open its store, and gRPC 1.51 never accepts
// another connection: so what comes from outside is bounded before that can happen.
#pragma once

#include "absl/status/statusor.h"

namespace muster {

// The parts add up to the limit at most.
struct DescriptorBudget {
  int reserved = 0;  // for stores, logs, pipes, event queues, connections that this process makes
  int http = 0;      // connections to the HTTP port
  int sessions = 0;  // connections to the gRPC port
  bool operator==(const DescriptorBudget&) const = default;
};

inline constexpr int kFewestDescriptors = 96;
inline constexpr int kMostSessions = 8192;
inline constexpr int kMostHttpConnections = 1000;

// Pure. A quarter stays reserved, at least 48; of the rest the HTTP port gets a quarter, at
// least 8. kFailedPrecondition: `limit` is below kFewestDescriptors; the message says what to do.
absl::StatusOr<DescriptorBudget> SplitDescriptors(int limit);
// As above for a process that also connects to its peers: half of the sessions are those it makes.
absl::StatusOr<DescriptorBudget> SplitDescriptorsOfMember(int limit);

// Raises the limit of this process up to what it may have (at most 65,536), and returns the one
// that holds now. Processes that it starts inherit it.
int RaiseDescriptorLimit();

}  // namespace muster
