// What a transport has moved, over all its sessions, since it was made. Bytes are those of headers
// and payloads; framing of the network below is not counted.
#pragma once

#include <atomic>
#include <cstdint>

namespace muster {

struct TransportCounters {
  std::atomic<uint64_t> bytes_sent{0};  // given to the network
  std::atomic<uint64_t> bytes_received{0};
  std::atomic<uint64_t> frames_refused{0};  // from outside: not a frame, or above the limits
};

}  // namespace muster
