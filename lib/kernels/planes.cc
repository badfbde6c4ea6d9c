#include "lib/kernels/planes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/planes.cc"
#include "hwy/foreach_target.h"
// After it.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

void ThreePlanesKernel(const uint8_t* pixels, size_t count, uint8_t* planes, size_t plane) {
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  uint8_t* first = planes;
  uint8_t* second = planes + plane;
  uint8_t* third = planes + 2 * plane;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> a, b, c;
    hn::LoadInterleaved3(d, pixels + 3 * i, a, b, c);
    hn::StoreU(a, d, first + i);
    hn::StoreU(b, d, second + i);
    hn::StoreU(c, d, third + i);
  }
  for (; i < count; ++i) {
    first[i] = pixels[3 * i];
    second[i] = pixels[3 * i + 1];
    third[i] = pixels[3 * i + 2];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(ThreePlanesKernel);

void ThreePlanes(absl::Span<const uint8_t> pixels, absl::Span<uint8_t> planes, size_t plane) {
  HWY_DYNAMIC_DISPATCH(ThreePlanesKernel)(pixels.data(), pixels.size() / 3, planes.data(), plane);
}

}  // namespace muster
#endif  // HWY_ONCE
