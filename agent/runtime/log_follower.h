// What the members of this host print, read from their files and sent to the coordinator. Nothing
// waits in memory: what is not sent yet lies in the files, and of a member that is too far ahead,
// because it prints much or because there is no coordinator, the oldest is left out and counted.
// Also keeps the files short. On the loop's thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "agent/runtime/log_file.h"
#include "agent/state/actions.h"
#include "agent/state/byte_rate.h"
#include "lib/base/time.h"
#include "lib/domain/message.h"

namespace muster::agent {

struct LogLimits {
  // Of all members of this host together.
  int64_t bytes_per_second = int64_t{256} << 10;
  int64_t burst = int64_t{1} << 20;
  off_t behind =
      off_t{1} << 20;  // of one member: more than that not sent yet, and half is left out
  off_t on_disk = kMostLogBytes;
};
// What may wait in the session of the agent, so that exits are told in time.
inline constexpr size_t kMostQueuedLogs = size_t{256} << 10;
inline constexpr Duration kLogLook = std::chrono::milliseconds(250);

class LogFollower {
 public:
  // `may_send`: the session takes more; without one nothing is sent.
  LogFollower(std::function<bool()> may_send, std::function<void(LogLines)> send,
              LogLimits limits = {})
      : limits_(limits),
        may_send_(std::move(may_send)),
        send_(std::move(send)),
        rate_(limits.bytes_per_second, limits.burst) {}

  // The process is about to start, and prints to that file. What earlier ones printed there before
  // this agent was started is not sent.
  void Starts(const Spawn& spawn, const std::string& path);
  // It has ended, and is followed to the end of its file.
  void Ended(const ProcessKey& key);

  // Sends what is new, as far as it may; called again and again.
  void Look(Time now);

 private:
  struct Followed {
    std::string path;
    StartNumber start;
    PlacementNumber placement;
    off_t sent = 0;      // where in the file what is not sent yet begins
    LogAmount left_out;  // to be told with what comes next
    LogAmount told;      // before that
    bool has_ended = false;
  };

  bool Keep(Followed& log) const;
  bool SendSome(const ProcessKey& key, Followed& log, Time now);

  const LogLimits limits_;
  const std::function<bool()> may_send_;
  const std::function<void(LogLines)> send_;
  ByteRate rate_;
  std::map<ProcessKey, Followed> logs_;  // the coordinator's, too, which is only kept short
  ProcessKey last_;                      // of which some was sent last: the next one's turn comes
};

}  // namespace muster::agent
