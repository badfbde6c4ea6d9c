#!/usr/bin/env python3
"""Looks at what people watch a cluster with: dashboards, recording and alert rules.

usage: watching.py [ROOT]      prints one line for each thing that is wrong, exit status 1 if there is any

What is generated is what it is made of. Every metric and label of an expression is in lib/metrics/catalog.h. Panels say
what they show, and in which unit. Each alert says what to do, has a section in docs/watching.md, and is seen to fire and
not to fire by `promtool test rules`, which is run where it is installed. The rules are the functions named check_… below.
"""

import json
import os
import re
import shutil
import subprocess
import sys

import documents

GUIDE = 'docs/watching.md'
RULES, RULES_TEST = 'deploy/prometheus/rules.yaml', 'deploy/prometheus/rules_test.yaml'
DASHBOARDS = 'deploy/k8s/components/grafana'
# Prometheus' own, and labels that every series has or that it adds.
OTHERS = {'up', 'ALERTS'}
LABELS = {'job', 'role', 'member', 'le', 'instance', 'pod', 'alertname', 'alertstate'}
# The rules of a rules file, as this repository writes it: the whole grammar of YAML is not needed for that.
RULE = re.compile(r'^  - (alert|record): (\S+)\n((?:    .*\n|\n)*)', re.MULTILINE)
TESTED = re.compile(r'alertname: (\w+)(, exp_alerts: \[\])?')


def known_metrics(root):
    """Name to label, with the series of histograms."""
    known = {}
    for name, kind, _, label, _ in documents.metrics(root):
        for suffix in ('_bucket', '_sum', '_count') if kind == 'histogram' else ('',):
            known[name + suffix] = label
    return known


def rules(root):
    """(kind, name, body) of each rule."""
    return RULE.findall(documents.read(root, RULES))


def expression(body):
    """Of a rule: what stands after expr."""
    return re.search(r'expr: (?:\|-)?(.*?)(?=\n    (?:for|labels):|\Z)', body, re.DOTALL)[1]


class Check:
    """`promtool`: the program; None: what it would say is left out."""

    def __init__(self, root, promtool):
        self.root = root
        self.promtool = promtool
        self.problems = []

    def report(self, path, what):
        self.problems.append(f'{path}: {what}')

    def run(self):
        self.check_generated()
        self.check_dashboards()
        self.check_rules()
        self.check_runbooks()
        self.check_tests_of_rules()
        self.check_promtool()
        return self.problems

    def check_generated(self):
        done = subprocess.run([sys.executable, '-B', os.path.join(self.root, 'deploy/grafana/generate.py'), '--check'],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            self.problems += done.stdout.splitlines()

    def check_expression(self, path, text):
        known = known_metrics(self.root)
        recorded = {name for kind, name, _ in rules(self.root) if kind == 'record'}
        named = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        for name in re.findall(r'\bmuster_\w+|\bmuster:[\w:]+', named):
            if name not in known and name not in recorded:
                self.report(path, f'{name} is no metric of lib/metrics/catalog.h')
        for name, labels in re.findall(r'(\w+)\{([^}]*)\}', named):
            for label in re.findall(r'(\w+)\s*[=!]', labels):
                if label not in LABELS | {known.get(name)}:
                    self.report(path, f'{name} has no label {label}')
            if name not in known and name not in OTHERS:
                self.report(path, f'{name} is no metric of ours')

    def check_dashboards(self):
        titles = {}
        for name in sorted(os.listdir(os.path.join(self.root, DASHBOARDS))):
            if not name.endswith('.json'):
                continue
            path = f'{DASHBOARDS}/{name}'
            dashboard = json.loads(documents.read(self.root, path))
            titles[dashboard['uid']] = path
            taken = set()
            for panel in dashboard['panels']:
                where = f'{path}: {panel["title"]}'
                at = panel['gridPos']
                cells = {(x, y) for x in range(at['x'], at['x'] + at['w']) for y in range(at['y'], at['y'] + at['h'])}
                if cells & taken or at['x'] + at['w'] > 24:
                    self.report(where, 'lies over another panel, or beside the grid')
                taken |= cells
                if not panel['description'].endswith('.') or not panel['fieldConfig']['defaults']['unit']:
                    self.report(where, 'needs a unit, and a sentence that says what it shows')
                for target in panel['targets']:
                    self.check_expression(where, target['expr'])
            for variable in dashboard['templating']['list']:
                self.check_expression(path, variable.get('definition', ''))
            for annotation in dashboard['annotations']['list']:
                self.check_expression(path, annotation.get('expr', ''))
            for uid in re.findall(r'"/d/([\w-]+)\?', json.dumps(dashboard)):
                titles.setdefault(uid, None)
        for uid, path in titles.items():
            if path is None:
                self.report(DASHBOARDS, f'a link leads to {uid}, which is no dashboard')

    def check_rules(self):
        found = rules(self.root)
        if len(found) != len(re.findall(r'^  - (?:alert|record):', documents.read(self.root, RULES), re.MULTILINE)):
            self.report(RULES, 'a rule is written otherwise than the others; see RULE in tests/lint/watching.py')
        for kind, name, body in found:
            self.check_expression(f'{RULES}: {name}', expression(body))
            if kind == 'alert' and not re.search(r'severity: (?:critical|warning)', body):
                self.report(f'{RULES}: {name}', 'needs a severity: critical or warning')

    def check_runbooks(self):
        headings = documents.anchors(documents.read(self.root, GUIDE))
        alerts = {name for kind, name, _ in rules(self.root) if kind == 'alert'}
        for kind, name, body in rules(self.root):
            if kind != 'alert':
                continue
            for word in ('summary', 'description'):
                if not re.search(rf'^      {word}: \S', body, re.MULTILINE):
                    self.report(f'{RULES}: {name}', f'has no {word}')
            if f'      runbook: {GUIDE}#{name.lower()}\n' not in body:
                self.report(f'{RULES}: {name}', f'its runbook is not {GUIDE}#{name.lower()}')
            if name.lower() not in headings:
                self.report(GUIDE, f'has no section about {name}')
        for heading in re.findall(r'^#+ (Muster\w+)$', documents.read(self.root, GUIDE), re.MULTILINE):
            if heading not in alerts:
                self.report(GUIDE, f'has a section about {heading}, which is no alert')

    def check_tests_of_rules(self):
        text = documents.read(self.root, RULES_TEST)
        healthy, _, others = text.partition('\n\n')
        for kind, name, _ in rules(self.root):
            if kind != 'alert':
                continue
            if (name, ', exp_alerts: []') not in TESTED.findall(healthy):
                self.report(RULES_TEST, f'{name} is not looked at in the healthy cluster')
            if (name, '') not in TESTED.findall(others):
                self.report(RULES_TEST, f'{name} is seen to fire in no case')

    def check_promtool(self):
        if self.promtool is None:
            return
        for words in (['check', 'rules', RULES], ['test', 'rules', RULES_TEST]):
            done = subprocess.run([self.promtool, *words], cwd=self.root, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if done.returncode != 0:
                self.report(words[-1], f'promtool {" ".join(words[:2])}: {done.stdout.strip()}')


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(arguments[0]) if arguments else os.path.dirname(os.path.dirname(here))
    problems = Check(root, shutil.which('promtool')).run()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
