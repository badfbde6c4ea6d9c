#include "lib/kernels/finite.h"

#include <cstddef>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/finite.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

// Without its sign, a float that is not finite is a larger whole number than any that is: all bits
// of its exponent are set.
bool AllFiniteKernel(const float* values, size_t count) {
  constexpr int32_t kWithoutSign = 0x7fffffff, kInfinity = 0x7f800000;
  constexpr size_t kSums = 4;  // independent ones, so that loads need not wait for each other
  const hn::ScalableTag<float> floats;
  const hn::RebindToSigned<decltype(floats)> words;
  const size_t width = hn::Lanes(floats);
  const auto mask = hn::Set(words, kWithoutSign);
  const auto load = [&](size_t i) HWY_ATTR {
    return hn::And(hn::BitCast(words, hn::LoadU(floats, values + i)), mask);
  };
  hn::Vec<decltype(words)> largest[kSums];
  for (auto& one : largest) one = hn::Zero(words);
  size_t i = 0;
  for (; i + kSums * width <= count; i += kSums * width)
    for (size_t k = 0; k < kSums; ++k) largest[k] = hn::Max(largest[k], load(i + k * width));
  for (; i + width <= count; i += width) largest[0] = hn::Max(largest[0], load(i));
  for (size_t k = 1; k < kSums; ++k) largest[0] = hn::Max(largest[0], largest[k]);
  bool finite = hn::AllTrue(words, hn::Lt(largest[0], hn::Set(words, kInfinity)));
  const hn::CappedTag<float, 1> single;
  const hn::RebindToSigned<decltype(single)> word;
  for (; i < count; ++i) {
    const auto bits = hn::BitCast(word, hn::LoadU(single, values + i));
    finite = finite && (hn::GetLane(bits) & kWithoutSign) < kInfinity;
  }
  return finite;
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(AllFiniteKernel);

bool AllFinite(absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(AllFiniteKernel)(values.data(), values.size());
}

}  // namespace muster
#endif  // HWY_ONCE
