#!/usr/bin/env python3
"""Tells of a run of ctest which tests failed and why, in a few lines each, for the end of a long log.

usage: what_failed.py FOLDER     FOLDER: where ctest ran

Of each test that failed: its name, the lines from its first failed check on, and its last ones.
"""

import os
import re
import sys

FROM_FIRST_CHECK = 12  # lines
LAST = 8
TESTS_AT_MOST = 10  # more than these share a cause
START = re.compile(r'^\d+/\d+ Test: (.+)$')
CHECK = re.compile(r'^.+:\d+: Failure$|^unknown file: Failure$|==\d+==ERROR: |WARNING: ThreadSanitizer|Traceback')


def outputs(lines):
    """The lines that each test of ctest's log has said, by the test's name."""
    name, said, inside = None, {}, False
    for line in lines:
        start = START.match(line)
        if start:
            name, inside = start.group(1), False
            said[name] = []
        elif name and line == 'Output:':
            inside = True
        elif line == '<end of output>':
            inside = False
        elif inside and line.strip() and not line.startswith('----------'):
            said[name].append(line)
    return said


def told(output):
    """The lines worth reading."""
    first = next((i for i, line in enumerate(output) if CHECK.search(line)), None)
    last = output[-LAST:]
    if first is None:
        return last
    check = output[first:first + FROM_FIRST_CHECK]
    rest = output[max(first + FROM_FIRST_CHECK, len(output) - LAST):]
    return check + (['…'] if rest else []) + rest


def report(failed, said):
    """The lines to print about the tests named in `failed`."""
    text = []
    for name in failed[:TESTS_AT_MOST]:
        text.append(f'* {name}')
        text += [f'    {line[:300]}' for line in told(said.get(name) or ['(It said nothing, or did not start.)'])]
    return text + [f'* {name}' for name in failed[TESTS_AT_MOST:]]


def lines_of(path):
    with open(path, encoding='utf-8', errors='replace') as f:
        return f.read().splitlines()


def main():
    logs = os.path.join(sys.argv[1], 'Testing', 'Temporary')
    failed = [line.split(':', 1)[-1] for line in lines_of(os.path.join(logs, 'LastTestsFailed.log'))]
    print('\n'.join(report(failed, outputs(lines_of(os.path.join(logs, 'LastTest.log'))))))


if __name__ == '__main__':
    main()
