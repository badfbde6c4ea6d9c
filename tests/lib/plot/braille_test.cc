#include "lib/plot/braille.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::plot {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

size_t Characters(const std::string& text) {
  size_t count = 0;
  for (const char c : text)
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++count;
  return count;
}

TEST(BrailleTest, ACurveFallsFromTheTopToTheBottom) {
  EXPECT_EQ(absl::StrJoin(DrawBraille({{0, 2}, {9, 0.5}}, 21, 3), "\n"),
            "        2 ┤⠉⠒⠤⡀\n"
            "          │   ⠈⠑⠢⢄\n"
            "      0.5 ┤       ⠉⠒⢄\n"
            "           0        9");
}

TEST(BrailleTest, OnePointOneLevelAndGapsAreDrawn) {
  EXPECT_THAT(DrawBraille({{3, 1}}, 21, 2),
              ElementsAre("        1 ┤⡀", "          │", "           3"));
  EXPECT_THAT(DrawBraille({{0, 0}, {1, NAN}, {9, 1}}, 21, 2),
              ElementsAre("        1 ┤         ⠈", "        0 ┤⡀", "           0        9"));
}

TEST(BrailleTest, WithoutAValueOrRoomThereIsNothing) {
  EXPECT_THAT(DrawBraille({}, 80, 8), IsEmpty());
  EXPECT_THAT(DrawBraille({{0, NAN}, {1, INFINITY}}, 80, 8), IsEmpty());
  EXPECT_THAT(DrawBraille({{0, 1}}, 20, 8), IsEmpty());
  EXPECT_THAT(DrawBraille({{0, 1}}, 80, 1), IsEmpty());
}

TEST(BrailleTest, AnyCurveHasThatHeightAndIsNotWider) {
  for (const double scale : {1e-300, 1.0, -1e9, 1e299})
    for (const size_t count : {1u, 2u, 3u, 100u, 5'000u}) {
      std::vector<Point> points;
      for (size_t i = 0; i < count; ++i)
        points.push_back(
            {1e12 + static_cast<double>(i), scale * std::sin(static_cast<double>(i * i))});
      for (const size_t columns : {21u, 40u, 79u}) {
        const std::vector<std::string> lines = DrawBraille(points, columns, 6);
        ASSERT_EQ(lines.size(), 7u);
        for (const std::string& line : lines) EXPECT_LE(Characters(line), columns) << line;
      }
    }
}

}  // namespace
}  // namespace muster::plot
