// What the files here share of OpenSSL: who frees what, and its errors as text. OpenSSL stands
// behind the other headers of this folder.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster::openssl {

template <auto kFree>
struct FreeWith {
  template <class T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
struct FreeCertificates {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }  // not what it points to
};
using Bio = std::unique_ptr<BIO, FreeWith<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, FreeWith<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, FreeWith<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, FreeWith<X509_EXTENSION_free>>;
using Store = std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, FreeNames>;
using CertificateStack = std::unique_ptr<STACK_OF(X509), FreeCertificates>;

// What OpenSSL says went wrong on this thread since it was asked last.
std::string Errors();
// kInternal: OpenSSL refuses what cannot fail.
absl::Status Failed(absl::string_view action);

// At least one and at most kMostCertificates, as they stand in the text; kInvalidArgument.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view pem);
std::string PemOf(const X509* certificate);
// kInvalidArgument: no private key, or one under a pass phrase.
absl::StatusOr<Key> ParseKey(absl::string_view pem);
// A public key of P-256, written as PublicKeyOf writes it; kInvalidArgument.
absl::StatusOr<Key> ParsePublicKey(absl::string_view der);
absl::StatusOr<std::string> DerOf(const EVP_PKEY* key);  // of the public half

}  // namespace muster::openssl
