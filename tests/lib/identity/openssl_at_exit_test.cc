#include "lib/identity/openssl_at_exit.h"

#include <stdlib.h>
#include <unistd.h>

#include "gtest/gtest.h"
#include "lib/identity/keys.h"

namespace muster {
namespace {

// Registered first, so it runs after all that OpenSSL does at the end.
void UseOpenSslAtTheVeryEnd() { _exit(MakeKey().ok() ? 0 : 7); }

[[noreturn]] void EndAfterUsingOpenSsl() {
  if (atexit(UseOpenSslAtTheVeryEnd) != 0) _exit(8);
  KeepOpenSslAtExit();
  if (!MakeKey().ok()) _exit(9);
  exit(1);
}

TEST(OpenSslAtExitDeathTest, MayBeUsedAsLongAsThereAreThreads) {
  // A process of its own: this one may have used it before.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(EndAfterUsingOpenSsl(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace muster
