// TLS of gRPC's ports and connections, with certificates at both ends (docs/identity.md section 2).
// Each handshake uses the identity of its moment; connections that stand go on.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "lib/identity/certificates.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/peer_name.h"

namespace muster {

// What the connecting end found out about its peer. Thread-safe: gRPC's threads find it.
class FoundPeer {
 public:
  void Set(absl::StatusOr<PeerName> found) {
    const MutexLock lock(mutex_);
    found_ = std::move(found);
  }
  // Nothing: no certificate has been seen. An error: nobody of ours, or not the one expected.
  std::optional<absl::StatusOr<PeerName>> Get() const {
    const MutexLock lock(mutex_);
    return found_;
  }

 private:
  mutable Mutex mutex_;
  std::optional<absl::StatusOr<PeerName>> found_ ABSL_GUARDED_BY(mutex_);
};

// For one connection, which is to reach `expected`, or without it anybody of ours.
std::shared_ptr<grpc::ChannelCredentials> TlsOfConnection(std::shared_ptr<IdentitySource> own,
                                                          std::optional<ExpectedPeer> expected,
                                                          std::shared_ptr<FoundPeer> found);

// Demands a certificate of whoever connects, and refuses each call, of sessions and of typed
// services alike, of one whom it makes nobody (UNAUTHENTICATED).
std::shared_ptr<grpc::ServerCredentials> TlsOfServer(std::shared_ptr<IdentitySource> own);

// Who makes a call, at a port of TlsOfServer. kUnauthenticated: nobody of ours any more.
absl::StatusOr<PeerName> WhoCalls(const grpc::AuthContext& call, const IdentitySource& own);
// What stands in the certificate of whoever makes it, which is verified before a call comes. An
// error: it came over plain text.
absl::StatusOr<CertificateContent> CertificateOfCall(const grpc::AuthContext& call);

}  // namespace muster
