#!/usr/bin/env python3
"""Plants bugs one at a time in a copy of the tree and sees that the tests find them (docs/testing.md).

usage: run.py [--always] [NAME…]    all patches of this folder; those marked "Always: yes"; or those named

A planted bug is a file NAME.patch: comment lines, then a diff as git makes it. The comments that are read:
    # Find: TARGET           the test program, which must build in the preset dev
    # Test: SUITE.NAME       the gtest filter that passes without the patch and fails with it
    # Invariant: WORDS       what the failing test must say
    # Always: yes            a part of every ./dev test

The copy is a tree of its own with its own build folder, kept between runs in build/mutants. Files are copied when their
content differs, so that ninja and ccache build only what a patch touches. Exit status 1 if a bug was not found, 2 if a patch
does not apply or build, or its test does not pass without it.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time

BUILD_TAKES_AT_MOST = 3600  # seconds; the first one builds what the test program needs
TEST_TAKES_AT_MOST = 600
APPLY_TAKES_AT_MOST = 60
HEADER = re.compile(r'^# (Find|Test|Invariant|Always): *(.+?) *$', re.MULTILINE)
RAN_NONE = re.compile(r'^\[==========\] Running 0 tests', re.MULTILINE)
SEED = re.compile(r'\bseed (\d+)')
LAST_LINES = 40  # of what a command that fails has said


class Broken(Exception):
    """The patch, or the tree without it, is not as it must be: neither found nor survived."""


class Mutant:

    def __init__(self, path):
        self.path = path
        self.name = os.path.basename(path)[:-len('.patch')]
        with open(path, encoding='utf-8') as f:
            text = f.read()
        head = dict(HEADER.findall(text.split('\n--- ', 1)[0]))
        missing = [word for word in ('Find', 'Test', 'Invariant') if word not in head]
        if missing:
            raise Broken(f'{self.name}: the patch has no line "# {missing[0]}: …"')
        self.program, self.test, self.invariant = head['Find'], head['Test'], head['Invariant']
        self.always = head.get('Always') == 'yes'


def said(output):
    return '\n'.join(output.splitlines()[-LAST_LINES:])


def run(command, seconds, **options):
    """(exit status, all that was said); None for the status if it took too long."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors='replace', start_new_session=True, **options)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # with all that it started: it leads a session of its own
        output, _ = process.communicate()
        return None, output


