#include "lib/join/join_token.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/domain/member_name.h"

namespace muster {
namespace {

constexpr std::string_view kPrefix = "muster-join-";
constexpr std::string_view kOfHost = "host:";
constexpr std::string_view kOfRun = "run";
constexpr size_t kSecretBytes = 16;
// 128 bits as letters of both cases and digits; more is a file that somebody took for a token.
constexpr size_t kShortestSecret = 22;
constexpr size_t kLongestSecret = 256;
constexpr size_t kKeyBytes = 32;
constexpr char kInfo[] = "muster join 1";

bool IsSecret(std::string_view text) {
  return text.size() >= kShortestSecret && text.size() <= kLongestSecret &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
         });
}

}  // namespace

JoinToken MakeJoinToken(std::string host) {
  std::array<char, kSecretBytes> secret{};
  MUSTER_CHECK(getentropy(secret.data(), secret.size()) == 0, "(the system gives random bits)");
  return {std::move(host), absl::BytesToHexString(absl::string_view(secret.data(), secret.size()))};
}

std::string TextOf(const JoinToken& token) {
  return absl::StrCat(std::string(kPrefix), token.host, token.host.empty() ? "" : "-",
                      token.secret);
}

// Hosts may have a '-' in their names, secrets have none.
absl::StatusOr<JoinToken> ParseJoinToken(std::string_view text) {
  const absl::Status bad = absl::InvalidArgumentError(
      "there is no token of a host, which is one word such as muster-join-HOST-SECRET; an admin "
      "makes one with `muster token host HOST`");
  if (!text.starts_with(kPrefix)) return bad;
  text.remove_prefix(kPrefix.size());
  const size_t dash = text.rfind('-');
  const bool is_of_run = dash == std::string_view::npos;
  JoinToken token{std::string(is_of_run ? "" : text.substr(0, dash)),
                  std::string(is_of_run ? text : text.substr(dash + 1))};
  if (!IsSecret(token.secret) || (!is_of_run && !IsMemberName(token.host))) return bad;
  return token;
}

std::string JoinKeyOf(std::string_view secret) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  std::string digest = "SHA256", input(secret), info = kInfo;
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, input.data(), input.size()),
      OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
      OSSL_PARAM_construct_end()};
  std::array<unsigned char, kKeyBytes> key{};
  const bool made =
      context != nullptr && EVP_KDF_derive(context.get(), key.data(), key.size(), parameters) == 1;
  MUSTER_CHECK(made, "(HKDF-SHA256 is there)");
  return std::string(key.begin(), key.end());
}

std::string JoinIdentityOf(const JoinToken& token) {
  return token.host.empty() ? std::string(kOfRun) : absl::StrCat(std::string(kOfHost), token.host);
}

std::optional<std::string> HostInJoinIdentity(std::string_view identity) {
  if (identity == kOfRun) return "";
  if (!identity.starts_with(kOfHost)) return std::nullopt;
  identity.remove_prefix(kOfHost.size());
  if (!IsMemberName(absl::string_view(identity.data(), identity.size()))) return std::nullopt;
  return std::string(identity);
}

}  // namespace muster
