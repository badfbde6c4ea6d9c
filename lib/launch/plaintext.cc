#include "lib/launch/plaintext.h"

#include "absl/strings/str_cat.h"

namespace muster {

absl::Status CheckHasIdentity(const std::string& identity, const std::string& advice) {
  if (!identity.empty() || MaySpeakPlaintext()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--identity: it is missing, and nobody speaks without a certificate; ", advice));
}

}  // namespace muster
