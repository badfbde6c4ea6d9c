#include "lib/kernels/float_env.h"

#ifndef __x86_64__
#error "float_env.cc knows x86-64 only: add how this machine flushes subnormal numbers to zero"
#endif

#include <xmmintrin.h>

#include <cfenv>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/float_env.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

const char* TargetKernel() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {
namespace {

constexpr unsigned kDenormalsAreZero = 0x0040;
constexpr unsigned kRounding = 0x6000;  // both bits clear: to nearest even
constexpr unsigned kFlushToZero = 0x8000;

HWY_EXPORT(TargetKernel);

}  // namespace

void SetFloatEnvironment() {
  std::fesetround(FE_TONEAREST);
  _mm_setcsr((_mm_getcsr() & ~kRounding) | kFlushToZero | kDenormalsAreZero);
}

bool FloatEnvironmentIsSet() {
  const unsigned mode = _mm_getcsr() & (kDenormalsAreZero | kRounding | kFlushToZero);
  return mode == (kDenormalsAreZero | kFlushToZero) && std::fegetround() == FE_TONEAREST;
}

std::string InstructionSet() { return HWY_DYNAMIC_DISPATCH(TargetKernel)(); }

}  // namespace muster
#endif  // HWY_ONCE
