#!/usr/bin/env python3
"""Writes what is made of other files here: the dashboards as JSON (of dashboards.py), and Prometheus' rules
(../prometheus/rules.yaml) as an object of its operator.

usage: generate.py            writes them
       generate.py --check    names those that are not what they are made of; exit status 1 if there are any
"""

import json
import pathlib
import sys

from dashboards import ALL
from model import document

DEPLOY = pathlib.Path(__file__).resolve().parents[1]
COMPONENTS = DEPLOY / "k8s/components"
RULE = """\
# Made by deploy/grafana/generate.py of deploy/prometheus/rules.yaml: change that one.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: muster, namespace: muster-system}
spec:
"""


def made():
    """The text of each file, by its path."""
    files = {COMPONENTS / f"grafana/muster-{each.name}.json": json.dumps(document(each), indent=1) + "\n" for each in ALL}
    rules = (DEPLOY / "prometheus/rules.yaml").read_text()
    lines = (line for line in rules.splitlines() if not line.startswith("#"))
    files[COMPONENTS / "prometheus/rules.yaml"] = RULE + "".join(f"  {line}\n" if line else "\n" for line in lines)
    return files


def main(arguments):
    stale = [path for path, text in made().items() if not path.exists() or path.read_text() != text]
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path.relative_to(DEPLOY.parent)}: not what it is made of; run deploy/grafana/generate.py")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made()[path])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
