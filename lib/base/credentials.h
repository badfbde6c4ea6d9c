// Who we are and whom we trust, as an argument of everything that listens or connects. Without
// certificates only loopback is spoken to, unless `allow_plaintext` holds the peer or listen
// address (lib/base/loopback.h decides).
#pragma once

#include <string>
#include <vector>

namespace muster {

struct Credentials {
  std::vector<std::string> allow_plaintext;  // CIDRs, for example "10.231.0.0/24" or "fd00::/8"
};

}  // namespace muster
