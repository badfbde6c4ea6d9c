"""What a dashboard of Grafana is, as values; `document` makes the JSON of it.

A panel says what it shows, to whom it matters and what its queries are. Where it stands follows from the order of the
panels and from their widths, of which 24 fill a line.
"""

from dataclasses import dataclass, field

SCHEMA = 41  # of Grafana 12; later ones read it, too
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
LINE = 24
TAG = "muster"
GREEN, YELLOW, RED = "green", "yellow", "red"


@dataclass(frozen=True)
class Panel:
    """`unit` is one of Grafana's names. `thresholds`: (from which value on, colour), ascending; below them is green."""
    title: str
    queries: tuple  # of (expression, legend)
    unit: str
    description: str
    kind: str = "timeseries"  # or stat, or table: of one query, as it is now
    width: int = 8
    height: int = 8
    thresholds: tuple = ()
    stacked: bool = False
    minimum: float | None = 0
    maximum: float | None = None
    link: str = ""  # the dashboard that a series leads to: job or member


@dataclass(frozen=True)
class Variable:
    name: str
    query: str  # of label values


@dataclass(frozen=True)
class Annotation:
    name: str
    expression: str
    colour: str
    text: str = ""


@dataclass(frozen=True)
class Dashboard:
    name: str  # its uid is muster-NAME
    title: str
    description: str
    panels: tuple
    variables: tuple = ()
    annotations: tuple = field(default=())


LINKS = {
    "job": {"title": "This job", "url": "/d/muster-job?var-job=${__field.labels.job}&${__url_time_range}"},
    "member": {"title": "This member", "url": "/d/muster-member?var-job=${__field.labels.job}"
               "&var-member=${__field.labels.member}&${__url_time_range}"},
}


def _steps(thresholds):
    return [{"color": GREEN, "value": None}] + [{"color": colour, "value": value} for value, colour in thresholds]


def _defaults(panel):
    defaults = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": _steps(panel.thresholds)},
                "noValue": "no data"}
    if panel.minimum is not None:
        defaults["min"] = panel.minimum
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    if panel.link:
        defaults["links"] = [LINKS[panel.link]]
    if panel.kind == "timeseries":
        defaults["color"] = {"mode": "palette-classic"}
        defaults["custom"] = {"drawStyle": "line", "lineWidth": 1, "fillOpacity": 40 if panel.stacked else 8,
                              "showPoints": "auto", "spanNulls": False,
                              "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
                              "thresholdsStyle": {"mode": "line" if panel.thresholds else "off"}}
    else:
        defaults["color"] = {"mode": "thresholds"}
    return defaults


def _options(panel):
    if panel.kind == "timeseries":
        return {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"}}
    if panel.kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "value",
                "graphMode": "area", "justifyMode": "auto", "textMode": "auto"}
    return {"showHeader": True, "cellHeight": "sm"}


def _targets(panel):
    targets = []
    for number, (expression, legend) in enumerate(panel.queries):
        target = {"refId": chr(ord("A") + number), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
        if panel.kind == "table":
            target.update(instant=True, range=False, format="table")
        else:
            target.update(instant=False, range=True)
        targets.append(target)
    return targets


def _panels(panels):
    made, x, y, tallest = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > LINE:
            x, y, tallest = 0, y + tallest, 0
        made.append({"id": number, "type": panel.kind, "title": panel.title, "description": panel.description,
                     "datasource": DATASOURCE, "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
                     "fieldConfig": {"defaults": _defaults(panel), "overrides": []}, "options": _options(panel),
                     "targets": _targets(panel)})
        x, tallest = x + panel.width, max(tallest, panel.height)
    return made


def _variables(variables):
    made = [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1,
             "hide": 0, "current": {}, "options": [], "multi": False, "includeAll": False, "regex": ""}]
    for variable in variables:
        made.append({"name": variable.name, "label": variable.name, "type": "query", "datasource": DATASOURCE,
                     "definition": variable.query, "refresh": 2, "sort": 7, "hide": 0, "current": {}, "options": [],
                     "query": {"query": variable.query, "refId": "variable"}, "multi": False, "includeAll": False,
                     "regex": ""})
    return made


def _annotations(annotations):
    grafana_own = {"builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": True,
                   "hide": True, "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts",
                   "type": "dashboard"}
    return [grafana_own] + [
        {"name": each.name, "datasource": DATASOURCE, "enable": True, "hide": False, "iconColor": each.colour,
         "expr": each.expression, "step": "", "titleFormat": each.name, "textFormat": each.text, "tagKeys": ""}
        for each in annotations]


def document(dashboard):
    """The JSON of it, as a dictionary."""
    return {"uid": f"muster-{dashboard.name}", "title": dashboard.title, "description": dashboard.description,
            "tags": [TAG], "schemaVersion": SCHEMA, "version": 1, "editable": True, "graphTooltip": 1,
            "fiscalYearStartMonth": 0, "timezone": "browser", "refresh": "10s",
            "time": {"from": "now-1h", "to": "now"}, "timepicker": {},
            "links": [{"title": "Muster", "type": "dashboards", "tags": [TAG], "asDropdown": False, "includeVars": True,
                       "keepTime": True, "targetBlank": False, "icon": "external link", "tooltip": "", "url": ""}],
            "templating": {"list": _variables(dashboard.variables)},
            "annotations": {"list": _annotations(dashboard.annotations)},
            "panels": _panels(dashboard.panels)}
