#!/usr/bin/env python3
"""Each rule of documents.py finds what is planted against it, and says nothing where documents and code agree."""

import os
import tempfile
import unittest

import documents

CATALOG = '''inline constexpr MetricEntry kCatalog[] = {
    {"muster_steps_total", MetricKind::kCounter, "1", "", "Steps"},
    {"muster_wait_seconds", MetricKind::kGauge, "seconds", "phase",
     "Waiting, "
     "by phase"},
};
'''
TABLE = '''| metric | kind | unit | label | meaning |
|---|---|---|---|---|
| `muster_steps_total` | counter |  |  | Steps |
| `muster_wait_seconds` | gauge | seconds | `phase` | Waiting, by phase |
'''

CLEAN = {
    'README.md': '# Muster\n\n[how](docs/operations.md#output-for-programs), `lib/base/ids`, `lib/base`\n',
    'docs/glossary.md': '# Glossary\n\n| word | meaning |\n|---|---|\n| lane | a part |\n| view | who |\n',
    'docs/operations.md': '# Operations\n\n## Commands\n\n| c | d |\n|---|---|\n| `muster train SPEC` | `--dir` |\n'
                          '\n## Output for programs\n\n| event | when |\n|---|---|\n| `view` | v |\n| `recovery` | r |\n'
                          '| `done` | d |\n| `restart` | r |\n| `start` | s |\n| `fault` | f |\n\nAlso `--listen`.\n'
                          '\n## Fault plans\n\n| f | m |\n|---|---|\n| `at_step` | when |\n',
    'docs/metrics.md': '# Metrics\n\n' + TABLE,
    'docs/rest.md': '# REST\n\n## Requests\n\n| r | c |\n|---|---|\n| `POST /v1/jobs` | `Submit` |\n'
                    '| `GET /metrics`, `/healthz`, `/readyz` | |\n',
    'docs/testing.md': '# Testing\n\n## Failpoints\n\n| p | w |\n|---|---|\n| `forward` | w |\n',
    'docs/decisions/0001-first.md': '# 1. First\n\n[back](README.md)\n',
    'docs/decisions/README.md': '# Decisions\n\n1. [First](0001-first.md)\n\n```\n[no](link.md) and `lib/no/file.h`\n```\n',
    'lib/base/ids.h': '',
    'lib/base/failpoint.h': 'kFailpointNames[] = {\n "forward"};\n',
    'lib/metrics/catalog.h': CATALOG,
    'agent/runtime/fault_plan.cc': 'if (key == "at_step") {\n',
    'cli/arguments.cc': 'app.add_subcommand("train", "x"); command->add_option("--dir", x);\n',
    'cli/job_run.cc': 'Emit({{"event", "start"}}); ShowEvent("fault", text);\n',
    'coordinator/main.cc': 'app.add_option("--listen", x);\n',
    'coordinator/state/forming.cc': 'Say(after_loss ? "recovery" : "view", text);  // Say("nothing", "")\n'
                                    'Do(Announce{id, "done", reason});\n',
    'coordinator/runtime/event_log.cc': 'on_event(Notice("restart", text));\n',
    'coordinator/service/rest.cc': '{"POST", "/v1/jobs", with_api(Submit)}\n',
    'proto/muster/v1/control.proto': 'service Jobs {\n  rpc Submit(A) returns (B);\n}\n',
}


