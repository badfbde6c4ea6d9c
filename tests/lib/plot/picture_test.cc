#include "lib/plot/picture.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/plot/page.h"
#include "nlohmann/json.hpp"

namespace muster::plot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Curve Falling(const std::string& name, int steps) {
  Curve curve{name, {}};
  for (int i = 0; i < steps; ++i) curve.points.push_back({static_cast<double>(i), 2.0 / (1 + i)});
  return curve;
}

std::string Svg(const std::vector<Curve>& curves, PictureOptions options = {}) {
  options.title = "loss of a";
  options.y_label = "loss";
  return Draw(curves, options).svg;
}

int CountOf(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Every element is closed, in order, and no bare & stands in a text.
bool IsWellFormed(const std::string& xml) {
  std::vector<std::string> open;
  for (size_t at = 0; at < xml.size(); ++at) {
    if (xml[at] == '&') {
      const size_t end = xml.find(';', at);
      if (end == std::string::npos || end - at > 6) return false;
    }
    if (xml[at] != '<') continue;
    const size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find_first_of(" \n")));
    }
    at = end;
  }
  return open.empty();
}

TEST(PictureTest, ACurveIsALineThatFalls) {
  const Picture picture = Draw({Falling("a", 5)}, {.title = "loss of a", .y_label = "loss"});
  EXPECT_TRUE(IsWellFormed(picture.svg));
  EXPECT_THAT(picture.svg, HasSubstr("loss of a</text>"));
  EXPECT_THAT(picture.svg, HasSubstr("loss over steps</text>"));
  EXPECT_THAT(picture.svg, HasSubstr(">0.4</tspan>")) << "its last value";
  const double right = picture.left + picture.width, bottom = picture.top + picture.height;
  EXPECT_LT(right, 960);
  // It begins at the left end, high up, and ends at the right end, low down.
  const double low = picture.top + picture.height * (1 - picture.y.At(0.4));
  EXPECT_THAT(picture.svg, HasSubstr(absl::StrCat("d=\"M", picture.left, " ")));
  EXPECT_THAT(picture.svg, HasSubstr(absl::StrFormat("L%.0f %.0f", right, std::floor(low))));
  EXPECT_LT(low, bottom);
}

TEST(PictureTest, WhatIsNotFiniteIsAGapAndAPointBetweenGapsADot) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Curve curve{
      "a", {{0, 1}, {1, 2}, {2, NAN}, {3, 5}, {4, kInfinity}, {5, 1e301}, {6, 2}, {7, 1}, {8, 2}}};
  const std::string svg = Svg({curve});
  EXPECT_TRUE(IsWellFormed(svg));
  const size_t path = svg.find("d=\"M");
  ASSERT_NE(path, std::string::npos);
  EXPECT_EQ(CountOf(svg.substr(path, svg.find('"', path + 3) - path), "M"), 2) << "two lines";
  EXPECT_EQ(CountOf(svg, "<circle"), 2) << "the dot, and the end of the curve";
  for (const char* odd : {"nan", "inf", "NaN"}) EXPECT_THAT(svg, Not(HasSubstr(odd)));
}

TEST(PictureTest, OnePointNoneAndNothingFiniteArePicturesToo) {
  const std::vector<std::vector<Point>> all = {
      {},           {{7, 3}}, {{0, NAN}, {1, NAN}}, {{0, 0}, {1, 0}}, {{0, -1e300}, {1, 1e300}},
      {{0, 5e-324}}};
  for (const std::vector<Point>& points : all)
    for (const bool is_log : {false, true})
      for (const double smooth : {0.0, 0.9}) {
        const std::string svg = Svg({Curve{"a", points}}, {.is_log = is_log, .smooth = smooth});
        EXPECT_TRUE(IsWellFormed(svg));
        for (const char* odd : {"nan", "inf"}) EXPECT_THAT(svg, Not(HasSubstr(odd)));
      }
  EXPECT_THAT(Svg({Curve{"a", {}}}), HasSubstr("no values"));
  EXPECT_TRUE(IsWellFormed(Svg({})));
}

TEST(PictureTest, WhatHasNoLogarithmIsLeftOutAndCounted) {
  const std::vector<Curve> curves = {Curve{"a", {{0, 1}, {1, 0}, {2, -3}, {3, 10}, {4, 100}}}};
  EXPECT_THAT(Svg(curves, {.is_log = true}), HasSubstr("logarithmic (2 at or below 0 left out)"));
  EXPECT_THAT(Svg(curves), Not(HasSubstr("left out")));
}

TEST(PictureTest, ASmoothCurveHasTheValuesBehindIt) {
  const std::string svg = Svg({Falling("a", 50)}, {.smooth = 0.9});
  EXPECT_EQ(CountOf(svg, "<path"), 2);
  EXPECT_LT(svg.find(" faint\""), svg.rfind("<path")) << "behind";
  EXPECT_THAT(svg, HasSubstr("smoothed by 0.9"));
}

TEST(PictureTest, AMillionPointsMakeASmallPicture) {
  const std::string svg = Svg({Falling("a", 1'000'000)});
  EXPECT_LT(svg.size(), 200'000u);
}

TEST(PictureTest, AnyTextMayBeAName) {
  for (const std::string name : {"<b>&\"'", "</title><script>", "\x01\x7f\xff", "日本語", ""}) {
    const std::string svg = Svg({Falling(name, 3)});
    EXPECT_TRUE(IsWellFormed(svg)) << name;
    EXPECT_THAT(svg, Not(HasSubstr("<script")));
    EXPECT_THAT(Page(Draw({Falling(name, 3)}, {.title = name})), Not(HasSubstr("<script>alert")));
  }
  const std::string longer(3000, 'x');
  const std::string svg = Svg({Falling(longer, 3)});
  EXPECT_EQ(CountOf(svg, longer), 1) << "whole where one points at it";
  EXPECT_THAT(svg, HasSubstr("x...<tspan"));
}

// More curves than colours differ in their dashes, and the legend wraps.
TEST(PictureTest, ManyCurvesDiffer) {
  std::vector<Curve> curves;
  for (int i = 0; i < 20; ++i) curves.push_back(Falling(absl::StrCat("count-", i), 3));
  const Picture picture = Draw(curves, {.title = "loss"});
  EXPECT_TRUE(IsWellFormed(picture.svg));
  EXPECT_THAT(picture.svg, HasSubstr("class=\"line line0\" stroke-dasharray=\"8 4\""));
  EXPECT_GT(picture.top, Draw({curves[0]}, {}).top + 40);
}

TEST(PageTest, HasTheValuesAndLoadsNothing) {
  Curve curve{"</script>\"\\", {{0, 0.5}, {1, NAN}, {2, 0.25}}};
  const std::string page = Page(Draw({curve}, {.title = "loss"}));
  for (const char* loads : {"<link", "<img", "src=", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(loads)));
  const std::string begin = "id=\"chart\">";
  const size_t at = page.find(begin) + begin.size();
  const auto json = nlohmann::json::parse(page.substr(at, page.find("</script>", at) - at));
  EXPECT_EQ(json["curves"][0]["name"], curve.name);
  EXPECT_EQ(json["curves"][0]["x"], nlohmann::json({0.0, 2.0}));
  EXPECT_EQ(json["curves"][0]["y"], nlohmann::json({0.5, 0.25}));
  EXPECT_THAT(page, HasSubstr("<td>2</td><td>2</td><td>0.25</td><td>0.25</td><td>2</td>"));
}

}  // namespace
}  // namespace muster::plot
