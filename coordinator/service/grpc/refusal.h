// What a gRPC client is told of a request that was refused: it must be fit for HTTP/2, whatever the
// request said. And where a request came from.
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace muster {

// Trailing: the field that an error is about.
inline constexpr char kFieldMetadata[] = "muster-field";

struct Refusal {
  grpc::Status status;
  std::string field;  // for kFieldMetadata, if not empty
};
Refusal RefusalOf(const absl::Status& why);

// Of what gRPC calls a peer: "ipv4:127.0.0.1:4242", "ipv6:%5B::1%5D:4242".
std::string AddressInPeer(const std::string& peer);

}  // namespace muster
