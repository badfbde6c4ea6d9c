#include "lib/kernels/finite.h"

#include <limits>

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kBad[] = {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
                          -std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::signaling_NaN()};

TEST(AllFinite, FindsOneBadValueAnywhere) {
  ForEveryTarget([] {
    std::vector<float> values(67, 1.0f);
    for (size_t n = 0; n <= values.size(); ++n) {
      EXPECT_TRUE(AllFinite(absl::MakeConstSpan(values).first(n))) << n;
      for (size_t at = 0; at < n; ++at) {
        values[at] = kBad[at % std::size(kBad)];
        EXPECT_FALSE(AllFinite(absl::MakeConstSpan(values).first(n))) << at << " of " << n;
        values[at] = 1.0f;
      }
    }
  });
}

TEST(AllFinite, TheLargestAndTheSmallestValuesAreFinite) {
  ForEveryTarget([] {
    const float large = std::numeric_limits<float>::max();
    const float small = std::numeric_limits<float>::denorm_min();
    EXPECT_TRUE(AllFinite(std::vector<float>(33, large)));
    EXPECT_TRUE(AllFinite(std::vector<float>(33, -large)));
    EXPECT_TRUE(AllFinite(std::vector<float>(33, -small)));
    EXPECT_TRUE(AllFinite(std::vector<float>(33, -0.0f)));
  });
}

}  // namespace
}  // namespace muster
