// Certificates for tests: of ours, and of every kind of stranger.
#pragma once

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/identity/identity.h"
#include "lib/identity/openssl.h"

namespace muster {

// Some days old, so that it may have signed what has ended since.
inline Authority TestAuthority() {
  return MakeAuthority("c1", absl::Now() - absl::Hours(72)).value();
}
inline Identity TestIdentity(const Authority& authority, const PeerName& name,
                             absl::Duration after = absl::ZeroDuration()) {
  return IssueIdentity(authority, name, absl::Now() + after).value();
}

// The same, but of that kind (NID_…) the certificate has only this extension, in OpenSSL's words.
inline Identity WithExtension(const Authority& authority, Identity identity, int kind,
                              const char* value) {
  const auto leaf = std::move(openssl::ParseCertificates(identity.certificate_pem).value()[0]);
  const auto key = openssl::ParseKey(authority.key_pem).value();
  X509* const x = leaf.get();
  X509_EXTENSION_free(X509_delete_ext(x, X509_get_ext_by_NID(x, kind, -1)));
  const openssl::Extension added(X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
  X509_add_ext(x, added.get(), -1);
  X509_sign(x, key.get(), EVP_sha256());
  identity.certificate_pem = openssl::PemOf(x);
  return identity;
}
// It names what is written here ("URI:…,URI:…"), and no more.
inline Identity WithNames(const Authority& authority, Identity identity, const char* names) {
  return WithExtension(authority, std::move(identity), NID_subject_alt_name, names);
}
// It is for one end of a connection alone: "clientAuth" or "serverAuth".
inline Identity ForOneEnd(const Authority& authority, Identity identity, const char* end) {
  return WithExtension(authority, std::move(identity), NID_ext_key_usage, end);
}
// It has signed itself.
inline Identity SelfSigned(Identity identity) {
  const auto leaf = std::move(openssl::ParseCertificates(identity.certificate_pem).value()[0]);
  const auto key = openssl::ParseKey(identity.key_pem).value();
  X509_set_issuer_name(leaf.get(), X509_get_subject_name(leaf.get()));
  X509_EXTENSION_free(X509_delete_ext(
      leaf.get(), X509_get_ext_by_NID(leaf.get(), NID_authority_key_identifier, -1)));
  X509_sign(leaf.get(), key.get(), EVP_sha256());
  identity.certificate_pem = openssl::PemOf(leaf.get());
  return identity;
}
// It has a key of RSA with so many bits.
inline Identity WithRsaKey(const Authority& authority, Identity identity, unsigned bits) {
  const auto leaf = std::move(openssl::ParseCertificates(identity.certificate_pem).value()[0]);
  const auto signer = openssl::ParseKey(authority.key_pem).value();
  const openssl::Key key(EVP_RSA_gen(bits));
  X509_set_pubkey(leaf.get(), key.get());
  X509_sign(leaf.get(), signer.get(), EVP_sha256());
  identity.certificate_pem = openssl::PemOf(leaf.get());
  const openssl::Bio text(BIO_new(BIO_s_mem()));
  PEM_write_bio_PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  identity.key_pem.assign(bytes, static_cast<size_t>(size));
  return identity;
}

}  // namespace muster