def problems(changes=None):
    """What is found in the clean tree with these files in place of, or beside, its own."""
    files = {**CLEAN, **(changes or {})}
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            whole = os.path.join(root, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(whole, 'w', encoding='utf-8') as f:
                f.write(text)
        return documents.Check(root).run()


class DocumentsTest(unittest.TestCase):
    def expect(self, part, files):
        found = problems(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(part, found[0])

    def appended(self, path, text):
        return {path: CLEAN[path] + text}

    def replaced(self, path, old, new):
        self.assertIn(old, CLEAN[path])
        return {path: CLEAN[path].replace(old, new)}

    def test_agreement_is_silent(self):
        self.assertEqual(problems(), [])

    def test_links(self):
        self.expect('there is no docs/none.md', self.appended('README.md', '[x](docs/none.md)\n'))
        self.expect('no such heading', self.appended('README.md', '[x](docs/operations.md#none)\n'))
        self.expect('no such heading', self.appended('docs/rest.md', '[x](#none)\n'))

    def test_named_files(self):
        self.expect('lib/none/file.h is named', self.appended('README.md', '`lib/none/file.h`\n'))

    def test_columns(self):
        long = 'word ' * 24 + 'end'
        self.expect('README.md:5: has 123 columns', self.appended('README.md', '\n' + long + '\n'))
        self.expect('README.md:5: has', self.appended('README.md', '\n' + long + ' [how](docs/operations.md)\n'))
        link = '- [' + long + '](docs/operations.md).\n'
        self.assertEqual(problems(self.appended('README.md', f'\n```\n{long}\n```\n\n| {long} |\n|---|\n\n    {long}\n{link}')), [])

    def test_named_places(self):
        document = {'docs/rules.md': '# Rules\n\n## 1. Words\n\n## 2. Steps\n\n### 2.1 First\n\n```\n## 9. None\n```\n'}
        self.assertEqual(problems({**document, 'lib/a.h': '// The words (docs/rules.md sections 1\n// and 2.1). See docs/rules.md.\n',
                                   'CMakeLists.txt': '# docs/rules.md section 2.\n'}), [])
        for planted in ('// See docs/rules.md\n// section 3.\n', '// docs/rules.md sections 1, 2 and 3\n', '// docs/rules.md sections 1 to 3.\n'):
            self.expect('lib/a.h: docs/rules.md section 3 is named', {**document, 'lib/a.h': planted})
        self.expect('docs/rules.md section 9 is named', {**document, 'cmake/a.cmake': '# docs/rules.md section 9\n'})
        self.expect('docs/rules.md section 4 is named', {**document, 'CMakeLists.txt': '# docs/rules.md section 4\n'})
        self.expect('docs/none.md is named', {'proto/a.proto': '// docs/none.md section 1\n'})
        self.expect('PROTOCOL is not a document here', {'lib/a.h': '// see PROTOCOL' '.md section 1\n'})

    def test_decisions(self):
        self.expect('number 0002 should come here', {'docs/decisions/0003-third.md': '# 3. Third\n'})
        self.expect('should begin with "# 1. "', {'docs/decisions/0001-first.md': '# First\n'})
        self.expect('does not list it', {'docs/decisions/0002-second.md': '# 2. Second\n'})

    def test_glossary(self):
        said = self.appended('README.md', 'A *view* says it. Two views, `lane`.\n\n```\nlanes\n```\n')
        self.assertEqual(problems(said), [])
        self.expect('uses "lane" before it says', self.appended('README.md', 'Lanes are parts. A *lane* is one.\n'))
        picture = '\n## The picture\n\n```\nLanes ──▶\n```\n'
        self.expect('its picture uses "lane" before it says', self.appended('README.md', picture + 'A *lane* is one.\n'))
        self.assertEqual(problems(self.appended('README.md', 'A *lane* is one.\n' + picture)), [])
        self.expect('says what "chunk" is', self.appended('README.md', 'A *chunk* is small.\n'))
        self.expect('not in order', self.replaced('docs/glossary.md', '| lane | a part |\n| view | who |', '| view | who |\n| lane | a part |'))

    def test_commands(self):
        self.expect('command up is not described', self.appended('cli/arguments.cc', 'add_subcommand("up", "x");\n'))
        self.expect('command go is described', self.replaced('docs/operations.md', '| `--dir` |\n', '| `--dir` |\n| `muster go` | x |\n'))

    def test_options(self):
        self.expect('option --json is not described', self.appended('cli/arguments.cc', 'c->add_flag("--json", x);\n'))
        self.expect('option --none is described', self.appended('docs/operations.md', 'Give `--none`.\n'))

    def test_events(self):
        self.expect('event checkpoint is not described',
                    self.appended('coordinator/state/forming.cc', 'Say("checkpoint", text);\n'))
        self.expect('event result is not described', self.appended('cli/job_run.cc', 'Json({{"event", "result"}})\n'))
        self.expect('event none is described', self.replaced('docs/operations.md', '| `done` | d |', '| `done`, `none` | d |'))

    def test_metrics(self):
        self.expect('is not that of lib/metrics/catalog.h', self.replaced('lib/metrics/catalog.h', 'Steps"', 'Steps done"'))

    def test_requests(self):
        self.expect('request GET /v1/jobs is not described',
                    self.appended('coordinator/service/rest.cc', '{"GET", "/v1/jobs", x}\n'))
        self.expect('call List is not described', self.appended('proto/muster/v1/control.proto', '  rpc List(A) returns (B);\n'))

    def test_fault_plans(self):
        self.expect('field of a fault plan kill is not described',
                    self.appended('agent/runtime/fault_plan.cc', '} else if (key == "kill") {\n'))

    def test_failpoints(self):
        self.expect('failpoint donor is not described',
                    self.replaced('lib/base/failpoint.h', '"forward"', '"forward", "donor"'))


if __name__ == '__main__':
    unittest.main()
