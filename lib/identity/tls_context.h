// TLS of REST (docs/identity.md sections 2 and 5): the coordinator shows its certificate and asks
// for none, and whoever connects looks at the name in it, not at host names. OpenSSL stays behind
// this header; what is made here is for Asio, which has it in its own.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/identity/identity.h"

struct ssl_ctx_st;  // SSL_CTX

namespace muster {

struct FreeTlsContext {
  void operator()(ssl_ctx_st* context) const;
};
using TlsContext = std::unique_ptr<ssl_ctx_st, FreeTlsContext>;

// Of a port that shows this certificate: TLS 1.2 or 1.3, nothing is resumed or begun anew.
absl::StatusOr<TlsContext> TlsContextOfServer(const Identity& own);

// Whom https:// is spoken to: the coordinator of that cluster, by whatever host it is reached.
struct Trust {
  std::string authority_pem;  // who says so; empty: nobody is trusted
  std::string cluster;        // empty: any for which the authority speaks
};

struct CoordinatorCheck {
  Trust trust;
  // Of the last handshake. Nothing: no certificate was shown. OK: it is the coordinator, now.
  std::optional<absl::Status> found;
};
// Of whoever connects and shows nothing himself: each handshake ends where CheckCoordinator says
// so, and notes in `check` why. `check` outlives the handshakes.
absl::StatusOr<TlsContext> TlsContextToCoordinator(CoordinatorCheck* check);

// OK, or who these certificates are instead (kUnauthenticated, kPermissionDenied).
absl::Status CheckCoordinator(const Trust& trust, absl::string_view chain_pem, absl::Time now);

// The first byte of whoever begins a handshake.
inline constexpr char kTlsHandshake = 0x16;
// What one is told before his handshake for whom there is no room: the alert internal_error.
inline constexpr absl::string_view kTlsNoRoom{"\x15\x03\x03\x00\x02\x02\x50", 7};
// That an error of OpenSSL is that alert.
bool IsTlsNoRoom(unsigned long error);

}  // namespace muster
