#include "lib/kernels/norm.h"

#include <cstddef>

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

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(SumOfSquaresKernel);

double SumOfSquares(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(SumOfSquaresKernel)(values.data(), values.size());
}

}  // namespace muster
#endif  // HWY_ONCE
