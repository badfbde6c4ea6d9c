#include "lib/base/byte_room.h"

#include <gtest/gtest.h>

namespace muster {
namespace {

constexpr size_t kUnit = kSmallAnswerBytes + 1;

TEST(FitAnswer, TakesWhatIsExpectedAndGivesBackWhatIsNotNeeded) {
  const auto taken = std::make_shared<std::atomic<size_t>>(0);
  const auto fit = [&](std::unique_ptr<ByteRoom>& room, size_t bytes) {
    return FitAnswer(room, taken, bytes, 5 * kUnit);
  };
  std::unique_ptr<ByteRoom> room, other;
  EXPECT_TRUE(fit(room, 3 * kUnit));
  EXPECT_EQ(*taken, 3 * kUnit);
  EXPECT_FALSE(fit(other, 3 * kUnit));
  EXPECT_EQ(*taken, 3 * kUnit) << "what is refused takes nothing";
  EXPECT_TRUE(fit(room, 2 * kUnit));
  EXPECT_EQ(*taken, 2 * kUnit) << "it was smaller than it was expected to be";
  EXPECT_TRUE(fit(other, 3 * kUnit));
  EXPECT_FALSE(fit(room, 2 * kUnit + 1)) << "it was larger, and there is no room for more";
  EXPECT_EQ(*taken, 3 * kUnit);
  EXPECT_EQ(room, nullptr);
  EXPECT_TRUE(fit(other, 5 * kUnit)) << "it was larger, and there is room";
  EXPECT_EQ(*taken, 5 * kUnit);
  EXPECT_TRUE(fit(room, kSmallAnswerBytes)) << "a small one needs none";
  EXPECT_EQ(room, nullptr);
  EXPECT_TRUE(fit(other, kSmallAnswerBytes));
  EXPECT_EQ(*taken, 0u);
}

}  // namespace
}  // namespace muster
