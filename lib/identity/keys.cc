#include "lib/identity/keys.h"

#include <openssl/pem.h>

#include "lib/base/status.h"
#include "lib/identity/openssl.h"
#include "lib/kernels/sha256.h"

namespace muster {

absl::StatusOr<std::string> MakeKey() {
  const openssl::Key key(EVP_EC_gen("P-256"));
  const openssl::Bio bio(BIO_new(BIO_s_mem()));
  if (key == nullptr || bio == nullptr ||
      PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1)
    return openssl::Failed("make a key");
  char* text = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &text);
  return std::string(text, static_cast<size_t>(size));
}

absl::StatusOr<std::string> PublicKeyOf(absl::string_view key_pem) {
  MUSTER_ASSIGN_OR_RETURN(const openssl::Key key, openssl::ParseKey(key_pem));
  return openssl::DerOf(key.get());
}

absl::Status CheckPublicKey(absl::string_view public_key) {
  return openssl::ParsePublicKey(public_key).status();
}

std::string HashOfKey(absl::string_view public_key) { return HexSha256(public_key); }

}  // namespace muster
