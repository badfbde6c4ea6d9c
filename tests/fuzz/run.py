#!/usr/bin/env python3
"""Runs the targets of libFuzzer that the preset `fuzz` has built (docs/testing.md).

usage: run.py --list
       run.py [--seconds S] [--keep] [NAME…]

Each target runs for S seconds, as many at a time as there are processors: first over the seeds that its own encoders make
and over its kept inputs (tests/fuzz/corpus/NAME), then over changes of these. It fails where libFuzzer finds something, or where it has not come to all that the target expects of a run
in S seconds of a processor: on a machine that has others to serve, it goes on for some times as long.
--keep: afterwards the kept inputs become the smallest ones found that reach what the seeds do not, beside those that people
have named: first what the target expects of every run, so that a run of any length comes to it, then 64 others at most.

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

# In MB: one allocation, and the whole process with what the sanitizer keeps. A coordinator may hold a job of 2^22 chunks,
# an image may have 2^25 pixels, and libhdf5 is refused what is too much.
USUAL_LIMITS = 64, 1024
LIMITS = {'data_hdf5': (1024, 2048), 'data_jpeg': (256, 2048), 'data_png': (256, 2048), 'data_tar': (256, 2048),
          'joins': (256, 2048), 'manifest_files': (256, 2048), 'manifests': (256, 2048)}
USUAL_LENGTH = 8192
LENGTHS = {'frames': 100_000, 'joins': 16384}  # texts above 64 KiB are refused in frames
ONE_INPUT_TAKES_AT_MOST = 25  # seconds
BESIDES_AT_MOST = 600  # seconds, for seeds, kept inputs and the end
ROUNDS_AT_MOST = 10  # while others have the processors
KEPT_INPUT_BYTES, KEPT_BYTES = 4096, 131072  # of one input, and of a target's together
KEPT_INPUTS = 64  # besides those that the floor needs

EXECUTED = re.compile(r'^stat::number_of_executed_units: *(\d+)', re.MULTILINE)
EDGES = re.compile(r'\bcov: (\d+)')
PROCESSOR = re.compile(r'^processor: ([0-9.]+) seconds$', re.MULTILINE)
REACHED = re.compile(r'^reached: (.*)$', re.MULTILINE)
FLOOR = re.compile(r'^reached: (\d+) of (\d+) (.*)$', re.MULTILINE)
MISSING = re.compile(r'^not reached: .*$', re.MULTILINE)
NAMED_BY_LIBFUZZER = re.compile(r'[0-9a-f]{40}')
BELOW_THE_FLOOR = 3  # exit status
LAST_LINES = 60


def targets():
    folder = os.path.join(BUILD, 'fuzz')
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name[len('fuzz_'):] for name in names if name.startswith('fuzz_'))


def environment(floor=False, names=False):
    # Containers that cross into Debian's libraries, built without the sanitizer, would be taken for overflown.
    options = {'ASAN_OPTIONS': 'detect_container_overflow=0:quarantine_size_mb=32'}
    asked = {'MUSTER_FUZZ_FLOOR': floor, 'MUSTER_FUZZ_NAMES': names}
    return {**os.environ, **options, **{name: '1' for name, is_asked in asked.items() if is_asked}}


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

    def call(self, arguments, seconds, **asked):
        """(exit status, what was said); None for the status if it took too long."""
        try:
            done = subprocess.run([self.program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors='replace', env=environment(**asked),
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

    def reach(self, *inputs):
        """({what is reached}, {what is missed of what is expected}, {kind: how many of it are expected})."""
        _, said = self.call(['-runs=0', *inputs] if os.path.isdir(inputs[0]) else inputs, BESIDES_AT_MOST, names=True)
        floors = {kind: int(floor) for _, floor, kind in FLOOR.findall(said)}
        names = {line for line in said.splitlines() if line.partition(': ')[0] in floors}
        missing = {f'{kind}: {line[len(start):]}' for line in MISSING.findall(said) for kind in floors
                   if line.startswith(start := f'not reached: {kind} ')}
        return names, missing, floors

    def for_the_floor(self, corpora, paths):
        """Those of paths that reach what the target expects of a run, and the corpora do not."""
        reached, missing, floors = self.reach(*corpora)
        chosen = []
        for path in paths:
            short = {kind for kind, floor in floors.items()
                     if sum(name.startswith(kind + ': ') for name in reached) < floor}
            if not missing and not short:
                break
            names = self.reach(path)[0]
            if any(name in missing or name.partition(': ')[0] in short for name in names - reached):
                chosen.append(path)
                reached |= names
                missing -= names
        return chosen

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
            new = sorted((os.path.join(merged, name) for name in os.listdir(merged) if NAMED_BY_LIBFUZZER.fullmatch(name)),
                         key=lambda path: (os.path.getsize(path), path))
            kept = folder_of(self.kept)
            for name in os.listdir(kept):
                if NAMED_BY_LIBFUZZER.fullmatch(name):  # what a person named stays
                    os.unlink(os.path.join(kept, name))
            first = self.for_the_floor([seeds, kept], new)
            room, count = KEPT_BYTES, 0
            for path in first + [path for path in new if path not in set(first)][:KEPT_INPUTS]:
                room -= os.path.getsize(path)
                if room < 0:
                    break
                shutil.copy(path, kept)
                count += 1
        if not os.listdir(kept):
            os.rmdir(kept)
        missing = sorted(self.reach(*([seeds, kept] if os.path.isdir(kept) else [seeds]))[1])
        print(f'{self.name}: {count} inputs are kept, {len(first)} of them for the floor'
              + ''.join(f'\nno input is found that reaches {name}' for name in missing))


def run_all(names, seconds):
    sound = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for ok, said in pool.map(lambda name: Target(name).run(seconds), names):
            sound += ok
            print(said, flush=True)
    print(f'{sound} of {len(names)} fuzz targets are sound')
    return sound == len(names)


def main(arguments):
    seconds, keep, names = 60, False, []
    rest = iter(arguments)
    for argument in rest:
        if argument == '--seconds':
            number = next(rest, '')
            if not number.isdecimal():
                sys.exit(f'{argument} needs a whole number')
            seconds = int(number)
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
    good = run_all(names, seconds)
    if keep:
        for name in names:
            Target(name).keep()
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
