// Whom to expect at the REST port of a cluster that a `muster` has started, and what to show there.
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "lib/http/client.h"
#include "lib/identity/tls_context.h"
#include "tests/support/text_of.h"

namespace muster {

inline std::string AuthorityFileOf(const std::string& dir) {
  return dir + "/store/identity/current/authority.pem";
}

// `dir` is its folder.
inline Trust TrustOf(const std::string& dir) {
  return {.authority_pem = TextOf(AuthorityFileOf(dir)), .cluster = ""};
}

inline std::string AdminTokenFileOf(const std::string& dir) {
  return dir + "/store/identity/admin.token";
}

// As its first admin.
inline http::ClientOptions ClientOf(const std::string& dir) {
  return {.token = std::string(absl::StripAsciiWhitespace(TextOf(AdminTokenFileOf(dir)))),
          .trust = TrustOf(dir)};
}

}  // namespace muster
