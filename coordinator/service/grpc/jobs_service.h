// The typed gRPC services muster.v1.Jobs over a JobApi and muster.v1.Hosts over a HostApi.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "coordinator/runtime/background.h"
#include "coordinator/service/control_api.h"
#include "coordinator/service/gate.h"
#include "coordinator/service/grpc/late_writes.h"
#include "lib/base/byte_room.h"
#include "lib/base/clock.h"

namespace grpc {
class Service;
}

namespace muster {

// A larger request is refused before it is parsed. Twice what REST takes, as a specification of
// many small fields takes up to twice its JSON.
inline constexpr size_t kMostRequestBytes = size_t{2} << 20;

// What waits for all clients together.
struct JobsWaiting {
  ByteCount answers = std::make_shared<std::atomic<size_t>>(0);  // that are large
  ByteCount events = std::make_shared<std::atomic<size_t>>(0);   // of streams with more than a few
  std::shared_ptr<WritesUnderWay> writes = std::make_shared<WritesUnderWay>();
};

// For GrpcTransport::Listen. `api` outlives the listener, and answers whatever is still asked
// before that is destroyed. Large answers are made on the thread `large_answers`, which is stopped
// before that, too, and outlives it; `clock` outlives the service. A client that does not take what
// is written to it within kMostWriteTime of that clock loses its call. `gate` lets in whoever may,
// and outlives the service; null: nobody is asked who he is.
std::shared_ptr<grpc::Service> MakeJobsService(JobApi& api, const Clock& clock,
                                               coordinator::Background& large_answers,
                                               const JobsWaiting& waiting = {},
                                               coordinator::Gate* gate = nullptr);
// The same for hosts; with the same `waiting` both share what waits.
std::shared_ptr<grpc::Service> MakeHostsService(HostApi& api, const Clock& clock,
                                                coordinator::Background& large_answers,
                                                const JobsWaiting& waiting = {},
                                                coordinator::Gate* gate = nullptr);

}  // namespace muster
