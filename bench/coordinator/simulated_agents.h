// Many hosts, as far as a coordinator can tell: an agent of each, with a real session on a
// connection of its own, which says hello and hears what is to run there. They start nothing, so
// that no member ever joins.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "lib/base/mutex.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"
#include "lib/transport/grpc/grpc_transport.h"

namespace muster::bench {

// Waits are bounded: each returns false when what it waits for has not come in `patience`, or a
// session broke. One thread calls.
class SimulatedAgents {
 public:
  SimulatedAgents(int32_t hosts, int32_t slots, std::string address);
  ~SimulatedAgents();

  // Opens all sessions, also those that are open already.
  void Connect();
  // Returns when each agent was told what it is to run since it connected, and all of them together
  // are to run so many processes.
  bool AwaitProcesses(int64_t processes, Duration patience);
  // The agent of that host has ended, and another one comes after it; returns when that is told to
  // run as many processes as the host has slots.
  bool Replace(int32_t host, Duration patience);
  // The sessions break because the coordinator is being killed; Connect makes them anew.
  void ExpectRestart();

  int64_t told() const;         // how often somebody was told what to run
  std::string Trouble() const;  // the first session that broke unasked; empty: none

 private:
  struct Agent {
    AgentId id;
    Incarnation follows{};
    int64_t connection = 0;  // what others of it say does not count any more
    std::shared_ptr<Session> session;
    std::optional<int64_t> processes;  // that it was told to run since it connected last
  };

  void Open(size_t index);
  void OnFrame(size_t index, int64_t connection, const Frame& frame);
  void OnBroken(size_t index, int64_t connection, const absl::Status& why);
  // Nothing: it has not been told yet.
  void SetTold(Agent& agent, std::optional<int64_t> processes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int32_t slots_;
  const std::string address_;
  const std::unique_ptr<GrpcTransport> transport_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Agent> agents_ ABSL_GUARDED_BY(mutex_);
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t processes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all
  size_t untold_ ABSL_GUARDED_BY(mutex_) = 0;      // agents without a word since they connected
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace muster::bench
