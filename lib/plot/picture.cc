#include "lib/plot/picture.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/printable.h"
#include "lib/plot/smooth.h"
#include "lib/plot/thin.h"

namespace muster::plot {
namespace {

constexpr double kWidth = 960;
constexpr double kHeight = 400;  // of the axes
constexpr double kEdge = 28;
constexpr double kTitleBase = 40;
constexpr double kNoteBase = 62;
constexpr double kLegendRow = 22;
constexpr double kBelowAxes = 56;
constexpr double kCharacter = 7.2;  // of the small letters, on average and generously
constexpr size_t kMostNameBytes = 48;
constexpr double kRoomAbove = 0.05;  // and below the curves, in parts of their height

// Line styles: as many colours, and then the same ones broken in another way.
constexpr const char* kLight[kColours] = {"#2a78d6", "#e8652b", "#14966b", "#c98a00",
                                          "#cc4d86", "#5b8f00", "#5a48b8", "#8a6242"};
constexpr const char* kDark[kColours] = {"#5b9ff0", "#f08a5a", "#3fbf94", "#e0ae3a",
                                         "#ec86b4", "#93c13c", "#a396f2", "#c29a78"};
constexpr const char* kDashes[] = {"", "8 4", "2 4", "10 4 2 4"};

constexpr char kFont[] =
    "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif";

struct Theme {
  const char* surface;
  const char* ink;
  const char* muted;
  const char* grid;
  const char* axis;
  const char* const* colours;
};
constexpr Theme kLightTheme{"#ffffff", "#1d1d1b", "#6a6963", "#ebeae6", "#b4b3ad", kLight};
constexpr Theme kDarkTheme{"#1b1b1a", "#f1f0ec", "#a3a29b", "#30302e", "#5d5c57", kDark};

std::string ThemeRules(const Theme& theme) {
  std::string rules =
      absl::StrCat(".surface{fill:", theme.surface, "}.ink{fill:", theme.ink,
                   "}.muted{fill:", theme.muted, "}.grid{stroke:", theme.grid,
                   "}.axis{stroke:", theme.axis, "}.end{stroke:", theme.surface, "}");
  for (size_t i = 0; i < kColours; ++i)
    absl::StrAppend(&rules, ".line", i, "{stroke:", theme.colours[i], "}.dot", i,
                    "{fill:", theme.colours[i], "}");
  return rules;
}

std::string StyleSheet() {
  return absl::StrCat(
      "<style>text{", kFont,
      ";font-size:13px}.title{font-size:19px;font-weight:600}"
      ".right{text-anchor:end}.middle{text-anchor:middle}"
      ".line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}"
      ".end{stroke-width:1.5}.faint{stroke-width:1.2;stroke-opacity:.3}.faintdot{fill-opacity:.3}",
      ThemeRules(kLightTheme), "@media (prefers-color-scheme:dark){", ThemeRules(kDarkTheme),
      "}</style>\n");
}

std::string Number(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

size_t Characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

double TextWidth(const std::string& text) {
  return kCharacter * static_cast<double>(Characters(text));
}

std::string TextAt(double x, double y, const std::string& classes, const std::string& text) {
  return absl::StrCat("<text x=\"", Number(x), "\" y=\"", Number(y), "\" class=\"", classes, "\">",
                      EscapeXml(text), "</text>\n");
}

std::string LineAt(double x1, double y1, double x2, double y2, const std::string& classes) {
  return absl::StrCat("<line x1=\"", Number(x1), "\" y1=\"", Number(y1), "\" x2=\"", Number(x2),
                      "\" y2=\"", Number(y2), "\" class=\"", classes, "\"/>\n");
}

bool IsDrawn(const Point& point) {
  return std::isfinite(point.y) && std::fabs(point.y) <= kLargestDrawn;
}

// What no axis can show is a gap. Returns of how many values that is so for the logarithm alone.
int64_t LeaveOut(std::vector<Point>& points, bool is_log) {
  int64_t below = 0;
  for (Point& point : points) {
    const bool is_below = IsDrawn(point) && is_log && point.y < kLeastDrawn;
    if (is_below) ++below;
    if (is_below || !IsDrawn(point)) point.y = NAN;
  }
  return below;
}

struct Range {
  double least = 0;
  double largest = 0;
};

// Of the points that count; nothing: there is none.
template <class Counts, class Of>
std::optional<Range> RangeOf(const std::vector<Curve>& curves, Counts counts, Of of) {
  std::optional<Range> range;
  for (const Curve& curve : curves)
    for (const Point& point : curve.points) {
      if (!counts(point)) continue;
      const double value = of(point);
      if (!range) range = Range{value, value};
      range->least = std::min(range->least, value);
      range->largest = std::max(range->largest, value);
    }
  return range;
}

// Gaps, too: what is no number at the end of a curve is part of it.
Axis XAxis(const std::vector<Curve>& curves) {
  const Range range =
      RangeOf(
          curves, [](const Point&) { return true; }, [](const Point& p) { return p.x; })
          .value_or(Range{0, 1});
  return MakeAxis(range.least, range.largest, {.is_whole = true, .most_ticks = 8});
}

Axis YAxis(const std::vector<Curve>& curves, bool is_log) {
  const std::optional<Range> found = RangeOf(curves, IsDrawn, [](const Point& p) { return p.y; });
  Range range = found.value_or(is_log ? Range{0.1, 1} : Range{0, 1});
  if (is_log) {
    const double room = std::pow(range.largest / range.least, kRoomAbove);
    if (std::isfinite(room)) range = {range.least / room, range.largest * room};
  } else {
    const double room = kRoomAbove * (range.largest - range.least);
    const bool is_above = range.least >= 0;
    range = {range.least - room, range.largest + room};
    if (is_above) range.least = std::max(0.0, range.least);
  }
  return MakeAxis(range.least, range.largest, {.is_log = is_log});
}

class Drawing {
 public:
  Drawing(std::vector<Curve> curves, const PictureOptions& options) {
    picture_.options = options;
    picture_.given = std::move(curves);
    std::vector<Curve> faint;
    for (const Curve& given : picture_.given) {
      std::vector<Point> points = given.points;
      left_out_ += LeaveOut(points, options.is_log);
      if (options.smooth > 0) faint.push_back({given.name, Thin(points, kColumns)});
      picture_.drawn.push_back(
          {given.name, Thin(Smooth(std::move(points), options.smooth), kColumns)});
    }
    Place(faint.empty() ? picture_.drawn : faint);
    DrawFrame();
    for (size_t i = 0; i < faint.size(); ++i) DrawCurve(faint[i], i, /*is_faint=*/true);
    for (size_t i = 0; i < picture_.drawn.size(); ++i) DrawCurve(picture_.drawn[i], i, false);
  }

  Picture Take() {
    const std::string title = EscapeXml(picture_.options.title);
    picture_.svg = absl::StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Number(kWidth), " ",
        Number(picture_.top + picture_.height + kBelowAxes), "\" role=\"img\" aria-label=\"", title,
        "\">\n<title>", title, "</title>\n", StyleSheet(),
        "<rect class=\"surface\" width=\"100%\" height=\"100%\"/>\n", body_, "</svg>\n");
    return std::move(picture_);
  }

 private:
  // As many as pixels of a large screen.
  static constexpr size_t kColumns = 1600;

  void Place(const std::vector<Curve>& widest) {
    picture_.x = XAxis(widest);
    picture_.y = YAxis(widest, picture_.options.is_log);
    double labels = 0;
    for (const std::string& label : picture_.y.labels) labels = std::max(labels, TextWidth(label));
    picture_.left = kEdge + labels + 8;
    picture_.width = kWidth - kEdge - picture_.left;
    picture_.height = kHeight;
  }

  double X(double value) const { return picture_.left + picture_.width * picture_.x.At(value); }
  double Y(double value) const {
    return picture_.top + picture_.height * (1 - picture_.y.At(value));
  }

  std::string Note() const {
    const PictureOptions& options = picture_.options;
    std::string note = absl::StrCat(options.y_label, " over ", options.x_label, "s");
    if (options.is_log) absl::StrAppend(&note, ", logarithmic");
    if (left_out_ > 0) absl::StrAppend(&note, " (", left_out_, " at or below 0 left out)");
    if (options.smooth > 0)
      absl::StrAppend(&note, ", smoothed by ", ShortNumber(options.smooth), ", itself behind it");
    return note;
  }

  void DrawFrame() {
    body_ += TextAt(kEdge, kTitleBase, "title ink", picture_.options.title);
    body_ += TextAt(kEdge, kNoteBase, "muted", Note());
    picture_.top = DrawLegend() + 24;
    const double right = picture_.left + picture_.width, bottom = picture_.top + picture_.height;
    for (size_t i = 0; i < picture_.y.ticks.size(); ++i) {
      const double y = Y(picture_.y.ticks[i]);
      body_ += LineAt(picture_.left, y, right, y, "grid");
      body_ += TextAt(picture_.left - 8, y + 4.5, "muted right", picture_.y.labels[i]);
    }
    body_ += LineAt(picture_.left, bottom, right, bottom, "axis");
    for (size_t i = 0; i < picture_.x.ticks.size(); ++i) {
      const double x = X(picture_.x.ticks[i]);
      body_ += LineAt(x, bottom, x, bottom + 5, "axis");
      body_ += TextAt(x, bottom + 21, "muted middle", picture_.x.labels[i]);
    }
    body_ += TextAt(picture_.left + picture_.width / 2, bottom + 42, "muted middle",
                    picture_.options.x_label);
  }

  static std::string LastOf(const Curve& curve) {
    const auto last = std::find_if(curve.points.rbegin(), curve.points.rend(), IsDrawn);
    return last == curve.points.rend() ? "no values" : absl::StrFormat("%.4g", last->y);
  }

  // Returns where it ends.
  double DrawLegend() {
    constexpr double kSwatch = 22, kGap = 26;
    double x = kEdge, y = kNoteBase + kLegendRow + 6;
    for (size_t i = 0; i < picture_.drawn.size(); ++i) {
      const Curve& curve = picture_.drawn[i];
      const std::string name = Cut(Printable(curve.name), kMostNameBytes);
      const std::string last = LastOf(curve);
      const double width = kSwatch + 7 + TextWidth(name) + 7 + TextWidth(last);
      if (x > kEdge && x + width > kWidth - kEdge) {
        x = kEdge;
        y += kLegendRow;
      }
      absl::StrAppend(&body_, "<g><title>", EscapeXml(curve.name), "</title>", "<line x1=\"",
                      Number(x + 2), "\" y1=\"", Number(y - 4.5), "\" x2=\"",
                      Number(x + kSwatch - 2), "\" y2=\"", Number(y - 4.5), "\" class=\"line line",
                      i % kColours, "\"", DashOf(i), "/>");
      // Where the name ends is left to whoever has the letters.
      absl::StrAppend(&body_, "<text x=\"", Number(x + kSwatch + 7), "\" y=\"", Number(y),
                      "\" class=\"ink\">", EscapeXml(name), "<tspan dx=\"7\" class=\"muted\">",
                      EscapeXml(last), "</tspan></text></g>\n");
      x += width + kGap;
    }
    return y;
  }

  static std::string DashOf(size_t i) {
    const char* dash = kDashes[i / kColours % std::size(kDashes)];
    return *dash == '\0' ? "" : absl::StrCat(" stroke-dasharray=\"", dash, "\"");
  }

  std::string DotAt(const Point& point, size_t i, const std::string& classes, double radius) const {
    return absl::StrCat("<circle cx=\"", Number(X(point.x)), "\" cy=\"", Number(Y(point.y)),
                        "\" r=\"", Number(radius), "\" class=\"dot", i % kColours, classes,
                        "\"/>\n");
  }

  void DrawCurve(const Curve& curve, size_t i, bool is_faint) {
    std::string path, dots;
    const std::vector<Point>& points = curve.points;
    for (size_t first = 0; first < points.size();) {
      if (!IsDrawn(points[first])) {
        ++first;
        continue;
      }
      size_t end = first + 1;
      while (end < points.size() && IsDrawn(points[end])) ++end;
      if (end == first + 1) dots += DotAt(points[first], i, is_faint ? " faintdot" : "", 2);
      for (size_t at = first; at < end && end > first + 1; ++at)
        absl::StrAppend(&path, at == first ? "M" : "L", Number(X(points[at].x)), " ",
                        Number(Y(points[at].y)));
      first = end;
    }
    if (!path.empty())
      absl::StrAppend(&body_, "<path class=\"line line", i % kColours, is_faint ? " faint" : "",
                      "\"", is_faint ? "" : DashOf(i), " d=\"", path, "\"/>\n");
    body_ += dots;
    const auto last = std::find_if(points.rbegin(), points.rend(), IsDrawn);
    if (!is_faint && last != points.rend()) body_ += DotAt(*last, i, " end", 4);
  }

  Picture picture_;
  std::string body_;
  int64_t left_out_ = 0;  // values that have no logarithm
};

}  // namespace

std::string EscapeXml(const std::string& text) {
  return absl::StrReplaceAll(
      Printable(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

Picture Draw(std::vector<Curve> curves, const PictureOptions& options) {
  return Drawing(std::move(curves), options).Take();
}

}  // namespace muster::plot
