#include "lib/kernels/norm.h"

#include <bit>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/norm.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

constexpr size_t kVirtualLanes = 8;

double SumOfSquaresKernel(const float* values, size_t count) {
  const hn::CappedTag<double, kVirtualLanes> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr size_t kWidth = hn::MaxLanes(decltype(wide)());
  hn::Vec<decltype(wide)> sums[kVirtualLanes / kWidth];
  for (auto& sum : sums) sum = hn::Zero(wide);
  size_t i = 0;
  for (; i + kVirtualLanes <= count; i += kVirtualLanes) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kVirtualLanes / kWidth; ++k) {
      const auto x = hn::PromoteTo(wide, hn::LoadU(narrow, values + i + k * kWidth));
      sums[k] = hn::Add(sums[k], hn::Mul(x, x));
    }
  }
  double l[kVirtualLanes];
  for (size_t k = 0; k < kVirtualLanes / kWidth; ++k) hn::StoreU(sums[k], wide, l + k * kWidth);
  for (size_t lane = 0; i < count; ++i, ++lane) {
    const double x = values[i];
    l[lane] += x * x;
  }
  return ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
}

// A value is finite unless all bits of its exponent are set: compared as integers, without the
// sign.
bool AllFiniteKernel(const float* values, size_t count) {
  constexpr int32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> integers;
  auto largest = hn::Zero(integers);
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(integers, hn::LoadU(d, values + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(integers, kMagnitude)));
  }
  bool finite = hn::GetLane(hn::MaxOfLanes(integers, largest)) < kInfinity;
  for (; i < count; ++i) {
    finite = finite && (std::bit_cast<int32_t>(values[i]) & kMagnitude) < kInfinity;
  }
  return finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(SumOfSquaresKernel);
HWY_EXPORT(AllFiniteKernel);

double SumOfSquares(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquaresKernel)(values.data(), values.size());
}

bool AllFinite(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteKernel)(values.data(), values.size());
}

}  // namespace muster
#endif  // HWY_ONCE
