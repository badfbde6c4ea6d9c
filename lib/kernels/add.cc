#include "lib/kernels/add.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "lib/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lib/kernels/add.cc"
#include "hwy/foreach_target.h"
#include "lib/kernels/elementwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace muster {
namespace HWY_NAMESPACE {

// fp32 lanes from any address: bytes have no alignment to respect.
template <class D>
HWY_INLINE hn::VFromD<D> LoadBytes(D d, const std::byte* at) {
  if constexpr (hn::MaxLanes(D()) == 1) {  // the scalar target has no vector of four bytes
    float value;
    std::memcpy(&value, at, sizeof(value));
    return hn::Set(d, value);
  } else {
    const hn::Repartition<uint8_t, D> bytes;
    return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t*>(at)));
  }
}

void SumKernel(const std::byte* a, const std::byte* b, float* out, size_t count) {
  ForEachElement(count, [=](auto d, size_t i) HWY_ATTR {
    const auto left = LoadBytes(d, a + i * sizeof(float));
    const auto right = LoadBytes(d, b + i * sizeof(float));
    hn::StoreU(hn::Add(left, right), d, out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace muster
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace muster {
namespace {

static_assert(std::endian::native == std::endian::little, "received floats are little-endian");

HWY_EXPORT(SumKernel);

void Sum(const std::byte* a, const std::byte* b, float* out, size_t count) {
  HWY_DYNAMIC_DISPATCH(SumKernel)(a, b, out, count);
}

const std::byte* Bytes(const float* values) { return reinterpret_cast<const std::byte*>(values); }

// Calls run(at, first, n) for runs of values [first, first + n) that lie in one piece at `at`; a
// value cut by the end of a slice is put together and passed alone.
template <class Run>
void ForEachRun(ByteSlices slices, size_t byte_offset, size_t count, Run run) {
  std::array<std::byte, sizeof(float)> cut;
  size_t held = 0;  // bytes of the cut value so far
  size_t done = 0;
  size_t skip = byte_offset;
  for (absl::Span<const std::byte> rest : slices) {
    if (done == count) return;
    const size_t skipped = std::min(skip, rest.size());
    skip -= skipped;
    rest.remove_prefix(skipped);
    if (held > 0) {
      const size_t taken = std::min(cut.size() - held, rest.size());
      std::copy_n(rest.begin(), taken, cut.begin() + held);
      rest.remove_prefix(taken);
      held += taken;
      if (held < cut.size()) continue;
      run(cut.data(), done++, 1);
      held = 0;
    }
    const size_t whole = std::min(rest.size() / sizeof(float), count - done);
    if (whole > 0) run(rest.data(), done, whole);
    done += whole;
    if (done == count) return;
    rest.remove_prefix(whole * sizeof(float));
    held = rest.size();
    std::copy(rest.begin(), rest.end(), cut.begin());
  }
  MUSTER_CHECK(done == count, "the slices end before the last value");
}

// out[i] = a[i] + b[i], with `a` in one piece.
void SumRun(const std::byte* a, ByteSlices b, size_t byte_offset, absl::Span<float> out) {
  ForEachRun(b, byte_offset, out.size(), [=](const std::byte* at, size_t first, size_t n) {
    Sum(a + first * sizeof(float), at, &out[first], n);
  });
}

}  // namespace

void Add(absl::Span<const float> a, absl::Span<const float> b, absl::Span<float> out) {
  MUSTER_CHECK(a.size() == b.size() && a.size() == out.size());
  Sum(Bytes(a.data()), Bytes(b.data()), out.data(), out.size());
}

void SumSlices(ByteSlices a, size_t byte_offset, absl::Span<const float> b, absl::Span<float> out) {
  MUSTER_CHECK(b.size() == out.size());
  ForEachRun(a, byte_offset, out.size(), [=](const std::byte* at, size_t first, size_t n) {
    Sum(at, Bytes(&b[first]), &out[first], n);
  });
}

void SumTwoSlices(ByteSlices a, size_t a_offset, ByteSlices b, size_t b_offset,
                  absl::Span<float> out) {
  ForEachRun(a, a_offset, out.size(), [=](const std::byte* left, size_t first, size_t n) {
    SumRun(left, b, b_offset + first * sizeof(float), out.subspan(first, n));
  });
}

}  // namespace muster
#endif  // HWY_ONCE
