#include "lib/kernels/scale.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/scale.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

void ScaleKernel(float* values, size_t count, float factor) {
  ForEachElement(count, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), hn::Set(d, factor)), d, values + i);
  });
}

void DivideKernel(float* values, size_t count, float divisor) {
  ForEachElement(count, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Div(hn::LoadU(d, values + i), hn::Set(d, divisor)), d, values + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(ScaleKernel);
HWY_EXPORT(DivideKernel);

void Scale(absl::Span<float> values, float factor) {
  HWY_DYNAMIC_DISPATCH(ScaleKernel)(values.data(), values.size(), factor);
}

void DivideBy(absl::Span<float> values, float divisor) {
  HWY_DYNAMIC_DISPATCH(DivideKernel)(values.data(), values.size(), divisor);
}

}  // namespace muster
#endif  // HWY_ONCE
