// Whom to expect at the REST port of a cluster that a `muster` has started.
#pragma once

#include <string>

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

}  // namespace muster
