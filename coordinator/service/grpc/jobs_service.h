// The typed gRPC service muster.v1.Jobs over a JobApi.
#pragma once

#include <memory>

#include "coordinator/service/control_api.h"

namespace grpc {
class Service;
}

namespace muster {

// Trailing: the field that an error is about.
inline constexpr char kFieldMetadata[] = "muster-field";

// For GrpcTransport::Listen. `api` outlives the listener, and answers whatever is still asked
// before that is destroyed.
std::shared_ptr<grpc::Service> MakeJobsService(JobApi& api);

}  // namespace muster
