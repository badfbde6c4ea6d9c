// The loop of every element-wise kernel. Included once per instruction set (Highway's
// foreach_target): hence the guard that is toggled instead of a pragma.
#if defined(MUSTER_LIB_KERNELS_ELEMENTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MUSTER_LIB_KERNELS_ELEMENTWISE_INL_H_
#undef MUSTER_LIB_KERNELS_ELEMENTWISE_INL_H_
#else
#define MUSTER_LIB_KERNELS_ELEMENTWISE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls op(d, i) for elements [i, i + Lanes(d)): whole vectors first, then one lane at a time, so
// that each formula is written once. `op` loads with LoadU(d, …), uses only Add, Sub, Mul, Div and
// Sqrt (never MulAdd, which fuses where the machine can), and stores with StoreU.
template <class Op>
HWY_INLINE void ForEachElement(size_t count, Op op) {
  const hn::ScalableTag<float> vector;
  const hn::CappedTag<float, 1> single;
  size_t i = 0;
  for (; i + hn::Lanes(vector) <= count; i += hn::Lanes(vector)) op(vector, i);
  for (; i < count; ++i) op(single, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#endif  // the toggled guard
