#include "lib/identity/openssl.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status.h"
#include "lib/identity/certificates.h"
#include "lib/identity/keys.h"

namespace muster::openssl {
namespace {

// Without it OpenSSL would ask at the terminal.
int NoPassPhrase(char* /*buffer*/, int /*size*/, int /*writes*/, void* /*data*/) { return -1; }

absl::StatusOr<Bio> Reader(absl::string_view pem) {
  ERR_clear_error();
  if (pem.empty() || pem.size() > kMostPemBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("PEM of ", pem.size(), " bytes; 1 to ", kMostPemBytes, " are allowed"));
  Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  if (bio == nullptr) return Failed("read PEM");
  return bio;
}

std::string Written(BIO* bio) {
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio, &text);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

}  // namespace

std::string Errors() {
  std::string all;
  while (const unsigned long error = ERR_get_error()) {
    std::array<char, 256> text{};
    ERR_error_string_n(error, text.data(), text.size());
    absl::StrAppend(&all, all.empty() ? "" : "; ", text.data());
  }
  return all;
}

absl::Status Failed(absl::string_view action) {
  return absl::InternalError(absl::StrCat("OpenSSL could not ", action, ": ", Errors()));
}

absl::StatusOr<std::vector<Certificate>> ParseCertificates(absl::string_view pem) {
  MUSTER_ASSIGN_OR_RETURN(const Bio bio, Reader(pem));
  std::vector<Certificate> all;
  while (Certificate one{PEM_read_bio_X509(bio.get(), nullptr, NoPassPhrase, nullptr)}) {
    if (all.size() == kMostCertificates)
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", kMostCertificates, " certificates in one file"));
    all.push_back(std::move(one));
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string why = Errors();
  if (!ended) return absl::InvalidArgumentError(absl::StrCat("a certificate is damaged: ", why));
  if (all.empty()) return absl::InvalidArgumentError("there is no certificate in PEM");
  return all;
}

std::string PemOf(const X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (bio == nullptr || PEM_write_bio_X509(bio.get(), certificate) != 1) return "";
  return Written(bio.get());
}

absl::StatusOr<Key> ParseKey(absl::string_view pem) {
  MUSTER_ASSIGN_OR_RETURN(const Bio bio, Reader(pem));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassPhrase, nullptr));
  if (key == nullptr)
    return absl::InvalidArgumentError(
        absl::StrCat("there is no private key in PEM without a pass phrase: ", Errors()));
  return key;
}

absl::StatusOr<std::string> DerOf(const EVP_PKEY* key) {
  ERR_clear_error();
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(key, &der);
  if (size <= 0) return Failed("write a public key");
  std::string text(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return text;
}

// One key has one text: hashes of keys are compared, and nothing may follow it.
absl::StatusOr<Key> ParsePublicKey(absl::string_view der) {
  ERR_clear_error();
  const absl::Status bad =
      absl::InvalidArgumentError("the public key is none of P-256, or is written in another way");
  if (der.empty() || der.size() > kMostPublicKeyBytes) return bad;
  const auto* at = reinterpret_cast<const unsigned char*>(der.data());
  Key key(d2i_PUBKEY(nullptr, &at, static_cast<long>(der.size())));
  std::array<char, 64> group{};
  const bool right = key != nullptr && EVP_PKEY_is_a(key.get(), "EC") == 1 &&
                     EVP_PKEY_get_group_name(key.get(), group.data(), group.size(), nullptr) == 1 &&
                     absl::string_view(group.data()) == SN_X9_62_prime256v1;
  ERR_clear_error();
  if (!right) return bad;
  MUSTER_ASSIGN_OR_RETURN(const std::string again, DerOf(key.get()));
  if (again != der) return bad;
  return key;
}

}  // namespace muster::openssl
