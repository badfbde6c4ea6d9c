#include "lib/identity/tls_greeting.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "lib/identity/openssl.h"

namespace muster {

// A handshake that is begun into memory, and never answered.
absl::StatusOr<std::string> TlsGreeting() {
  const std::unique_ptr<SSL_CTX, openssl::FreeWith<SSL_CTX_free>> context(
      SSL_CTX_new(TLS_client_method()));
  const std::unique_ptr<SSL, openssl::FreeWith<SSL_free>> client(
      context == nullptr ? nullptr : SSL_new(context.get()));
  BIO* const in = BIO_new(BIO_s_mem());
  BIO* const out = BIO_new(BIO_s_mem());
  if (client == nullptr || in == nullptr || out == nullptr) {
    BIO_free_all(in);
    BIO_free_all(out);
    return openssl::Failed("begin a handshake");
  }
  SSL_set_bio(client.get(), in, out);  // which are its own from now on
  SSL_connect(client.get());           // waits for an answer, once it has spoken
  ERR_clear_error();
  char* bytes = nullptr;
  const auto size = BIO_get_mem_data(out, &bytes);
  if (size <= 0) return openssl::Failed("begin a handshake");
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace muster
