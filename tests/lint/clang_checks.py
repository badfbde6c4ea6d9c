#!/usr/bin/env python3
"""Lets clang look at sources that GCC builds, and remembers what it found good.

usage: clang_checks.py threads BUILD [ROOT]
           clang's thread-safety analysis, of every source that can touch a field guarded by a mutex
       clang_checks.py tidy BUILD [--changed] [--seconds N] [ROOT]
           clang-tidy with the checks of .clang-tidy, of every source; --changed: only of those that this branch, or on
           main the last commit, changed; --seconds: starts no further source after so long, and says how many remain

BUILD is a configured build folder, whose compile_commands.json tells how each source is compiled. What was found good is
remembered in ~/.cache/muster/clang by the content of the source, of all our headers it includes and of the command, so
that it is looked at once, in whichever clone. Exit status 1 if something was found.
"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import time

CLANG, TIDY = 'clang++-14', 'clang-tidy-14'
MUTEX = 'lib/base/mutex.h'
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
ONE_SOURCE_TAKES_AT_MOST = 300  # seconds
FORGOTTEN_AFTER = 60 * 24 * 3600  # seconds without use


class Sources:
    """The sources of a tree and how a build folder compiles them."""

    def __init__(self, root, build):
        self.root = os.path.abspath(root)
        self.build = os.path.abspath(build)
        self.texts = {}
        self.commands = {}
        with open(os.path.join(self.build, 'compile_commands.json'), encoding='utf-8') as f:
            for entry in json.load(f):
                path = os.path.relpath(entry['file'], self.root)
                if not path.startswith(('..', 'build/')):
                    self.commands[path] = entry

    def text(self, path):
        if path not in self.texts:
            try:
                with open(os.path.join(self.root, path), encoding='utf-8') as f:
                    self.texts[path] = f.read()
            except FileNotFoundError:  # generated, or of a library
                self.texts[path] = ''
        return self.texts[path]

    def includes(self, path):
        return INCLUDE.findall(self.text(path))

    def reached(self, path):
        """The source and every header of ours below it."""
        seen, waiting = set(), [path]
        while waiting:
            here = waiting.pop()
            if here not in seen and self.text(here):
                seen.add(here)
                waiting += self.includes(here)
        return sorted(seen)

    def touches_guarded(self, path):
        """Whether a guarded field can be touched in this source: such a field stands in a file that includes the mutex,
        is private to its class or room, and so is used by sources that include this very file."""
        direct = self.includes(path)
        return MUTEX in direct or any(MUTEX in self.includes(header) for header in direct)

    def arguments(self, path):
        """The compiler's arguments: no compiler, no output."""
        words = shlex.split(self.commands[path]['command'])[1:]
        at = words.index('-o')
        return [w for w in words[:at] + words[at + 2:] if w != '-c']

    def analysis(self, path):
        return [CLANG, '-fsyntax-only', *self.arguments(path)]

    def tidying(self, path):
        return [TIDY, '--quiet', '-p', self.build, os.path.join(self.root, path)]

    def digest(self, path, command, common):
        hashed = hashlib.sha256(common)
        for part in [*command, *self.arguments(path), *(t for p in self.reached(path) for t in (p, self.text(p)))]:
            hashed.update(part.replace(self.build, '@build').replace(self.root, '@').encode() + b'\0')
        return hashed.hexdigest()


class Memory:
    """What was found good: one empty file each, named by the digest."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        for entry in os.scandir(folder):
            if entry.stat().st_mtime < time.time() - FORGOTTEN_AFTER:
                os.unlink(entry.path)

    def knows(self, digest):
        try:
            os.utime(os.path.join(self.folder, digest))
            return True
        except FileNotFoundError:
            return False

    def remember(self, digest):
        with open(os.path.join(self.folder, digest), 'w', encoding='utf-8'):
            pass


def look(command, folder):
    """What a command says against a source; empty if it has nothing to say."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=ONE_SOURCE_TAKES_AT_MOST)
    except subprocess.TimeoutExpired:
        return f'{shlex.join(command)}: took more than {ONE_SOURCE_TAKES_AT_MOST} s\n'
    return '' if done.returncode == 0 else done.stdout + done.stderr


