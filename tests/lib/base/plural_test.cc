#include "lib/base/plural.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

TEST(Plural, OneAndMany) {
  EXPECT_EQ(Plural(0, "step"), "0 steps");
  EXPECT_EQ(Plural(1, "step"), "1 step");
  EXPECT_EQ(Plural(2, "step"), "2 steps");
  EXPECT_EQ(Plural(1, "recovery", "recoveries"), "1 recovery");
  EXPECT_EQ(Plural(3, "recovery", "recoveries"), "3 recoveries");
}

}  // namespace
}  // namespace muster
