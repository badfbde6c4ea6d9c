#!/usr/bin/env python3
"""Runs the targets of libFuzzer that the preset `fuzz` has built (docs/testing.md).

usage: run.py --list
       run.py [--seconds S | --in-all S] [--keep] [NAME…]

Each target runs for S seconds (--in-all: all together as many seconds of the clock), as many at a time as there are
processors: first over the seeds that its own encoders make and over its kept inputs (tests/fuzz/corpus/NAME), then over
changes of these. It fails where libFuzzer finds something, or where it has not come to all that the target expects of a run
in S seconds of a processor: on a machine that has others to serve, it goes on for some times as long.
--keep: afterwards the kept inputs become the smallest ones found that reach what the seeds do not, 64 of a target at most,
beside those that people have named.

What is found lies in build/fuzz/findings; new inputs are gathered in build/fuzz/found. Exit status 1 if a target failed.
"""

import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, 'build', 'fuzz')
KEPT = os.path.join(ROOT, 'tests', 'fuzz', 'corpus')

# In MB: one allocation, and the whole process with what the sanitizer keeps. A coordinator may hold a job of 2^22 chunks.
USUAL_LIMITS = 64, 1024
LIMITS = {'joins': (256, 2048), 'manifests': (256, 2048)}
USUAL_LENGTH = 8192
LENGTHS = {'frames': 100_000, 'joins': 16384}  # texts above 64 KiB are refused in frames
ONE_INPUT_TAKES_AT_MOST = 25  # seconds
BESIDES_AT_MOST = 600  # seconds, for seeds, kept inputs and the end
ROUNDS_AT_MOST = 10  # while others have the processors
KEPT_INPUT_BYTES, KEPT_BYTES, KEPT_INPUTS = 4096, 65536, 64  # of one input, and of a target's together

EXECUTED = re.compile(r'^stat::number_of_executed_units: *(\d+)', re.MULTILINE)
EDGES = re.compile(r'\bcov: (\d+)')
PROCESSOR = re.compile(r'^processor: ([0-9.]+) seconds$', re.MULTILINE)
REACHED = re.compile(r'^reached: (.*)$', re.MULTILINE)
MISSING = re.compile(r'^not reached: .*$', re.MULTILINE)
NAMED_BY_LIBFUZZER = re.compile(r'[0-9a-f]{40}')
BELOW_THE_FLOOR = 3  # exit status
LAST_LINES = 60


def targets():
    folder = os.path.join(BUILD, 'fuzz')
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[len('fuzz_'):] for name in names if name.startswith('fuzz_'))


def environment(floor):
    # Containers that cross into Debian's libraries, built without the sanitizer, would be taken for overflown.
    options = {'ASAN_OPTIONS': 'detect_container_overflow=0:quarantine_size_mb=32'}
    return {**os.environ, **options, **({'MUSTER_FUZZ_FLOOR': '1'} if floor else {})}


def made_anew(*path):
    folder = os.path.join(BUILD, *path)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


def folder_of(*path):
    folder = os.path.join(*path)
    os.makedirs(folder, exist_ok=True)
    return folder


