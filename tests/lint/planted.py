#!/usr/bin/env python3
"""Looks at the planted bugs of tests/mutants without building anything.

usage: planted.py [ROOT]    prints one line per fault, exit status 1 if there is any

Each patch applies, the test that its head names exists, and the words that the failing test must say stand in that test. For
the simulator only the patch is looked at: what it says of a run is put together from values. That each bug is found is seen by
./dev mutants, which takes much longer.
"""

import glob
import os
import re
import subprocess
import sys

PATCHES, TESTS = 'tests/mutants/*.patch', 'tests/**/*.cc'
HEADER = re.compile(r'^# (Find|Test|Invariant): *(.+?) *$', re.MULTILINE)
SIMULATOR = 'sim_test'
TEST_HEAD = r'\bTEST(?:_F|_P)?\(\s*%s,\s*%s\s*\)'
APPLY_TAKES_AT_MOST = 60  # seconds


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def flowing(text):
    """The text with every run of blanks as one, as gtest prints an expression that stands on several lines."""
    return re.sub(r'\s+', ' ', text)


def bodies(sources, test):
    """Of the tests that the gtest filter SUITE.NAME means: what stands between the head and the closing brace."""
    suite, name = test.split('.', 1)
    # PREFIX/SUITE.NAME/PARAMETER is a test with a parameter.
    suite, name = (re.escape(part).replace(r'\*', r'\w*') for part in (suite.split('/')[-1], name.split('/')[0]))
    head = re.compile(TEST_HEAD % (suite, name))
    for text in sources:
        for match in head.finditer(text):
            end = text.find('\n}\n', match.end())
            yield flowing(text[match.end():end])


def why_not_applied(root, path):
    """What git says against the patch; empty: it applies."""
    # Where the tree is no repository of its own, one around it must not be found: its paths are others.
    environment = {**os.environ, 'GIT_CEILING_DIRECTORIES': os.path.dirname(os.path.realpath(root))}
    applied = subprocess.run(['git', 'apply', '--check', os.path.abspath(path)], cwd=root, env=environment, capture_output=True,
                             text=True, timeout=APPLY_TAKES_AT_MOST)
    return '' if applied.returncode == 0 else ' '.join(applied.stderr.split()) or 'git apply fails'


def fault_in_head(text, sources):
    """What is wrong with the comments above the diff; empty: nothing."""
    head = dict(HEADER.findall(text.split('\n--- ', 1)[0]))
    missing = [word for word in ('Find', 'Test', 'Invariant') if word not in head]
    if missing:
        return f'the patch has no line "# {missing[0]}: …"'
    if head['Find'] == SIMULATOR:
        return ''
    found = list(bodies(sources, head['Test']))
    if not found:
        return f'there is no test {head["Test"]}'
    if not any(flowing(head['Invariant']) in body for body in found):
        return f'{head["Test"]} does not say "{head["Invariant"]}"; take words that stand in it'
    return ''


def problems(root):
    sources = [read(path) for path in sorted(glob.glob(os.path.join(root, TESTS), recursive=True))]
    for path in sorted(glob.glob(os.path.join(root, PATCHES))):
        name = os.path.relpath(path, root)
        refusal = why_not_applied(root, path)
        if refusal:
            yield f'{name}: planted-bug: does not apply any more; make it anew ({refusal})'
        fault = fault_in_head(read(path), sources)
        if fault:
            yield f'{name}: planted-bug: {fault}'


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    found = list(problems(arguments[0] if arguments else os.path.dirname(os.path.dirname(here))))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
