#!/usr/bin/env python3
"""How near the memory that `muster check` tells is to what workers and servers take.

    python3 bench/check_memory.py                  all jobs: the five examples, and a wide model in several ways
    python3 bench/check_memory.py --jobs wide-server code-lm
                                                   some of them
    python3 bench/check_memory.py --width 64       with a wide model that is none, to see that it works
    python3 bench/check_memory.py --steps 40       more steps
    python3 bench/check_memory.py --build FOLDER   programs and plug-ins of another build than build/dev
    python3 bench/check_memory.py --json FILE      and a machine-readable record

Each example is checked, and trained with one worker, with checkpoints as its job has them. Most of what it takes is
LibTorch. So there is a model of linear layers, too, whose parameters and slots have 530 MB: as `wide-allreduce`, with a
server as `wide-server`, and with batch norm over all lanes as `wide-sync-batch-norm`, each with one worker and two. It
is also trained with layers of eight elements, which is an empty LibTorch process as good as: what is told of the wide
one beyond that of the empty one, ÷ what it takes beyond that, shows a term that is wrong. It needs 6 GB of memory and
2 GB of disk.

What a process takes is the most of its resident memory, as the kernel keeps it (VmHWM); it is looked at until the
process ends. Of several workers the largest counts. How much memory the machine has to spare, or what else runs there,
plays no part.
"""
import argparse
import csv
import dataclasses
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading

from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BETWEEN_LOOKS = 0.005
COLUMNS, CLASSES, ROWS = 64, 10, 512  # of what the wide model learns from
EMPTY_WIDTH = 8


@dataclasses.dataclass
class Job:
    """What is checked and trained. `empty`: the same of a model that has next to nothing."""
    name: str
    spec: pathlib.Path
    words: list
    empty: pathlib.Path = None


def examples(folder, build, plugins, steps):
    own = ROOT / 'examples'
    jobs = {'mlp': (own / 'plugin/mlp.yaml', [f'data.paths=[{own}/plugin/rows.csv]'], None),
            'resnet': (own / 'resnet/resnet.yaml', [f'data.paths=[{folder}/images]'], 'images'),
            'translate': (own / 'translate/translate.yaml', [f'data.paths=[{folder}/train.tsv]'], 'train.tsv'),
            'code-lm': (own / 'code-lm/code-lm.yaml', [], None),
            'transformer': (own / 'transformer/transformer.yaml', [], None)}
    for name, (spec, settings, data) in jobs.items():
        def make(name=name, spec=spec, settings=settings, data=data):
            if data:
                subprocess.run([sys.executable, own / name / 'make_data.py', folder / data], check=True)
            words = ['--plugins', plugins or build / f'tests/plugins/example_{name}', '--workers', '1']
            for setting in settings:
                words += ['--set', setting]
            return Job(name, shortened(spec, steps, folder), words)
        yield name, make


def shortened(spec, steps, folder):
    """The same job of so many steps."""
    lines = [line for line in spec.read_text().splitlines() if not line.startswith(('epochs:', 'steps:'))]
    short = folder / spec.name
    short.write_text('\n'.join([*lines, f'steps: {steps}', '']))
    return short


def write_rows(path):
    chance = random.Random(1)
    with open(path, 'w', encoding='ascii', newline='') as out:
        rows = csv.writer(out)
        rows.writerow([*(f'x{i}' for i in range(COLUMNS)), 'y'])
        rows.writerows([*(f'{chance.gauss(0, 1):.4f}' for _ in range(COLUMNS)), i % CLASSES] for i in range(ROWS))