def check(sources, paths, make_command, common, memory, seconds=None):
    """Prints what is found; returns (sources found bad, looked at, not looked at for want of time)."""
    ends = None if seconds is None else time.monotonic() + seconds
    digests = {path: sources.digest(path, make_command(path), common) for path in paths}
    new = [path for path in paths if not memory.knows(digests[path])]

    def one(path):
        if ends is not None and time.monotonic() > ends:
            return path, None
        return path, look(make_command(path), sources.build)

    bad = late = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, said in pool.map(one, new):
            if said is None:
                late += 1
            elif said:
                bad += 1
                print(said, end='', flush=True)
            else:
                memory.remember(digests[path])
    return bad, len(new) - late, late


def git(root, *arguments):
    done = subprocess.run(['git', '-C', root, *arguments], capture_output=True, text=True)
    return done.stdout.split('\n') if done.returncode == 0 else []


def changed_files(root):
    """What this branch changed since it left main, with what is not committed. On main itself, as in the clone of
    continuous integration, what the last commit changed. No history, as in a shallow clone: nothing."""
    base = next((b[0] for b in (git(root, 'merge-base', 'HEAD', main) for main in ('origin/main', 'main')) if b), None)
    if base is None or base == git(root, 'rev-parse', 'HEAD')[0]:
        base = 'HEAD~1'
    files = set(git(root, 'diff', '--name-only', base)) | set(git(root, 'ls-files', '--others', '--exclude-standard'))
    return files - {''}


def concerned(sources, files):
    """The sources among the files, and for a header the source of its name, or else one that includes it."""
    chosen = {f for f in files if f in sources.commands}
    for header in (f for f in files if f.endswith('.h')):
        users = sorted(p for p in sources.commands if header in sources.includes(p))
        twin = header[:-2] + '.cc'
        if twin in users:
            chosen.add(twin)
        elif users and not chosen.intersection(users):
            chosen.add(users[0])
    return sorted(chosen)


def common_to_all(root, tool, files):
    """What every result depends on: the version of the tool, and these files."""
    hashed = hashlib.sha256(subprocess.run([tool, '--version'], capture_output=True, check=True).stdout)
    for path in files:
        with open(os.path.join(root, path), 'rb') as f:
            hashed.update(f.read())
    return hashed.digest()


def protos(root):
    return sorted(f for f in git(root, 'ls-files', 'proto') if f.endswith('.proto'))


def main(arguments):
    here = os.path.dirname(os.path.abspath(__file__))
    root, seconds, only_changed, words = os.path.dirname(os.path.dirname(here)), None, False, []
    remaining = iter(arguments)
    for word in remaining:
        if word == '--changed':
            only_changed = True
        elif word == '--seconds':
            seconds = float(next(remaining))
        else:
            words.append(word)
    kind, build, *roots = words
    root = roots[0] if roots else root
    sources = Sources(root, build)
    memory = Memory(os.path.expanduser(f'~/.cache/muster/clang/{kind}'))
    if kind == 'threads':
        paths = sorted(p for p in sources.commands if sources.touches_guarded(p))
        common = common_to_all(root, CLANG, protos(root))
        bad, looked, late = check(sources, paths, sources.analysis, common, memory, seconds)
    else:
        paths = concerned(sources, changed_files(root)) if only_changed else sorted(sources.commands)
        common = common_to_all(root, TIDY, ['.clang-tidy', *protos(root)])
        bad, looked, late = check(sources, paths, sources.tidying, common, memory, seconds)
    print(f'{len(paths)} sources, {looked} looked at now' + (f', {late} left for the next time' if late else ''))
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
