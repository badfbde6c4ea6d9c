// Who is at the ends of a connection in tests of TLS, and transports that prove it.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "lib/identity/identity_source.h"
#include "lib/transport/grpc/grpc_transport.h"
#include "tests/lib/identity/made_certificates.h"

namespace muster {

inline const PeerName kCoordinatorName{"c1", CoordinatorPeer{}};
inline PeerName MemberName(const std::string& name, const std::string& cluster = "c1") {
  return {cluster, MemberPeer{"demo", name, PlacementNumber(3), Incarnation{5, 6}}};
}

inline std::unique_ptr<GrpcTransport> TlsTransport(std::shared_ptr<IdentitySource> own,
                                                   GrpcOptions options = {}) {
  options.credentials.identity = std::move(own);
  return MakeGrpcTransport(std::move(options));
}
inline std::unique_ptr<GrpcTransport> TlsTransport(Identity own) {
  return TlsTransport(IdentitySource::Of(std::move(own)));
}

}  // namespace muster