def wide_spec(width, steps, norm, settings, rows):
    """With a width of 4096 it has 44 million parameters."""
    layers = []
    for size in (width, width, width, max(EMPTY_WIDTH, width * 5 // 8)):
        layers += [{'linear': size}, *(['batch_norm'] if norm else []), 'relu']
    return json.dumps({
        'name': 'wide', 'task': 'layers', 'parameters': {'layers': [*layers, {'linear': CLASSES}]},
        'data': {'paths': [str(rows)], 'format': 'csv', 'label': 'y', 'classes': ['y']},
        'batch': 64, 'lanes': 4, 'steps': steps, 'optimizer': {'kind': 'adam', 'learning_rate': 0.0001},
        'checkpoint': {'every_steps': max(1, steps // 3), 'keep': 1}, **settings})


def wide_jobs(folder, width, steps):
    ways = {'wide-allreduce': (False, {}),
            'wide-server': (False, {'sync': 'server', 'servers': 1}),
            'wide-sync-batch-norm': (True, {'sync_batch_norm': True})}
    for name, (norm, settings) in ways.items():
        for workers in (1, 2):
            def make(name=name, norm=norm, settings=settings, workers=workers):
                rows = folder / 'rows.csv'
                write_rows(rows)
                specs = []
                for kind, size in (('wide', width), ('empty', EMPTY_WIDTH)):
                    specs.append(folder / f'{name}-{workers}-{kind}.yaml')  # JSON is YAML
                    specs[-1].write_text(wide_spec(size, steps, norm, settings, rows))
                return Job(f'{name}, {workers} worker{"s" if workers > 1 else ""}', specs[0],
                           ['--workers', str(workers)], specs[1])
            yield name, make


def told(muster, spec, words):
    command = [muster, 'check', spec, '--json', *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        sys.exit(f'muster check {spec}: {answer.stdout}{answer.stderr}')
    return json.loads(answer.stdout)['memory']


class Peak(threading.Thread):
    """Follows the most memory that a process had, until it ends."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status, self.bytes = pathlib.Path(f'/proc/{pid}/status'), 0
        self.over = threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(BETWEEN_LOOKS):
            try:
                text = self.status.read_text()
            except OSError:
                return
            for line in text.splitlines():
                if line.startswith('VmHWM:'):
                    self.bytes = max(self.bytes, int(line.split()[1]) * 1024)


def taken(muster, spec, words):
    """The most bytes of a worker, and of a server where there is one."""
    peaks = []
    with tempfile.TemporaryDirectory(prefix='check-memory-run-') as folder:
        command = [muster, 'train', spec, '--json', '--dir', folder + '/job', *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as train:
            for line in train.stdout:
                event = json.loads(line)
                if event.get('event') == 'process_start':
                    peaks.append((event['process'].rpartition('-')[0], Peak(event['pid'])))
    most = {}
    for role, peak in peaks:
        peak.over.set()
        peak.join()
        most[role] = max(most.get(role, 0), peak.bytes)
    if train.returncode != 0 or not most.get('worker'):
        sys.exit(f'muster train {spec} ended with {train.returncode}')
    return most


def compare(report, name, says, takes):
    """Of each kind of process: what was told, what it took, and the ratio, round by round."""
    for role in ('worker', 'server'):
        if role not in says[0]:
            continue
        mine, theirs = [s[role] for s in says], [t[role] for t in takes]
        report.add(f'{name}: {role} told', 'MB', [told / 1e6 for told in mine])
        report.add(f'{name}: {role} taken', 'MB', [peak / 1e6 for peak in theirs])
        report.add(f'{name}: {role} told ÷ taken', '', [told / peak for told, peak in zip(mine, theirs)])


def measure(report, rounds, muster, job):
    """Rounds of the job and of its empty twin alternate."""
    kinds = {'': job.spec, ', empty': job.empty}
    says, takes = {kind: [] for kind in kinds}, {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind, spec in kinds.items():
            if spec:
                says[kind].append(told(muster, spec, job.words))
                takes[kind].append(taken(muster, spec, job.words))
    for kind, spec in kinds.items():
        if not spec:
            continue
        compare(report, job.name + kind, says[kind], takes[kind])
        parts = {part: statistics.median(m[part] for m in says[kind]) / 1e6
                 for part in says[kind][0] if part not in ('worker', 'server')}
        print('   ' + ', '.join(f'{part} {size:.1f}' for part, size in parts.items()), flush=True)
        report.record.setdefault('parts', {})[job.name + kind] = parts
    if job.empty:
        beyond(report, job.name, says, takes)


def beyond(report, name, says, takes):
    for role in ('worker', 'server'):
        if role not in says[''][0]:
            continue
        more = lambda of: [(a[role] - b[role]) / 1e6 for a, b in zip(of[''], of[', empty'])]
        mine, theirs = more(says), more(takes)
        if min(theirs) <= 0:
            print(f'{name}: {role}: the model is too small to be seen beside LibTorch', flush=True)
            continue
        report.add(f'{name}: {role} told beyond an empty one', 'MB', mine)
        report.add(f'{name}: {role} taken beyond an empty one', 'MB', theirs)
        report.add(f'{name}: {role} told ÷ taken, beyond an empty one', '', [a / b for a, b in zip(mine, theirs)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/dev')
    parser.add_argument('--plugins', type=pathlib.Path, help='folder of the examples (default: of the build)')
    parser.add_argument('--jobs', nargs='+', metavar='JOB', help='only these')
    parser.add_argument('--width', type=int, default=4096, help='of the wide model (default: 4096)')
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--json', metavar='FILE')
    given = parser.parse_args()
    build = given.build.resolve()
    with tempfile.TemporaryDirectory(prefix='check-memory-') as scratch:
        folder = pathlib.Path(scratch)
        jobs = [*examples(folder, build, given.plugins, given.steps), *wide_jobs(folder, given.width, given.steps)]
        unknown = sorted(set(given.jobs or []) - {name for name, _ in jobs})
        if unknown or given.rounds < 1 or given.steps < 1 or given.width < EMPTY_WIDTH:
            parser.error(f'no job {unknown[0]!r}; there are {", ".join(dict(jobs))}' if unknown else
                         f'--rounds and --steps: at least 1; --width: at least {EMPTY_WIDTH}')
        report = Report(given.rounds)
        for name, make in jobs:
            if not given.jobs or name in given.jobs:
                measure(report, given.rounds, build / 'bin/muster', make())
    report.write(given.json)


if __name__ == '__main__':
    main()
