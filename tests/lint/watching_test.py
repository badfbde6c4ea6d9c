#!/usr/bin/env python3
"""Each rule of watching.py finds what is planted against it in a copy of what it looks at, and nothing in the copy itself."""

import os
import shutil
import tempfile
import unittest

import watching

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LOOKED_AT = ('deploy/grafana', 'deploy/prometheus', 'deploy/k8s/components', 'lib/metrics', 'docs/watching.md')
SOURCE, RULES, TESTS = 'deploy/grafana/dashboards.py', watching.RULES, watching.RULES_TEST
JOB = 'deploy/k8s/components/grafana/muster-job.json'

# What is planted: a file, a text in it, what takes its place; and words of what is found.
PLANTED = {
    'a dashboard that is not what it is made of': (JOB, '"title": "Muster: job"', '"title": "Job"', 'not what it is made of'),
    'rules that are not wrapped anew': (RULES, 'for: 2m', 'for: 3m', 'not what it is made of'),
    'a metric that is none': (JOB, 'muster_job_step{', 'muster_job_steps{', 'muster_job_steps is no metric'),
    'a label that a metric has not': (JOB, 'muster_job_loss{job=', 'muster_job_loss{phase=', 'has no label phase'),
    'a metric of somebody else': (JOB, 'muster_job_loss{', 'node_load1{', 'node_load1 is no metric of ours'),
    'a panel that says nothing': (JOB, '"description": "Part of all its steps."', '"description": ""', 'needs a unit'),
    'a panel over another one': (JOB, '"x": 4,', '"x": 3,', 'lies over another panel'),
    'a link to nowhere': (JOB, '/d/muster-member?', '/d/muster-members?', 'muster-members, which is no dashboard'),
    'a rule on a metric that is none': (RULES, 'expr: muster_journal_writable', 'expr: muster_journal_writeable',
                                        'muster_journal_writeable is no metric'),
    'an alert that names no runbook': (RULES, '      runbook: docs/watching.md#musterrewind\n', '', 'its runbook is not'),
    'an alert without a section': ('docs/watching.md', '### MusterRewind', '### Rewinds', 'no section about MusterRewind'),
    'a section without an alert': ('docs/watching.md', '## 5.', '### MusterNothing\n\n## 5.', 'MusterNothing, which is no alert'),
    'an alert that says nothing': (RULES, '      summary: No coordinator answers\n', '', 'has no summary'),
    'an alert without severity': (RULES, '{severity: critical}', '{}', 'needs a severity'),
    'an alert that is not seen to fire': (TESTS, 'alertname: MusterRewind\n', 'alertname: MusterStraggler\n',
                                          'MusterRewind is seen to fire in no case'),
    'an alert that is not seen to be silent': (TESTS, 'alertname: MusterRewind, exp_alerts: []}',
                                               'alertname: MusterStraggler, exp_alerts: []}',
                                               'MusterRewind is not looked at in the healthy cluster'),
    'a rule that no regular expression reads': (RULES, '  - alert: MusterRewind\n', '  - alert:  MusterRewind\n',
                                                'is written otherwise'),
}
PROMTOOL = {
    'a rule that Prometheus does not read': (RULES, 'expr: muster_journal_writable == 0', 'expr: muster_journal_writable ==',
                                             'promtool check rules'),
    'an alert that never fires': (RULES, 'expr: muster_journal_writable == 0', 'expr: muster_journal_writable == 2',
                                  'promtool test rules'),
    'an alert that fires in a healthy cluster': (RULES, 'expr: muster_hosts{state="away"} > 0\n    for: 10m',
                                                 'expr: muster_hosts{state="away"} > 0\n    for: 2m',
                                                 'promtool test rules'),
}


class WatchingTest(unittest.TestCase):
    def problems(self, path=None, before='', after='', promtool=None):
        with tempfile.TemporaryDirectory() as root:
            for each in LOOKED_AT:
                copy = shutil.copytree if os.path.isdir(f'{ROOT}/{each}') else shutil.copy
                os.makedirs(os.path.dirname(f'{root}/{each}'), exist_ok=True)
                copy(f'{ROOT}/{each}', f'{root}/{each}')
            if path is not None:
                with open(f'{root}/{path}', encoding='utf-8') as f:
                    text = f.read()
                self.assertIn(before, text)
                with open(f'{root}/{path}', 'w', encoding='utf-8') as f:
                    f.write(text.replace(before, after, 1))
            return watching.Check(root, promtool).run()

    def test_nothing_is_found_in_what_is_there(self):
        self.assertEqual(self.problems(), [])

    def test_what_is_planted_is_found(self):
        promtool = shutil.which('promtool')
        for what, (path, before, after, words) in {**PLANTED, **(PROMTOOL if promtool else {})}.items():
            with self.subTest(what):
                found = self.problems(path, before, after, promtool if what in PROMTOOL else None)
                self.assertIn(words, '\n'.join(found))


if __name__ == '__main__':
    unittest.main()
