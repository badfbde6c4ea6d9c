#include "lib/http/tls.h"

#include <utility>

#include "lib/base/status.h"
#include "lib/identity/tls_context.h"
#include "lib/log/log.h"

namespace muster::http {
namespace {

absl::StatusOr<std::shared_ptr<net::ssl::context>> ContextOf(const Identity& own) {
  MUSTER_ASSIGN_OR_RETURN(TlsContext made, TlsContextOfServer(own));
  return std::make_shared<net::ssl::context>(made.release());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerTls>> ServerTls::Make(std::shared_ptr<IdentitySource> own) {
  std::shared_ptr<const Identity> first = own->Get();
  MUSTER_ASSIGN_OR_RETURN(std::shared_ptr<net::ssl::context> context, ContextOf(*first));
  return std::unique_ptr<ServerTls>(
      new ServerTls(std::move(own), std::move(first), std::move(context)));
}

// What OpenSSL cannot use is told once, and the one before stays in use.
std::shared_ptr<net::ssl::context> ServerTls::Now() {
  std::shared_ptr<const Identity> now = own_->Get();
  const MutexLock lock(mutex_);
  if (now == of_) return context_;
  absl::StatusOr<std::shared_ptr<net::ssl::context>> made = ContextOf(*now);
  of_ = std::move(now);
  if (made.ok()) {
    context_ = *std::move(made);
  } else {
    LogError("the renewed certificate cannot be shown, the one before is: %s",
             made.status().message());
  }
  return context_;
}

}  // namespace muster::http
