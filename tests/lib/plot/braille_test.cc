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

TEST(BrailleTest, MarksStandOnTheAxesOfTheCurveAndAreNamedWhereThereIsRoom) {
  const Marks marks{"held out", {{4, 3}, {9, 1}, {7, NAN}}};
  EXPECT_EQ(absl::StrJoin(DrawBraille({{0, 2}, {9, 0.5}}, 27, 3, marks), "\n"),
            "        3 ┤       o\n"
            "          │⠉⠉⠑⠒⠢⠤⠤⣀⣀\n"
            "      0.5 ┤         ⠉⠉⠑⠒⠢⠤o\n"
            "           0  o held out  9");
  EXPECT_EQ(DrawBraille({{0, 2}, {9, 0.5}}, 21, 3, marks).back(), "           0        9");
  EXPECT_THAT(DrawBraille({}, 80, 8, marks), IsEmpty());
  EXPECT_EQ(DrawBraille({{0, 2}}, 80, 8, {"none", {{0, NAN}}}), DrawBraille({{0, 2}}, 80, 8));
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
