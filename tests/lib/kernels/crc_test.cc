#include "lib/kernels/crc.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace muster {
namespace {

absl::Span<const std::byte> AsBytes(std::string_view text) {
  return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

TEST(Crc32c, GivesTheKnownSums) {
  EXPECT_EQ(Crc32c({}), 0u);
  EXPECT_EQ(Crc32c(AsBytes("123456789")), 0xE3069283u);
  EXPECT_EQ(Crc32c(std::vector(32, std::byte{0})), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(Crc32c(std::vector(32, std::byte{0xff})), 0x62A8AB43u);
}

TEST(Crc32c, GoesOnFromASeed) {
  EXPECT_EQ(Crc32c(AsBytes("56789"), Crc32c(AsBytes("1234"))), 0xE3069283u);
  EXPECT_EQ(Crc32c(AsBytes("123456789"), Crc32c({})), 0xE3069283u);
}

TEST(Crc32c, OfSlicesIsThatOfTheJoinedBytes) {
  const std::string_view text = "header123456789rest";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      const absl::Span<const std::byte> slices[] = {
          AsBytes(text.substr(0, i)), AsBytes(text.substr(i, j - i)), AsBytes(text.substr(j))};
      EXPECT_EQ(Crc32cOfSlices(slices, 6, 9), 0xE3069283u) << i << " " << j;
      EXPECT_EQ(Crc32cOfSlices(slices, 10, 5, Crc32c(AsBytes("1234"))), 0xE3069283u);
      EXPECT_EQ(Crc32cOfSlices(slices, 19, 0), 0u);
    }
  }
}

TEST(Crc32c, SeesEveryFlippedBit) {
  std::vector<std::byte> bytes(100, std::byte{0x5a});
  const uint32_t whole = Crc32c(bytes);
  for (size_t bit = 0; bit < 800; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    EXPECT_NE(Crc32c(bytes), whole);
    bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
  }
}

TEST(Crc32cDeathTest, SlicesThatEndEarlyAreABug) {
  const absl::Span<const std::byte> slices[] = {AsBytes("123")};
  EXPECT_DEATH(Crc32cOfSlices(slices, 1, 3), "slices end before the last byte");
}

}  // namespace
}  // namespace muster
