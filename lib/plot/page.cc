#include "lib/plot/page.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "lib/base/printable.h"

namespace muster::plot {
namespace {

constexpr char kStyle[] = R"(<style>
html{color-scheme:light dark}
body{margin:0;padding:24px;background:#f4f3ef;color:#1d1d1b;
  font:14px/1.45 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
main{max-width:1080px;margin:0 auto}
figure,table{margin:0 0 20px;border-radius:10px;overflow:hidden;background:#fff;box-shadow:0 1px 3px #0002}
figure{position:relative}
figure>svg{display:block;width:100%;height:auto;touch-action:pan-y}
#tip{position:absolute;pointer-events:none;padding:8px 12px;border-radius:8px;background:#fff;
  box-shadow:0 2px 10px #0003;white-space:nowrap;font-variant-numeric:tabular-nums}
#tip[hidden]{display:none}
#tip div{display:flex;gap:18px;justify-content:space-between}
#tip b{font-weight:600}
#tip i{display:inline-block;width:9px;height:9px;border-radius:50%;margin-right:7px}
#cross{stroke:#8a8983;stroke-dasharray:3 3}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:8px 16px;text-align:right;border-top:1px solid #ebeae6}
th{font-weight:500;color:#6a6963;border-top:0}
th:first-child,td:first-child{text-align:left;overflow-wrap:anywhere}
@media (prefers-color-scheme:dark){
  body{background:#121211;color:#f1f0ec}
  figure,table,#tip{background:#1b1b1a}
  th,td{border-color:#30302e}
  th{color:#a3a29b}
}
</style>
)";

// Finds the nearest value of each curve by halving, as its points stand by step.
constexpr char kScript[] = R"(<script>
'use strict';
const chart = JSON.parse(document.getElementById('chart').textContent);
const svg = document.querySelector('figure>svg');
const tip = document.getElementById('tip');
const make = (name, parent) =>
  parent.appendChild(document.createElementNS('http://www.w3.org/2000/svg', name));
const cross = make('line', svg);
cross.id = 'cross';
cross.setAttribute('y1', chart.top);
cross.setAttribute('y2', chart.top + chart.height);
const dots = chart.curves.map((curve, i) => {
  const dot = make('circle', svg);
  dot.setAttribute('class', `dot${i % chart.colours} end`);
  dot.setAttribute('r', 4.5);
  return dot;
});
const part = (axis, v) => axis.log
  ? Math.log(v / axis.low) / Math.log(axis.high / axis.low) : (v - axis.low) / (axis.high - axis.low);
const xOf = v => chart.left + chart.width * part(chart.x, v);
const yOf = v => chart.top + chart.height * (1 - part(chart.y, v));
function nearest(xs, x) {
  let low = 0, high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle; else high = middle;
  }
  return high > 0 && x - xs[low] > xs[high] - x ? high : low;
}
function hide() {
  tip.hidden = true;
  for (const thing of [cross, ...dots]) thing.setAttribute('visibility', 'hidden');
}
function row(left, right, colour) {
  const line = tip.appendChild(document.createElement('div'));
  const name = line.appendChild(document.createElement('span'));
  if (colour) name.appendChild(document.createElement('i')).style.background = colour;
  name.append(left);
  line.appendChild(document.createElement('b')).textContent = right;
}
function show(event) {
  const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const share = (at.x - chart.left) / chart.width;
  if (share < -0.02 || share > 1.02 || at.y < chart.top - 8 || at.y > chart.top + chart.height + 8)
    return hide();
  const x = chart.x.low + share * (chart.x.high - chart.x.low);
  const found = chart.curves.map(curve => curve.x.length ? nearest(curve.x, x) : -1);
  let step = null;
  chart.curves.forEach((curve, i) => {
    if (found[i] < 0) return;
    const own = curve.x[found[i]];
    if (step === null || Math.abs(own - x) < Math.abs(step - x)) step = own;
  });
  if (step === null) return hide();
  tip.replaceChildren();
  row(chart.label, step.toLocaleString('en'));
  chart.curves.forEach((curve, i) => {
    // A curve that is not there at this step has nothing to say.
    const there = found[i] >= 0 && Math.abs(xOf(curve.x[found[i]]) - xOf(step)) < 6;
    dots[i].setAttribute('visibility', there ? 'visible' : 'hidden');
    if (!there) return;
    const y = curve.y[found[i]];
    dots[i].setAttribute('cx', xOf(curve.x[found[i]]));
    dots[i].setAttribute('cy', yOf(y));
    row(curve.name, Number(y.toPrecision(6)), getComputedStyle(dots[i]).fill);
  });
  cross.setAttribute('x1', xOf(step));
  cross.setAttribute('x2', xOf(step));
  cross.setAttribute('visibility', 'visible');
  tip.hidden = false;
  const box = svg.parentNode.getBoundingClientRect();
  const left = event.clientX - box.left, top = event.clientY - box.top;
  const isRight = left + tip.offsetWidth + 30 > box.width;
  tip.style.left = Math.max(0, isRight ? left - tip.offsetWidth - 16 : left + 16) + 'px';
  tip.style.top = Math.max(0, Math.min(top - 12, box.height - tip.offsetHeight - 4)) + 'px';
}
svg.addEventListener('pointermove', show);
svg.addEventListener('pointerdown', show);
svg.addEventListener('pointerleave', hide);
hide();
</script>
)";

// As JSON inside an element of HTML, which "</script>" would end.
std::string JsonText(const std::string& text) {
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(Printable(text),
                          {{"\\", "\\\\"}, {"\"", "\\\""}, {"\t", "\\t"}, {"<", "\\u003c"}}),
      "\"");
}

std::string JsonOf(const Axis& axis) {
  return absl::StrFormat("{\"low\":%.17g,\"high\":%.17g,\"log\":%s}", axis.low, axis.high,
                         axis.is_log ? "true" : "false");
}

// Its values, without gaps.
std::string JsonOf(const Curve& curve) {
  std::string xs, ys;
  for (const Point& point : curve.points) {
    if (!std::isfinite(point.y)) continue;
    const char* comma = xs.empty() ? "" : ",";
    absl::StrAppendFormat(&xs, "%s%.15g", comma, point.x);
    absl::StrAppendFormat(&ys, "%s%.9g", comma, point.y);
  }
  return absl::StrCat("{\"name\":", JsonText(curve.name), ",\"x\":[", xs, "],\"y\":[", ys, "]}");
}

std::string JsonOf(const Picture& picture) {
  std::string curves;
  for (const Curve& curve : picture.drawn)
    absl::StrAppend(&curves, curves.empty() ? "" : ",", JsonOf(curve));
  return absl::StrCat("{\"left\":", picture.left, ",\"top\":", picture.top,
                      ",\"width\":", picture.width, ",\"height\":", picture.height,
                      ",\"colours\":", kColours, ",\"label\":", JsonText(picture.options.x_label),
                      ",\"x\":", JsonOf(picture.x), ",\"y\":", JsonOf(picture.y), ",\"curves\":[",
                      curves, "]}");
}

// As it was measured, also where the lines are smooth.
std::string RowOf(const Curve& curve) {
  std::optional<Point> last, lowest;
  size_t values = 0;
  for (const Point& point : curve.points) {
    if (!std::isfinite(point.y)) continue;
    ++values;
    last = point;
    if (!lowest || point.y < lowest->y) lowest = point;
  }
  const auto y_of = [](const std::optional<Point>& p) { return p ? ShortNumber(p->y) : "-"; };
  const auto x_of = [](const std::optional<Point>& p) {
    return p ? absl::StrFormat("%.15g", p->x) : "-";
  };
  return absl::StrCat("<tr><td>", EscapeXml(curve.name), "</td><td>", values, "</td><td>",
                      x_of(last), "</td><td>", y_of(last), "</td><td>", y_of(lowest), "</td><td>",
                      x_of(lowest), "</td></tr>\n");
}

}  // namespace

std::string Page(const Picture& picture) {
  const std::string label = EscapeXml(picture.options.x_label);
  std::string rows;
  for (const Curve& curve : picture.given) rows += RowOf(curve);
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>",
                      EscapeXml(picture.options.title),
                      "</title>\n<meta name=\"viewport\" "
                      "content=\"width=device-width,initial-scale=1\">\n",
                      kStyle, "</head><body><main>\n<figure>\n", picture.svg,
                      "<div id=\"tip\" hidden></div>\n</figure>\n<table>\n<tr><th>job</th>"
                      "<th>values</th><th>last ",
                      label, "</th><th>last</th><th>lowest</th><th>at ", label, "</th></tr>\n",
                      rows, "</table>\n</main>\n<script type=\"application/json\" id=\"chart\">",
                      JsonOf(picture), "</script>\n", kScript, "</body></html>\n");
}

}  // namespace muster::plot
