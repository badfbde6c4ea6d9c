#include "coordinator/service/token_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/state/rights.h"
#include "lib/base/check.h"
#include "lib/kernels/sha256.h"

namespace muster::coordinator {
namespace {

constexpr std::string_view kPrefix = "muster-";
constexpr size_t kSecretBytes = 16;
constexpr size_t kSecretDigits = 2 * kSecretBytes;

bool IsSecretDigit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

}  // namespace

std::string MakeTokenText(std::string_view user) {
  std::array<char, kSecretBytes> secret{};
  MUSTER_CHECK(getentropy(secret.data(), secret.size()) == 0, "(the system gives random bits)");
  return absl::StrCat(std::string(kPrefix), std::string(user), "-",
                      absl::BytesToHexString(absl::string_view(secret.data(), secret.size())));
}

// Users may have a '-' in their names, secrets have none.
std::optional<std::string> UserInToken(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  const size_t dash = text.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const std::string_view user = text.substr(0, dash), secret = text.substr(dash + 1);
  const bool is_secret =
      secret.size() == kSecretDigits && std::all_of(secret.begin(), secret.end(), IsSecretDigit);
  if (!is_secret || !IsNamePart(user)) return std::nullopt;
  return std::string(user);
}

std::string HashOfToken(std::string_view text) { return HexSha256({text.data(), text.size()}); }

bool SameHash(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned differs = 0;
  for (size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differs == 0;
}

std::optional<std::string> BearerIn(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() <= kScheme.size()) return std::nullopt;
  if (!absl::EqualsIgnoreCase(absl::string_view(authorization.data(), kScheme.size()),
                              absl::string_view(kScheme.data(), kScheme.size())))
    return std::nullopt;
  const std::string_view token = authorization.substr(kScheme.size());
  if (token.find_first_of(" \t,") != std::string_view::npos) return std::nullopt;
  return std::string(token);
}

}  // namespace muster::coordinator
