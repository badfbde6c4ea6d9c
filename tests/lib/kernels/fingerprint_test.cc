#include "lib/kernels/fingerprint.h"

#include <algorithm>
#include <set>

#include "lib/base/hash.h"
#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

// The definition of the header, once more and slowly.
Fingerprint SlowFingerprint(uint64_t name_hash, uint32_t slot, uint64_t first,
                            absl::Span<const float> values) {
  Fingerprint sum;
  const uint64_t k = Mix64(name_hash, slot);
  for (size_t n = 0; n < values.size(); ++n) {
    const uint64_t i = first + n, b = std::bit_cast<uint32_t>(values[n]);
    sum.lo += Mix64((k + i * 0x9e3779b97f4a7c15u) ^ b);
    sum.hi += Mix64((Mix64(k, 1) + i * 0xd1342543de82ef95u) ^ (b << 32));
  }
  return sum;
}

TEST(Fingerprint, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      for (uint64_t first : {uint64_t{0}, uint64_t{13}, (uint64_t{1} << 40) - 5}) {
        const auto values = WildFloats(n, n);
        EXPECT_EQ(FingerprintOf(77, 2, first, values), SlowFingerprint(77, 2, first, values)) << n;
      }
    }
  });
}

TEST(Fingerprint, IsTheSumOverAnyPartitionInAnyOrder) {
  const auto values = WildFloats(1009, 3);
  const Fingerprint whole = FingerprintOf(5, 0, 100, values);
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<size_t> cuts = {0, values.size()};
    while (cuts.size() < 9) cuts.push_back(random() % (values.size() + 1));
    std::sort(cuts.begin(), cuts.end());
    std::vector<size_t> parts = {0, 1, 2, 3, 4, 5, 6, 7};
    std::shuffle(parts.begin(), parts.end(), random);
    Fingerprint sum;
    for (size_t p : parts) {
      const auto part = absl::MakeConstSpan(values).subspan(cuts[p], cuts[p + 1] - cuts[p]);
      sum += FingerprintOf(5, 0, 100 + cuts[p], part);
    }
    EXPECT_EQ(sum, whole);
  }
}

TEST(Fingerprint, SeesEverySwapAndEveryFlippedBit) {
  auto values = WildFloats(40, 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(i);  // all distinct
  std::set<std::string> seen = {ToHex(FingerprintOf(1, 0, 0, values))};
  size_t changes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j, ++changes) {
      std::swap(values[i], values[j]);
      seen.insert(ToHex(FingerprintOf(1, 0, 0, values)));
      std::swap(values[i], values[j]);
    }
    for (int bit = 0; bit < 32; ++bit, ++changes) {
      const float old = values[i];
      values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(old) ^ (1u << bit));
      seen.insert(ToHex(FingerprintOf(1, 0, 0, values)));
      values[i] = old;
    }
  }
  EXPECT_EQ(seen.size(), changes + 1);
}

TEST(Fingerprint, DependsOnNameSlotIndexAndTheSignOfZero) {
  const std::vector<float> zero = {0.0f}, minus_zero = {-0.0f};
  const Fingerprint some[] = {FingerprintOf(1, 0, 0, zero),       FingerprintOf(2, 0, 0, zero),
                              FingerprintOf(1, 1, 0, zero),       FingerprintOf(1, 0, 1, zero),
                              FingerprintOf(1, 0, 0, minus_zero), Fingerprint{}};
  for (const Fingerprint& a : some) {
    EXPECT_EQ(std::count(std::begin(some), std::end(some), a), 1);
    EXPECT_EQ(std::count_if(std::begin(some), std::end(some),
                            [&](const Fingerprint& b) { return a.lo == b.lo || a.hi == b.hi; }),
              1);
  }
}

TEST(Fingerprint, ToHexShowsAllDigits) {
  EXPECT_EQ(ToHex(Fingerprint{.hi = 1, .lo = 0xabcdef}), "00000000000000010000000000abcdef");
}

// Part of the ledger's format: a change of this value is a change of the format.
TEST(Fingerprint, NeverChanges) {
  EXPECT_EQ(ToHex(FingerprintOf(HashBytes("head.weight"), 1, 16, {1.0f, -2.5f, 0.0f})),
            "a29b9b93314e5163679a7052a8fa684a");
}

}  // namespace
}  // namespace muster
