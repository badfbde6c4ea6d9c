#include "lib/identity/tls_context.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "lib/base/status.h"
#include "lib/identity/certificates.h"
#include "lib/identity/openssl.h"
#include "lib/identity/peer_name.h"

namespace muster {
namespace {

// Of TLS 1.2; those of 1.3 are all good.
constexpr char kCiphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

absl::StatusOr<TlsContext> Begin(const SSL_METHOD* method) {
  ERR_clear_error();
  TlsContext context(SSL_CTX_new(method));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_cipher_list(context.get(), kCiphers) != 1 ||
      SSL_CTX_set_num_tickets(context.get(), 0) != 1)
    return openssl::Failed("begin a context of TLS");
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                         SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  return context;
}

// The leaf first, as they were shown.
std::string ChainOf(X509_STORE_CTX* shown) {
  X509* const leaf = X509_STORE_CTX_get0_cert(shown);
  std::string pem = leaf == nullptr ? "" : openssl::PemOf(leaf);
  const STACK_OF(X509)* const all = X509_STORE_CTX_get0_untrusted(shown);
  for (int i = 0; all != nullptr && i < sk_X509_num(all); ++i)
    if (const X509* one = sk_X509_value(all, i); one != leaf) pem += openssl::PemOf(one);
  return pem;
}

// In place of OpenSSL's own verification, in each handshake.
int VerifyShown(X509_STORE_CTX* shown, void* state) {
  auto& check = *static_cast<CoordinatorCheck*>(state);
  check.found = CheckCoordinator(check.trust, ChainOf(shown), absl::Now());
  if (check.found->ok()) return 1;
  X509_STORE_CTX_set_error(shown, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

}  // namespace

void FreeTlsContext::operator()(ssl_ctx_st* context) const { SSL_CTX_free(context); }

absl::StatusOr<TlsContext> TlsContextOfServer(const Identity& own) {
  MUSTER_ASSIGN_OR_RETURN(TlsContext context, Begin(TLS_server_method()));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<openssl::Certificate> chain,
                          openssl::ParseCertificates(own.certificate_pem));
  MUSTER_ASSIGN_OR_RETURN(const openssl::Key key, openssl::ParseKey(own.key_pem));
  bool made = SSL_CTX_use_certificate(context.get(), chain.front().get()) == 1;
  for (size_t i = 1; i < chain.size(); ++i)
    made = made && SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  if (!made || SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1)
    return openssl::Failed("show our certificate");
  return context;
}

absl::StatusOr<TlsContext> TlsContextToCoordinator(CoordinatorCheck* check) {
  MUSTER_ASSIGN_OR_RETURN(TlsContext context, Begin(TLS_client_method()));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_cert_verify_callback(context.get(), VerifyShown, check);
  return context;
}

absl::Status CheckCoordinator(const Trust& trust, absl::string_view chain_pem, absl::Time now) {
  MUSTER_ASSIGN_OR_RETURN(const PeerName there,
                          Verify(trust.authority_pem, chain_pem, now, ShownBy::kServer));
  MUSTER_RETURN_IF_ERROR(CheckExpected(CoordinatorPeer{}, there));
  if (trust.cluster.empty() || there.cluster == trust.cluster) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(ToUri(there), " is there, and not the coordinator of cluster ", trust.cluster));
}

bool IsTlsNoRoom(unsigned long error) {
  return ERR_GET_LIB(error) == ERR_LIB_SSL &&
         ERR_GET_REASON(error) == SSL_R_TLSV1_ALERT_INTERNAL_ERROR;
}

}  // namespace muster
