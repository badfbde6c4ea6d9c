"""The dashboards as Grafana would ask for them: each panel's queries with their variables filled in."""

import json
import pathlib
import re
from dataclasses import dataclass, field

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "deploy/k8s/components/grafana"
NAMES = ("cluster", "job", "member", "coordinator")


@dataclass
class Query:
    expression: str
    legend: str
    series: list = field(default_factory=list)  # of (labels, [(time, value), …]), once it was asked

    def name(self, labels):
        """What Grafana writes beside a series with these labels."""
        return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), self.legend)

    def named(self):
        """Values by time, by the name of the series; not those that are no number. One process after the other has the
        same name."""
        found = {}
        for labels, values in self.series:
            found.setdefault(self.name(labels), {}).update((time, value) for time, value in values if value == value)
        return found


@dataclass
class Panel:
    title: str
    document: dict  # as it stands in the dashboard
    queries: list

    def named(self):
        return {name: values for query in self.queries for name, values in query.named().items()}


@dataclass
class Annotation:
    expression: str
    colour: str


def fill(text, variables):
    """What is left of Grafana's form of a variable is an error."""
    for name, value in variables.items():
        text = text.replace(f"${{{name}}}", value).replace(f"${name}", value)
    assert "$" not in text, text
    return text


def dashboard(name, variables):
    """Its title, its panels, and its annotations by their names."""
    document = json.loads((FOLDER / f"muster-{name}.json").read_text())
    made = [Panel(each["title"], each, [Query(fill(target["expr"], variables), target["legendFormat"])
                                        for target in each["targets"]]) for each in document["panels"]]
    annotations = {each["name"]: Annotation(fill(each["expr"], variables), each["iconColor"])
                   for each in document["annotations"]["list"] if "expr" in each}
    return document["title"], made, annotations
