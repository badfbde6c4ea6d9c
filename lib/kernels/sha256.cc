#include "lib/kernels/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "lib/base/bytes.h"
#include "lib/base/check.h"

namespace muster {

void Sha256::Free::operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  MUSTER_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
               "OpenSSL offers no SHA-256");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(absl::Span<const std::byte> bytes) {
  MUSTER_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::HexFinish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  MUSTER_CHECK(EVP_DigestFinal_ex(context_.get(), digest, &size) == 1);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string HexSha256(absl::string_view text) {
  Sha256 hash;
  hash.Update(BytesOf(text));
  return hash.HexFinish();
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  MUSTER_CHECK(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
                    &size) != nullptr,
               "OpenSSL offers no HMAC-SHA256");
  return std::string(reinterpret_cast<const char*>(digest), size);
}

}  // namespace muster
