#include "lib/identity/openssl_at_exit.h"

#include <openssl/crypto.h>

#include "lib/base/check.h"

namespace muster {

void KeepOpenSslAtExit() {
  MUSTER_CHECK(OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1);
}

}  // namespace muster
