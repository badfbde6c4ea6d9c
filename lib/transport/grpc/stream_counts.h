// How many streams the peers of a gRPC server have opened on their connections. gRPC counts them as
// it reads them, long before it makes them calls (channelz), so that a flood of streams that are
// cancelled at once is seen while it comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// gRPC's number of a connection; valid as long as the process, and never given again.
using ConnectionNumber = int64_t;

// Of the connection with that peer (ReadablePeer) at any server of this process, which has a number
// above `after`: they grow. Nothing: there is none, or no longer.
std::optional<ConnectionNumber> NumberOfConnection(const std::string& peer, ConnectionNumber after);

struct StreamCounts {
  int64_t started = 0;
  int64_t answered = 0;  // to their end, before their peer left them
  int64_t left = 0;      // ended otherwise
};
// Nothing: it is closed.
std::optional<StreamCounts> CountStreams(ConnectionNumber connection);

}  // namespace muster