def tracked(root):
    """What git knows or would take up, and is there."""
    listing = subprocess.run(['git', '-C', root, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                             capture_output=True, text=True, check=True).stdout
    return sorted(f for f in set(listing.split('\0')) if f and os.path.isfile(os.path.join(root, f)))


def same(a, b):
    if not os.path.isfile(b) or os.path.getsize(a) != os.path.getsize(b):
        return False
    with open(a, 'rb') as first, open(b, 'rb') as second:
        return first.read() == second.read()


class Copy:
    """The tree that the bugs are planted in."""

    def __init__(self, root, folder):
        self.root, self.tree = root, os.path.join(folder, 'tree')
        os.makedirs(self.tree, exist_ok=True)

    def synchronise(self):
        """Makes the copy equal to the tree; a file that changes gets the time of now, as ninja needs it."""
        files = tracked(self.root)
        for path in files:
            source, target = os.path.join(self.root, path), os.path.join(self.tree, path)
            if not same(source, target):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copyfile(source, target)
                shutil.copymode(source, target)
        self.remove_all_but(set(files))

    def remove_all_but(self, files):
        for folder, folders, names in os.walk(self.tree):
            if folder == self.tree and 'build' in folders:
                folders.remove('build')
            for name in names:
                path = os.path.join(folder, name)
                if os.path.relpath(path, self.tree) not in files:
                    os.unlink(path)

    def apply(self, mutant, *options):
        # The copy lies below the repository, which git must not find: it would take the paths for the repository's.
        environment = {**os.environ, 'GIT_CEILING_DIRECTORIES': os.path.dirname(os.path.realpath(self.tree))}
        status, output = run(['git', 'apply', *options, mutant.path], APPLY_TAKES_AT_MOST, cwd=self.tree, env=environment)
        if status != 0:
            raise Broken(f'{mutant.name}: the patch does not apply any more; make it anew\n{said(output)}')


def build_with_cmake(tree, program):
    """As in a clone of the tree with the preset dev, so that they share the objects that ccache keeps."""
    environment = {**os.environ, 'CCACHE_BASEDIR': tree, 'CCACHE_NOHASHDIR': '1'}
    folder = os.path.join(tree, 'build', 'dev')
    if not os.path.exists(os.path.join(folder, 'build.ninja')):
        status, output = run(['cmake', '--preset', 'dev'], BUILD_TAKES_AT_MOST, cwd=tree, env=environment)
        if status != 0:
            return status, output
    return run(['ninja', '-C', folder, f'-j{os.cpu_count()}', program], BUILD_TAKES_AT_MOST, env=environment)


class Runner:

    def __init__(self, root, folder, build=build_with_cmake):
        self.copy = Copy(root, folder)
        self.build = build
        self.passes = set()  # (program, test) seen to pass without a patch

    def test(self, mutant):
        """(exit status, all that was said) of the named test."""
        program = os.path.join(self.copy.tree, 'build', 'dev', 'tests', mutant.program)
        return run([program, f'--gtest_filter={mutant.test}'], TEST_TAKES_AT_MOST, cwd=self.copy.tree)

    def must_build(self, mutant, how):
        status, output = self.build(self.copy.tree, mutant.program)
        if status != 0:
            raise Broken(f'{mutant.name}: {mutant.program} does not build {how} the patch\n{said(output)}')

    def must_pass(self, mutant):
        if (mutant.program, mutant.test) in self.passes:
            return
        self.must_build(mutant, 'without')
        status, output = self.test(mutant)
        if status != 0:
            raise Broken(f'{mutant.name}: {mutant.test} of {mutant.program} does not pass without the patch\n{said(output)}')
        if RAN_NONE.search(output):
            raise Broken(f'{mutant.name}: {mutant.program} has no test {mutant.test}')
        self.passes.add((mutant.program, mutant.test))

    def plant(self, mutant):
        """(outcome, seed) of one bug; the copy is whole again afterwards."""
        self.copy.synchronise()
        self.must_pass(mutant)
        try:
            self.copy.apply(mutant)
            self.must_build(mutant, 'with')
            status, output = self.test(mutant)
        finally:
            self.copy.synchronise()
        if status is None:
            return f'NOT FOUND: the test took more than {TEST_TAKES_AT_MOST} s', ''
        if status == 0:
            return 'NOT FOUND: the test passes', ''
        if mutant.invariant not in output:
            return f'NOT FOUND: the test fails and does not say so\n{said(output)}', ''
        seed = SEED.search(output)
        return 'found', seed.group(1) if seed else ''

    def run(self, mutants, show=print):
        """Plants all, and returns (found, not found, broken)."""
        self.copy.synchronise()
        counts = {'found': 0, 'survived': 0, 'broken': 0}
        applies = []
        for mutant in mutants:
            try:
                self.copy.apply(mutant, '--check')
                applies.append(mutant)
            except Broken as broken:
                counts['broken'] += 1
                show(str(broken))
        for mutant in sorted(applies, key=lambda m: (m.program, m.name)):
            begin = time.monotonic()
            try:
                outcome, seed = self.plant(mutant)
                counts['found' if outcome == 'found' else 'survived'] += 1
            except Broken as broken:
                counts['broken'] += 1
                show(str(broken))
                continue
            place = f'{mutant.program} {mutant.test}' + (f', seed {seed}' if seed else '')
            show(f'{mutant.name:28} {place:60} "{mutant.invariant}" {time.monotonic() - begin:4.0f} s  {outcome}')
        return counts['found'], counts['survived'], counts['broken']


def choose(folder, names, only_always):
    """The mutants asked for; Broken where there is none of a name."""
    there = {name[:-len('.patch')]: os.path.join(folder, name) for name in os.listdir(folder) if name.endswith('.patch')}
    unknown = [name for name in names if name not in there]
    if unknown:
        raise Broken(f'there is no planted bug {unknown[0]}; there are: {", ".join(sorted(there))}')
    mutants = [Mutant(there[name]) for name in (names or sorted(there))]
    return [m for m in mutants if m.always or not only_always]


def main(arguments):
    here = os.path.dirname(os.path.realpath(__file__))
    root = os.path.dirname(os.path.dirname(here))
    folder = os.path.join(root, 'build', 'mutants')
    try:
        mutants = choose(here, [a for a in arguments if a != '--always'], '--always' in arguments)
    except Broken as broken:
        print(broken)
        return 2
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found, survived, broken = Runner(root, folder).run(mutants, lambda line: print(line, flush=True))
    print(f'{found} of {len(mutants)} planted bugs found')
    return 2 if broken else 1 if survived else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
