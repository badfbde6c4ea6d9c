#include "lib/kernels/norm.h"

#include <array>
#include <bit>

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

double SlowSumOfSquares(absl::Span<const float> values) {
  std::array<double, 8> l = {};
  for (size_t i = 0; i < values.size(); ++i) {
    l[i % 8] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

TEST(SumOfSquares, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      const auto values = WildFloats(n, n);
      EXPECT_EQ(std::bit_cast<uint64_t>(SumOfSquares(values)),
                std::bit_cast<uint64_t>(SlowSumOfSquares(values)))
          << n;
    }
  });
}

// If a plain sum gave the same bits on this input, the comparison above would prove nothing about
// the order.
TEST(SumOfSquares, TheTestInputShowsTheOrder) {
  const auto values = WildFloats(4099, 4099);
  double plain = 0;
  for (float v : values) plain += static_cast<double>(v) * static_cast<double>(v);
  EXPECT_NE(plain, SumOfSquares(values));
  EXPECT_NEAR(plain / SumOfSquares(values), 1, 1e-12);
}

}  // namespace
}  // namespace muster
