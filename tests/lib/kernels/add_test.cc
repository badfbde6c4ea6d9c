#include "lib/kernels/add.h"

#include <cstring>

#include "tests/lib/kernels/every_target.h"

namespace muster {
namespace {

std::vector<float> SlowSum(absl::Span<const float> a, absl::Span<const float> b) {
  std::vector<float> sum;
  for (size_t i = 0; i < a.size(); ++i) sum.push_back(a[i] + b[i]);
  return sum;
}

// A message as a transport delivers it: bytes before and behind the values, cut at random places
// into slices of their own.
class CutMessage {
 public:
  CutMessage(absl::Span<const float> values, size_t before, size_t mean_slice, uint64_t seed) {
    std::vector<std::byte> bytes(before + values.size() * sizeof(float) + 3, std::byte{0xa5});
    if (!values.empty()) std::memcpy(&bytes[before], values.data(), values.size() * sizeof(float));
    std::mt19937_64 random(seed);
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = std::min<size_t>(random() % (2 * mean_slice + 1), bytes.size() - at);
      // The first byte is padding: slices lie at any address.
      pieces_.emplace_back(size + 1);
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), size, pieces_.back().begin() + 1);
      at += size;
    }
    for (const auto& piece : pieces_) slices_.push_back(absl::MakeConstSpan(piece).subspan(1));
  }
  ByteSlices slices() const { return slices_; }

 private:
  std::vector<std::vector<std::byte>> pieces_;
  std::vector<absl::Span<const std::byte>> slices_;
};

constexpr size_t kMeanSlices[] = {1, 3, 40, 5000};

TEST(Add, EqualsItsSlowTwinOnEveryTarget) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      const auto a = WildFloats(n, n), b = WildFloats(n, n + 1);
      std::vector<float> out(n), into = a;
      Add(a, b, absl::MakeSpan(out));
      Add(into, b, absl::MakeSpan(into));
      EXPECT_EQ(Bits(out), Bits(SlowSum(a, b))) << n;
      EXPECT_EQ(Bits(into), Bits(SlowSum(a, b))) << n;
    }
  });
}

TEST(Add, WritesNothingBesideAnUnalignedSpan) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      std::vector<float> memory(n + 2, 7.0f);
      const auto b = WildFloats(n, n);
      const absl::Span<float> inside = absl::MakeSpan(memory).subspan(1, n);
      Add(inside, b, inside);
      EXPECT_EQ(memory.front(), 7.0f);
      EXPECT_EQ(memory.back(), 7.0f);
      EXPECT_EQ(Bits(inside), Bits(SlowSum(std::vector(n, 7.0f), b)));
    }
  });
}

TEST(SumSlices, EqualsAddOfTheJoinedBytesHoweverCut) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      for (size_t mean : kMeanSlices) {
        for (size_t before : {0, 1, 6, 64}) {
          const auto a = WildFloats(n, n), b = WildFloats(n, n + mean);
          const CutMessage message(b, before, mean, n + before);
          std::vector<float> out(n), in_place = a;
          SumSlices(message.slices(), before, a, absl::MakeSpan(out));
          SumSlices(message.slices(), before, in_place, absl::MakeSpan(in_place));
          ASSERT_EQ(Bits(out), Bits(SlowSum(b, a))) << n << " " << mean << " " << before;
          ASSERT_EQ(Bits(in_place), Bits(out)) << n << " " << mean << " " << before;
        }
      }
    }
  });
}

TEST(SumTwoSlices, EqualsAddOfTheJoinedBytesHoweverCut) {
  ForEveryTarget([] {
    for (size_t n : kUglySizes) {
      for (size_t mean_a : kMeanSlices) {
        for (size_t mean_b : kMeanSlices) {
          const auto a = WildFloats(n, n), b = WildFloats(n, n + 1);
          const CutMessage left(a, 5, mean_a, n), right(b, 32, mean_b, n + 1);
          std::vector<float> out(n);
          SumTwoSlices(left.slices(), 5, right.slices(), 32, absl::MakeSpan(out));
          ASSERT_EQ(Bits(out), Bits(SlowSum(a, b))) << n << " " << mean_a << " " << mean_b;
        }
      }
    }
  });
}

TEST(SumSlices, ReadsAPartInTheMiddle) {
  const auto values = WildFloats(100, 1);
  const CutMessage message(values, 8, 10, 2);
  std::vector<float> into(30, -0.0f);
  SumSlices(message.slices(), 8 + 41 * sizeof(float), into, absl::MakeSpan(into));
  EXPECT_EQ(Bits(into),
            Bits(SlowSum(absl::MakeConstSpan(values).subspan(41, 30), std::vector(30, -0.0f))));
}

TEST(SumSlicesDeathTest, SlicesThatEndEarlyAreABug) {
  const std::byte bytes[7] = {};
  const absl::Span<const std::byte> slices[] = {bytes};
  std::vector<float> into(2);
  EXPECT_DEATH(SumSlices(slices, 0, into, absl::MakeSpan(into)),
               "slices end before the last value");
}

}  // namespace
}  // namespace muster