class Target:

    def __init__(self, name):
        self.name = name
        self.program = os.path.join(BUILD, 'fuzz', 'fuzz_' + name)
        self.kept = os.path.join(KEPT, name)

    def call(self, arguments, seconds, floor=False):
        """(exit status, what was said); None for the status if it took too long."""
        try:
            done = subprocess.run([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors='replace', env=environment(floor),
                                  timeout=seconds)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            return None, (late.stdout or b'').decode(errors='replace')

    def seeds(self):
        folder = made_anew('seeds', self.name)
        status, said = self.call(['--seeds=' + folder], BESIDES_AT_MOST)
        return folder if status == 0 else sys.exit(f'{self.name} makes no seeds:\n{said}')

    def run(self, seconds):
        """(whether it is sound, what to print)."""
        malloc, rss = LIMITS.get(self.name, USUAL_LIMITS)
        findings = folder_of(BUILD, 'findings')
        corpora = [folder_of(BUILD, 'found', self.name), self.seeds(), *([self.kept] if os.path.isdir(self.kept) else [])]
        left = float(seconds)
        for _ in range(ROUNDS_AT_MOST):
            status, said = self.call(
                [f'-max_total_time={seconds}', f'-malloc_limit_mb={malloc}', f'-rss_limit_mb={rss}',
                 f'-max_len={LENGTHS.get(self.name, USUAL_LENGTH)}', f'-timeout={ONE_INPUT_TAKES_AT_MOST}',
                 f'-artifact_prefix={findings}/{self.name}-', '-print_final_stats=1', '-reload=0', *corpora],
                seconds + BESIDES_AT_MOST, floor=True)
            had = PROCESSOR.findall(said)
            left -= float(had[-1]) if had else left
            if status != BELOW_THE_FLOOR or left <= 0:
                break  # what was found so far is read again by the next round
        return status == 0, self.report(status, said)

    def report(self, status, said):
        executed = EXECUTED.findall(said)
        edges = EDGES.findall(said)
        line = (f'{self.name}: {executed[-1] if executed else "?"} executions, {edges[-1] if edges else "?"} edges; '
                + ', '.join(REACHED.findall(said)))
        if status == 0:
            return line
        if status == BELOW_THE_FLOOR:
            return '\n'.join([line, *MISSING.findall(said), f'{self.name}: below the floor'])
        why = 'it took too long' if status is None else f'exit status {status}'
        last = '\n'.join(said.splitlines()[-LAST_LINES:])
        return f'{last}\n{line}\n{self.name}: a finding ({why}); it lies in build/fuzz/findings'

    def keep(self):
        """Of what was found and was kept, the smallest that reach more than the seeds."""
        seeds = self.seeds()
        with tempfile.TemporaryDirectory() as scratch:
            merged, small = folder_of(scratch, 'merged'), folder_of(scratch, 'small')
            for name in os.listdir(seeds):
                shutil.copy(os.path.join(seeds, name), merged)
            for source in (os.path.join(BUILD, 'found', self.name), self.kept):
                for name in os.listdir(source) if os.path.isdir(source) else []:
                    path = os.path.join(source, name)
                    if os.path.getsize(path) <= KEPT_INPUT_BYTES:
                        shutil.copy(path, small)
            status, said = self.call(['-merge=1', f'-max_len={KEPT_INPUT_BYTES}', merged, small], 3600)
            if status != 0:
                sys.exit(f'{self.name} cannot be merged:\n{said[-4000:]}')
            new = sorted((os.path.getsize(os.path.join(merged, name)), name)
                         for name in os.listdir(merged) if NAMED_BY_LIBFUZZER.fullmatch(name))
            for name in os.listdir(self.kept) if os.path.isdir(self.kept) else []:
                if NAMED_BY_LIBFUZZER.fullmatch(name):  # what a person named stays
                    os.unlink(os.path.join(self.kept, name))
            room, count = KEPT_BYTES, 0
            for size, name in new[:KEPT_INPUTS]:
                room -= size
                if room < 0:
                    break
                shutil.copy(os.path.join(merged, name), os.path.join(folder_of(self.kept), name))
                count += 1
        print(f'{self.name}: {count} inputs are kept')


def run_all(names, seconds):
    sound = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for ok, said in pool.map(lambda name: Target(name).run(seconds), names):
            sound += ok
            print(said, flush=True)
    print(f'{sound} of {len(names)} fuzz targets are sound')
    return sound == len(names)


def main(arguments):
    seconds, in_all, keep, names = 60, None, False, []
    rest = iter(arguments)
    for argument in rest:
        if argument in ('--seconds', '--in-all'):
            number = next(rest, '')
            if not number.isdecimal():
                sys.exit(f'{argument} needs a whole number')
            seconds, in_all = (int(number), None) if argument == '--seconds' else (0, int(number))
        elif argument == '--keep':
            keep = True
        elif argument == '--list':
            print('\n'.join(targets()))
            return 0
        else:
            names.append(argument)
    known = targets()
    unknown = [name for name in names if name not in known]
    if unknown or not known:
        sys.exit(f'there is no target {unknown[0]!r}; there are: {", ".join(known)}' if unknown else
                 'there are no targets; ./dev fuzz builds them')
    names = names or known
    if in_all is not None:
        seconds = max(1, in_all * min(os.cpu_count(), len(names)) // len(names))
    good = run_all(names, seconds)
    if keep:
        for name in names:
            Target(name).keep()
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
