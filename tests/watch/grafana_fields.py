"""Names each field of the dashboards that Grafana's own model of them does not know: grafana_fields.py DASHBOARD.json …

A file is read into the types of Grafana's SDK and written again; what is lost on the way is no field of Grafana. Its
exit status is 1 if there is any.
"""

import json
import sys

from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

# Fields that belong to a data source or to Grafana's editor, which the SDK leaves out.
OF_OTHERS = {"step", "tagKeys", "titleFormat", "textFormat", "builtIn", "definition"}


def lost(before, after, path):
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key in after:
                yield from lost(value, after[key], f"{path}.{key}")
            elif key not in OF_OTHERS:
                yield f"{path}.{key}"
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after)):
            yield from lost(one, other, f"{path}[{number}]")
    elif before != after:
        yield f"{path}: {before} became {after}"


def main(paths):
    plugins.register_default_plugins()
    found = []
    for path in paths:
        with open(path) as file:
            ours = json.load(file)
        found += lost(ours, json.loads(JSONEncoder().encode(Dashboard.from_json(ours))), path)
    print(*found, sep="\n", end="")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
