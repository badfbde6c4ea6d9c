#include "lib/transport/grpc/tls.h"

#include <grpc/grpc_security.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "lib/base/check.h"
#include "lib/identity/seen_certificates.h"
#include "lib/log/limited_log.h"

namespace muster {
namespace {

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// Their own certificate first: on the accepting side gRPC's chain is without it, and after a
// resumed handshake there is no chain.
std::string ChainOf(absl::string_view certificate_pem, absl::string_view chain_pem) {
  return absl::StrCat(certificate_pem, chain_pem);
}

// Never destroyed: gRPC's threads outlive those who listen.
SeenCertificates& Seen() {
  static SeenCertificates& seen = *new SeenCertificates;
  return seen;
}

// Of one who does not fit: ours may be the identity that is out of date.
absl::StatusOr<PeerName> Judge(IdentitySource& own, absl::string_view chain_pem) {
  absl::StatusOr<PeerName> name = Seen().Verify(*own.Get(), chain_pem, absl::Now());
  if (!name.ok()) own.LookSoon();
  return name;
}

// gRPC has found by then that the chain ends in our authority; who it is, it does not know.
class PeerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  PeerVerifier(std::shared_ptr<IdentitySource> own, std::optional<ExpectedPeer> expected,
               std::shared_ptr<FoundPeer> found)
      : own_(std::move(own)), expected_(std::move(expected)), found_(std::move(found)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*callback*/, grpc::Status* verdict) override {
    absl::StatusOr<PeerName> found =
        Judge(*own_, ChainOf(View(request->peer_cert()), View(request->peer_cert_full_chain())));
    if (found.ok() && expected_) {
      if (const absl::Status fits = CheckExpected(*expected_, *found); !fits.ok()) found = fits;
    }
    if (!found.ok())
      *verdict = {grpc::StatusCode::UNAUTHENTICATED, std::string(found.status().message())};
    found_->Set(std::move(found));
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const std::shared_ptr<IdentitySource> own_;
  const std::optional<ExpectedPeer> expected_;
  const std::shared_ptr<FoundPeer> found_;
};

// Behind gRPC's credentials of a server, and as long there as they.
struct ServerSide {
  const std::shared_ptr<IdentitySource> own;
  Mutex mutex;
  std::shared_ptr<const Identity> in_use ABSL_GUARDED_BY(mutex);
};

// At each handshake. What is in use goes on being used where nothing has changed.
grpc_ssl_certificate_config_reload_status Fetch(void* state,
                                                grpc_ssl_server_certificate_config** config) {
  ServerSide& side = *static_cast<ServerSide*>(state);
  std::shared_ptr<const Identity> now = side.own->Get();
  const MutexLock lock(side.mutex);
  if (now == side.in_use) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair ours{now->key_pem.c_str(), now->certificate_pem.c_str()};
  *config = grpc_ssl_server_certificate_config_create(now->authority_pem.c_str(), &ours, 1);
  side.in_use = std::move(now);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

// Strangers cause these lines. Never destroyed: gRPC's threads outlive those who listen.
LimitedLog& Refusals() {
  static LimitedLog& log = *new LimitedLog;
  return log;
}

absl::string_view FirstProperty(const grpc_auth_context* of, const char* name) {
  grpc_auth_property_iterator found = grpc_auth_context_find_properties_by_name(of, name);
  const grpc_auth_property* const property = grpc_auth_property_iterator_next(&found);
  return property == nullptr ? absl::string_view()
                             : absl::string_view(property->value, property->value_length);
}

std::string FirstProperty(const grpc::AuthContext& of, const char* name) {
  const std::vector<grpc::string_ref> found = of.FindPropertyValues(name);
  return found.empty() ? std::string() : std::string(View(found[0]));
}

std::string CertificatesOf(const grpc_auth_context* call) {
  return ChainOf(FirstProperty(call, GRPC_X509_PEM_CERT_PROPERTY_NAME),
                 FirstProperty(call, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME));
}

// Before each call.
void Admit(void* state, grpc_auth_context* call, const grpc_metadata* /*metadata*/, size_t /*size*/,
           grpc_process_auth_metadata_done_cb done, void* done_argument) {
  const absl::StatusOr<PeerName> who =
      Judge(*static_cast<ServerSide*>(state)->own, CertificatesOf(call));
  if (who.ok()) return done(done_argument, nullptr, 0, nullptr, 0, GRPC_STATUS_OK, nullptr);
  Refusals().Warn("a call was refused: %s", who.status().message());
  // Why is for those who read our log.
  done(done_argument, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED,
       "it is nobody's here, as the log there says");
}

// gRPC's C++ makes none that asks for the identity at each handshake.
class FetchingCredentials final : public grpc::ServerCredentials {
 public:
  explicit FetchingCredentials(std::shared_ptr<IdentitySource> own) {
    auto* side = new ServerSide{std::move(own), {}, nullptr};
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, Fetch, side));
    MUSTER_CHECK(credentials_ != nullptr);
    grpc_server_credentials_set_auth_metadata_processor(
        credentials_, {.process = Admit,
                       .destroy = [](void* state) { delete static_cast<ServerSide*>(state); },
                       .state = side});
  }
  ~FetchingCredentials() override { grpc_server_credentials_release(credentials_); }
  FetchingCredentials(const FetchingCredentials&) = delete;
  FetchingCredentials& operator=(const FetchingCredentials&) = delete;

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {
    MUSTER_CHECK(false, "these credentials have one");
  }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_;
};

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> TlsOfConnection(std::shared_ptr<IdentitySource> own,
                                                          std::optional<ExpectedPeer> expected,
                                                          std::shared_ptr<FoundPeer> found) {
  const std::shared_ptr<const Identity> now = own->Get();
  const std::vector<grpc::experimental::IdentityKeyCertPair> ours = {
      {now->key_pem, now->certificate_pem}};
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::StaticDataCertificateProvider>(now->authority_pem,
                                                                          ours));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<PeerVerifier>(
          std::move(own), std::move(expected), std::move(found)));
  options.set_check_call_host(false);  // names and addresses prove nothing here
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> TlsOfServer(std::shared_ptr<IdentitySource> own) {
  return std::make_shared<FetchingCredentials>(std::move(own));
}

absl::StatusOr<PeerName> WhoCalls(const grpc::AuthContext& call, const IdentitySource& own) {
  return Seen().Verify(*own.Get(),
                       ChainOf(FirstProperty(call, GRPC_X509_PEM_CERT_PROPERTY_NAME),
                               FirstProperty(call, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME)),
                       absl::Now());
}

absl::StatusOr<CertificateContent> CertificateOfCall(const grpc::AuthContext& call) {
  return Seen().Read(FirstProperty(call, GRPC_X509_PEM_CERT_PROPERTY_NAME));
}

}  // namespace muster
