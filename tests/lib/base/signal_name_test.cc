#include "lib/base/signal_name.h"

#include <gtest/gtest.h>

#include <csignal>

namespace muster {
namespace {

TEST(SignalName, ASignalWithoutANameIsCalledByItsNumber) {
  EXPECT_EQ(SignalName(SIGINT), "SIGINT");
  EXPECT_EQ(SignalName(999), "signal 999");
}

}  // namespace
}  // namespace muster
