"""Draws what the panels of a dashboard show, as it lays them out: picture.py PANELS.json PICTURE.png

No Grafana: its licence keeps it out of the registries that a clean clone may use (decision 83). The numbers are those
that Prometheus answers to the panels' queries, the units, places, colours and thresholds those of the dashboard.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is chosen)
from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: E402

COLUMN, ROW = 0.66, 0.36  # inches of a unit of the grid
BACK, PAPER, INK, FAINT = "#111217", "#1b1d23", "#d8d9da", "#3a3d45"
COLOURS = ["#73bf69", "#f2cc0c", "#5794f2", "#ff9830", "#b877d9", "#8ab8ff", "#ffa6b0", "#37872d", "#e0b400", "#1f60c4"]
MARKS = {"orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2"}
THRESHOLDS = {"red": "#f2495c", "yellow": "#f2cc0c", "green": "#73bf69"}


def scaled(value, step, names):
    for name in names:
        if abs(value) < step or name == names[-1]:
            return f"{value:.3g} {name}".rstrip()
        value /= step
    return ""


def formatted(value, unit):
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "s":
        if value and abs(value) < 0.1:
            return f"{value * 1000:.3g} ms"
        return f"{value / 3600:.3g} h" if abs(value) >= 3600 else f"{value:.3g} s"
    if unit == "bytes":
        return scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"])
    if unit == "Bps":
        return scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s"])
    if unit == "bool":
        return "yes" if value else "no"
    if unit == "none":
        return f"{value:g}"
    return scaled(value, 1000, ["", "K", "Mil", "Bil"]) + (" req/s" if unit == "reqps" else "")


def points(values, begin):
    """Times and values, broken where nothing was there for some seconds, as Grafana breaks its lines."""
    x, y, before = [], [], None
    for at, value in values:
        if before is not None and at - before > 1.5:
            x.append(at - begin)
            y.append(float("nan"))
        x.append(at - begin)
        y.append(value)
        before = at
    return x, y


def thresholds_of(panel):
    return [step for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"] if step["value"] is not None]


def draw_lines(axes, panel, series, begin):
    defaults = panel["fieldConfig"]["defaults"]
    base = {}
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        if defaults["custom"]["stacking"]["mode"] == "normal":
            values = [(at, value + base.get(at, 0)) for at, value in values]
            x, y = points(values, begin)
            axes.fill_between(x, [base.get(at + begin, 0) for at in x], y, color=colour, alpha=0.4, linewidth=0)
            base.update(values)
        x, y = points(values, begin)
        axes.plot(x, y, color=colour, linewidth=1.2, label=name)
        if len(values) < 3:
            axes.plot(x, y, "o", color=colour, markersize=3)
    low, high = axes.get_ylim()
    if "min" in defaults:
        low = defaults["min"]
    high = defaults["max"] * 1.05 if "max" in defaults else high
    for step in thresholds_of(panel):
        if step["value"] > low:
            high = max(high, step["value"] * 1.1) if "max" not in defaults else high
            axes.axhline(step["value"], color=THRESHOLDS[step["color"]], linewidth=1, linestyle=(0, (4, 3)))
    axes.set_ylim(low, high if high > low else low + 1)
    axes.yaxis.set_major_locator(MaxNLocator(1 if defaults["unit"] == "bool" else 4, integer=defaults["unit"] == "none"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: formatted(value, defaults["unit"])))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f} s"))
    axes.grid(color=FAINT, linewidth=0.5)
    if series:
        width = panel["gridPos"]["w"]
        longest = max(map(len, series))
        axes.legend(loc="upper center", bbox_to_anchor=(0.48, -0.13), fontsize=7, frameon=False, labelcolor=INK,
                    ncol=max(1, min(len(series), int(width * 10 / (longest + 6)))), handlelength=1, columnspacing=1)


def draw_stat(axes, panel, series):
    defaults = panel["fieldConfig"]["defaults"]
    texts = []
    for name, values in series.items():
        value = values[-1][1]
        colour = THRESHOLDS["green"]
        for step in thresholds_of(panel):
            if value >= step["value"]:
                colour = THRESHOLDS[step["color"]]
        texts.append((formatted(value, defaults["unit"]) + (f"  {name}" if len(series) > 1 else ""), colour))
        ours = axes.inset_axes((0, 0, 1, 0.3))
        ours.plot([at for at, _ in values], [value for _, value in values], color=colour, linewidth=0.8)
        ours.axis("off")
    for number, (text, colour) in enumerate(texts):
        axes.text(0.5, 0.62 - 0.3 * number, text, ha="center", va="center", fontsize=16, color=colour,
                  transform=axes.transAxes)
    axes.set_xticks([])
    axes.set_yticks([])


def draw_table(axes, series, begin):
    """A dashboard shows what is there now; the picture also when it was."""
    rows = sorted((values[0][0] - begin, values[-1][0] - begin, name) for name, values in series.items())
    for number, (first, last, name) in enumerate(rows):
        for x, text in ((0.02, name), (0.72, f"{first:.0f} s to {last:.0f} s")):
            axes.text(x, 0.93 - 0.1 * number, text, fontsize=8, color=INK, transform=axes.transAxes, va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def draw(shown, path):
    grid = [each["panel"]["gridPos"] for each in shown["panels"]]
    width, height = 24 * COLUMN, max(at["y"] + at["h"] for at in grid) * ROW + 0.6
    figure = plt.figure(figsize=(width, height), facecolor=BACK)
    figure.text(0.01, 1 - 0.3 / height, shown["title"], color=INK, fontsize=14, va="center")
    begin = shown["begin"]
    for each in shown["panels"]:
        panel, at = each["panel"], each["panel"]["gridPos"]
        low = 0.62 if panel["type"] == "timeseries" else 0.1
        left = 0.62 if panel["type"] == "timeseries" else 0.1
        x, y = at["x"] * COLUMN + left, height - 0.6 - (at["y"] + at["h"]) * ROW + low
        axes = figure.add_axes((x / width, y / height, (at["w"] * COLUMN - left - 0.12) / width,
                                (at["h"] * ROW - low - 0.34) / height), facecolor=PAPER)
        axes.set_title(panel["title"], color=INK, fontsize=9, loc="left")
        axes.tick_params(colors=INK, labelsize=7, length=0)
        for spine in axes.spines.values():
            spine.set_color(FAINT)
        if panel["type"] == "stat":
            draw_stat(axes, panel, each["series"])
        elif panel["type"] == "table":
            draw_table(axes, each["series"], begin)
        else:
            axes.set_xlim(0, shown["end"] - begin)
            draw_lines(axes, panel, each["series"], begin)
            for name, times in shown["annotations"].items():
                for time in times[:1] + [b for a, b in zip(times, times[1:]) if b - a > 1.5]:
                    axes.axvline(time - begin, color=MARKS[shown["colours"][name]], linewidth=0.8, linestyle=":")
        if not each["series"]:
            axes.text(0.5, 0.5, "no data", color="#f2495c", ha="center", transform=axes.transAxes)
    figure.savefig(path, dpi=80, facecolor=BACK)


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        draw(json.load(file), sys.argv[2])
