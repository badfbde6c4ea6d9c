// For tests of vectorised code: the same inputs through every instruction set that this machine
// has.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "absl/types/span.h"
#include "hwy/highway.h"

namespace muster {

inline constexpr size_t kUglySizes[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 257, 1009, 4099};

// Runs `test` once per instruction set that was compiled in and that this machine can run, the
// scalar one included.
template <class Test>
void ForEveryTarget(Test test) {
  int targets = 0;
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    test();
    ++targets;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  EXPECT_GE(targets, 2) << "no second instruction set to compare with";
}

// Both signs, about forty binary orders of magnitude, some zeros: sums of these show every change
// of order.
inline std::vector<float> WildFloats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    const auto mantissa =
        static_cast<float>(static_cast<int64_t>(random() % 20'000'001) - 10'000'000);
    v = std::ldexp(mantissa, static_cast<int>(random() % 40) - 43);
    if (random() % 50 == 0) v = random() % 2 == 0 ? 0.0f : -0.0f;
  }
  return values;
}

inline std::vector<uint32_t> Bits(absl::Span<const float> values) {
  std::vector<uint32_t> bits;
  for (float v : values) bits.push_back(std::bit_cast<uint32_t>(v));
  return bits;
}

}  // namespace muster
