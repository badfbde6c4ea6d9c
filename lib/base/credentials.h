// Who we are and whom we trust, as an argument of everything that listens or connects. Without
// certificates only loopback is spoken to (lib/base/loopback.h).
#pragma once

#include <memory>

namespace muster {

class IdentitySource;  // lib/identity

struct Credentials {
  // With it gRPC speaks TLS only, with certificates at both ends, and to any address.
  std::shared_ptr<IdentitySource> identity = nullptr;
};

}  // namespace muster
