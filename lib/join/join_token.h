// What a host shows to join, and the key that both ends derive from it (docs/identity.md section
// 3): the token itself never crosses the wire. Plain values; all functions are thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace muster {

struct JoinToken {
  std::string host;    // for which it is; empty: the secret of a run, for any host
  std::string secret;  // at least 128 random bits
  bool operator==(const JoinToken&) const = default;
};

// With a new secret. The system's randomness, or the process ends.
JoinToken MakeJoinToken(std::string host);
// "muster-join-HOST-SECRET", or "muster-join-SECRET" for a run.
std::string TextOf(const JoinToken& token);
// kInvalidArgument: it has no such form.
absl::StatusOr<JoinToken> ParseJoinToken(std::string_view text);

// The pre-shared key: 32 bytes.
std::string JoinKeyOf(std::string_view secret);
// How the two ends name it: "host:HOST", or "run".
std::string JoinIdentityOf(const JoinToken& token);
// The host in such a name; empty: that of a run. Nothing: it is none.
std::optional<std::string> HostInJoinIdentity(std::string_view identity);

}  // namespace muster
