// Which queued job starts next (docs/protocol.md section 2): a pure function of the slots there are
// and the slots that are held.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::coordinator {

struct QueuedJob {
  std::string id;
  int64_t submission = 0;  // its number
  int32_t least = 1;       // slots without which it does not start
  int32_t most = 1;
};
struct HeldSlots {  // by a job that was started
  int64_t submission = 0;
  int32_t slots = 0;
};
struct QueueInput {
  int32_t total = 0;        // slots of the whole cluster
  bool has_agents = false;  // somebody is there who could start processes
  std::vector<HeldSlots> held;
  std::vector<QueuedJob> queued;
};
struct QueueDecision {
  struct Start {
    std::string id;
    int32_t slots = 0;
  };
  std::optional<Start> start;
  std::map<std::string, std::string> reasons;  // why each of the others waits, for people
  std::set<std::string> too_large;             // those that the whole cluster cannot hold
};

// One job at most; asked again after it has started.
QueueDecision DecideQueue(QueueInput input);

}  // namespace muster::coordinator
