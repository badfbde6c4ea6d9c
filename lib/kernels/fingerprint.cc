#include "lib/kernels/fingerprint.h"

#include "absl/strings/str_format.h"
#include "lib/base/hash.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/fingerprint.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

constexpr uint64_t kStrideLo = 0x9e3779b97f4a7c15u, kStrideHi = 0xd1342543de82ef95u;

// Mix64 of each lane.
template <class V>
HWY_INLINE V MixVector(V x) {
  const hn::DFromV<V> d;
  x = hn::Add(x, hn::Set(d, 0x9e3779b97f4a7c15u));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<30>(x)), hn::Set(d, 0xbf58476d1ce4e5b9u));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<27>(x)), hn::Set(d, 0x94d049bb133111ebu));
  return hn::Xor(x, hn::ShiftRight<31>(x));
}

// Of all lanes. Highway's own sum adds signed numbers on some machines, which must not overflow.
template <class V>
HWY_INLINE uint64_t WrappingSum(V lanes) {
  const hn::DFromV<V> d;
  uint64_t values[hn::MaxLanes(d)];
  hn::StoreU(lanes, d, values);
  uint64_t sum = 0;
  for (size_t i = 0; i < hn::Lanes(d); ++i) sum += values[i];
  return sum;
}

// Adds the hashes of the whole vectors of d in [*at, count) to `sum` and moves *at behind them.
template <class D>
HWY_INLINE void FingerprintRun(D d, Fingerprint origin, const float* values, size_t count,
                               size_t* at, Fingerprint* sum) {
  const hn::Rebind<float, D> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  const size_t width = hn::Lanes(d);
  const auto lane = hn::Iota(d, *at);
  auto place_lo = hn::Add(hn::Set(d, origin.lo), hn::Mul(lane, hn::Set(d, kStrideLo)));
  auto place_hi = hn::Add(hn::Set(d, origin.hi), hn::Mul(lane, hn::Set(d, kStrideHi)));
  auto lo = hn::Zero(d), hi = hn::Zero(d);
  for (; *at + width <= count; *at += width) {
    const auto bits = hn::PromoteTo(d, hn::BitCast(words, hn::LoadU(floats, values + *at)));
    lo = hn::Add(lo, MixVector(hn::Xor(place_lo, bits)));
    hi = hn::Add(hi, MixVector(hn::Xor(place_hi, hn::ShiftLeft<32>(bits))));
    place_lo = hn::Add(place_lo, hn::Set(d, kStrideLo * width));
    place_hi = hn::Add(place_hi, hn::Set(d, kStrideHi * width));
  }
  sum->lo += WrappingSum(lo);
  sum->hi += WrappingSum(hi);
}

Fingerprint FingerprintKernel(uint64_t key, uint64_t first_index, const float* values,
                              size_t count) {
  const Fingerprint origin = {.hi = Mix64(key, 1) + first_index * kStrideHi,
                              .lo = key + first_index * kStrideLo};
  Fingerprint sum;
  size_t at = 0;
  FingerprintRun(hn::ScalableTag<uint64_t>(), origin, values, count, &at, &sum);
  FingerprintRun(hn::CappedTag<uint64_t, 1>(), origin, values, count, &at, &sum);
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {

HWY_EXPORT(FingerprintKernel);

std::string ToHex(const Fingerprint& fingerprint) {
  return absl::StrFormat("%016x%016x", fingerprint.hi, fingerprint.lo);
}

Fingerprint FingerprintOf(uint64_t name_hash, uint32_t slot, uint64_t first_index,
                          absl::Span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(FingerprintKernel)(Mix64(name_hash, slot), first_index, values.data(),
                                                 values.size());
}

}  // namespace muster
#endif  // HWY_ONCE
