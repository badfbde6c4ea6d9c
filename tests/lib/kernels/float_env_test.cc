#include "lib/kernels/float_env.h"

#include <cfenv>
#include <limits>
#include <thread>

#include "lib/kernels/add.h"
#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

// In a thread of its own: the environment of the test's thread stays as it is.
template <class Test>
void InThread(Test test) {
  std::thread(test).join();
}

TEST(FloatEnvironment, IsSetForTheCallingThreadOnly) {
  ASSERT_FALSE(FloatEnvironmentIsSet());
  InThread([] {
    SetFloatEnvironment();
    EXPECT_TRUE(FloatEnvironmentIsSet());
  });
  EXPECT_FALSE(FloatEnvironmentIsSet());
}

TEST(FloatEnvironment, RestoresRoundingToNearest) {
  InThread([] {
    std::fesetround(FE_UPWARD);
    EXPECT_FALSE(FloatEnvironmentIsSet());
    SetFloatEnvironment();
    EXPECT_TRUE(FloatEnvironmentIsSet());
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  });
}

TEST(FloatEnvironment, SubnormalNumbersAreZeroOnEveryTarget) {
  constexpr float kSubnormal = std::numeric_limits<float>::min() / 4;
  constexpr float kSmallest = std::numeric_limits<float>::min();
  InThread([=] {
    ForEveryTarget([=] {
      const std::vector<float> a(37, kSubnormal);
      std::vector<float> out(37);
      Add(a, a, absl::MakeSpan(out));
      EXPECT_EQ(Bits(out), Bits(std::vector(37, 2 * kSubnormal)));
    });
    SetFloatEnvironment();
    ForEveryTarget([=] {
      const std::vector<float> a(37, kSubnormal), b(37, kSmallest), c(37, -1.5f * kSmallest);
      std::vector<float> out(37);
      Add(a, b, absl::MakeSpan(out));  // an operand that counts as zero
      EXPECT_EQ(Bits(out), Bits(b));
      Add(b, c, absl::MakeSpan(out));  // a result that is flushed
      EXPECT_EQ(Bits(out), Bits(std::vector(37, -0.0f)));
    });
  });
}

TEST(InstructionSet, IsTheOneInUse) {
  ForEveryTarget([] {
    EXPECT_EQ(InstructionSet(),
              hwy::TargetName(hwy::SupportedTargets() & -hwy::SupportedTargets()));
  });
}

}  // namespace
}  // namespace muster
