// TLS for tests of a server of HTTP: whom clients trust, and a client that says exactly the bytes
// it is told behind a handshake. Blocking, as raw_client.h.
#pragma once

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "lib/base/credentials.h"
#include "lib/http/client.h"
#include "lib/http/server.h"
#include "lib/identity/identity.h"
#include "lib/identity/identity_source.h"
#include "lib/identity/openssl.h"
#include "tests/lib/http/raw_client.h"

namespace muster::http {

inline const PeerName kCoordinator{"c1", CoordinatorPeer{}};

// An authority, and the coordinator's identity of it.
struct TestCluster {
  Authority authority = MakeAuthority("c1", absl::Now() - absl::Hours(72)).value();
  std::shared_ptr<IdentitySource> own = IdentitySource::Of(Issue(kCoordinator));

  Identity Issue(const PeerName& name, absl::Duration after = absl::ZeroDuration()) const {
    return IssueIdentity(authority, name, absl::Now() + after).value();
  }
  Trust trust() const { return {authority.certificates_pem, "c1"}; }
};

class TlsLayer final : public RawClient::Layer {
 public:
  enum class Speaks { kHttp1, kHttp2 };
  // Shakes hands over `fd`, in that version at most, with certificate and key of `own`, however
  // weak; `ok` false: it failed.
  explicit TlsLayer(int fd, int version = TLS1_3_VERSION, const Identity* own = nullptr,
                    Speaks speaks = Speaks::kHttp1)
      : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free),
        ssl_((SSL_CTX_set_min_proto_version(context_.get(), 0),
              SSL_CTX_set_max_proto_version(context_.get(), version), SSL_new(context_.get())),
             SSL_free) {
    signal(SIGPIPE, SIG_IGN);  // OpenSSL writes as to a file
    SSL_set_security_level(ssl_.get(), 0);
    if (own != nullptr) {
      const auto leaf = std::move(openssl::ParseCertificates(own->certificate_pem).value()[0]);
      const auto key = openssl::ParseKey(own->key_pem).value();
      EXPECT_EQ(SSL_use_certificate(ssl_.get(), leaf.get()), 1);
      EXPECT_EQ(SSL_use_PrivateKey(ssl_.get(), key.get()), 1);
    }
    if (own != nullptr || speaks == Speaks::kHttp2) {
      constexpr unsigned char kHttp2[] = {2, 'h', '2'};  // as gRPC demands it
      SSL_set_alpn_protos(ssl_.get(), kHttp2, sizeof kHttp2);
    }
    SSL_set_fd(ssl_.get(), fd);
    ok_ = SSL_connect(ssl_.get()) == 1;
  }
  bool ok() const { return ok_; }
  SSL* ssl() const { return ssl_.get(); }

  ssize_t Send(const char* bytes, size_t size) override {
    return SSL_write(ssl_.get(), bytes, static_cast<int>(size));
  }
  ssize_t Receive(char* bytes, size_t size) override {
    return SSL_read(ssl_.get(), bytes, static_cast<int>(size));
  }
  void EndSending() override { SSL_shutdown(ssl_.get()); }

 private:
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  bool ok_ = false;
};

inline RawClient TlsClient(const std::string& address, int receive_buffer = 0) {
  RawClient client(address, receive_buffer);
  auto layer = std::make_unique<TlsLayer>(client.fd());
  EXPECT_TRUE(layer->ok());
  client.Put(std::move(layer));
  return client;
}

// What a test runs over, once with TLS and once without.
class EachWire {
 public:
  explicit EachWire(bool is_tls) : is_tls_(is_tls) {}
  // Of a server.
  ServerOptions With(ServerOptions options) const {
    if (is_tls_) options.credentials.identity = cluster_.own;
    return options;
  }
  std::string Url(const std::string& address) const {
    return (is_tls_ ? "https://" : "http://") + address;
  }
  const char* scheme() const { return is_tls_ ? "https" : "http"; }
  Trust trust() const { return cluster_.trust(); }
  RawClient Client(const std::string& address, int receive_buffer = 0) const {
    return is_tls_ ? TlsClient(address, receive_buffer) : RawClient(address, receive_buffer);
  }

 private:
  const bool is_tls_;
  const TestCluster cluster_;
};

inline std::string WireName(const testing::TestParamInfo<bool>& of) {
  return of.param ? "Https" : "Http";
}

}  // namespace muster::http
