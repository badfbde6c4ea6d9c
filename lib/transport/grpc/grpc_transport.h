// Sessions over gRPC: each is one bidirectional stream of /muster.v1.Exchange/Session on a
// connection of its own. A message is [u32 header length, little-endian][header][payload]; the
// payload's slices are handed to gRPC as they lie in memory and received slices are handed on as
// they lie in gRPC's: no byte of a payload is copied by us, in either direction.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/credentials.h"
#include "lib/base/descriptors.h"
#include "lib/transport/counters.h"
#include "lib/transport/transport.h"

namespace grpc {
class Service;
}

namespace muster {

struct GrpcOptions {
  Credentials credentials;
  // Threads of each listener, and of all connected sessions together; 1 is right up to about
  // 2 GB/s. Handlers run on them.
  int threads = 1;
  // That each listener may have at a time (lib/base/descriptors.h); at least 2.
  int connections = kMostSessions;
  // That all connections, accepted or made, may take for messages as they came, or 0: gRPC 1.51
  // assembles one of any size before it refuses it. When it is more, streams are broken until it is
  // not, also those of others, which come again. Payloads that are kept count.
  size_t assembling_bytes = 0;
  // A frame from outside was refused and its session broken. Called on transport threads.
  std::function<void(const std::string& reason)> refused;
};

class GrpcTransport : public Transport {
 public:
  using Transport::Listen;
  // As Listen without services; these typed services are served on the same port (callback or
  // synchronous ones, not asynchronous ones). They must outlive the listener. grpc.health.v1.Health
  // is always served and says SERVING for "" while the listener lives.
  virtual absl::StatusOr<std::unique_ptr<Listener>> Listen(
      const std::string& address, Acceptor acceptor,
      const std::vector<grpc::Service*>& services) = 0;
  virtual const TransportCounters& counters() const = 0;
};

// The first one also sets this process up for streams: gRPC's health service, an allocator that
// keeps up to 128 MiB of freed memory instead of giving it back between frames, and no search for
// deadlocks in Abseil's mutexes. gRPC's own threads stay until the process ends.
std::unique_ptr<GrpcTransport> MakeGrpcTransport(GrpcOptions options);

}  // namespace muster
