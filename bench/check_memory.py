#!/usr/bin/env python3
"""How near the memory that `muster check` tells is to what a worker takes.

    python3 bench/check_memory.py                  the five examples, a job of one worker each
    python3 bench/check_memory.py --steps 40       more steps
    python3 bench/check_memory.py --build FOLDER   programs and plug-ins of another build than build/dev
    python3 bench/check_memory.py --json FILE      and a machine-readable record

Each example is checked, and trained with one worker, with checkpoints as its job has them. What a worker takes is the
most of its resident memory, as the kernel keeps it (VmHWM); it is looked at until the worker ends. How much memory the
machine has to spare, or what else runs there, plays no part.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading

from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
BETWEEN_LOOKS = 0.005


def examples(folder):
    """By name: the job's file, what is set in it, and whether it is a plug-in."""
    own = ROOT / 'examples'
    subprocess.run([sys.executable, own / 'resnet/make_data.py', folder / 'images'], check=True)
    subprocess.run([sys.executable, own / 'translate/make_data.py', folder / 'train.tsv'], check=True)
    return {'mlp': (own / 'plugin/mlp.yaml', [f'data.paths=[{own}/plugin/rows.csv]']),
            'resnet': (own / 'resnet/resnet.yaml', [f'data.paths=[{folder}/images]']),
            'translate': (own / 'translate/translate.yaml', [f'data.paths=[{folder}/train.tsv]']),
            'code-lm': (own / 'code-lm/code-lm.yaml', []),
            'transformer': (own / 'transformer/transformer.yaml', [])}


def words_of(settings):
    return [word for setting in settings for word in ('--set', setting)]


def shortened(spec, steps, folder):
    """The same job of so many steps."""
    lines = [line for line in spec.read_text().splitlines() if not line.startswith(('epochs:', 'steps:'))]
    short = folder / spec.name
    short.write_text('\n'.join([*lines, f'steps: {steps}', '']))
    return short


def told(muster, spec, settings, plugins):
    command = [muster, 'check', spec, '--plugins', plugins, '--workers', '1', '--json', *words_of(settings)]
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


def taken(muster, spec, settings, plugins, folder):
    command = [muster, 'train', spec, '--plugins', plugins, '--workers', '1', '--json', '--dir', folder,
               *words_of(settings)]
    peak = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as train:
        for line in train.stdout:
            event = json.loads(line)
            if event.get('event') == 'process_start' and event.get('process') == 'worker-0':
                peak = Peak(event['pid'])
    if train.returncode != 0 or peak is None:
        sys.exit(f'muster train {spec} ended with {train.returncode}')
    peak.over.set()
    peak.join()
    return peak.bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build/dev')
    parser.add_argument('--plugins', type=pathlib.Path, help='folder of the examples (default: of the build)')
    parser.add_argument('--examples', nargs='+', help='only these')
    parser.add_argument('--rounds', type=int, default=1)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--json', metavar='FILE')
    given = parser.parse_args()
    muster = given.build.resolve() / 'bin/muster'
    report = Report(given.rounds)
    with tempfile.TemporaryDirectory(prefix='check-memory-') as name:
        folder = pathlib.Path(name)
        for example, (spec, settings) in examples(folder).items():
            if given.examples and example not in given.examples:
                continue
            plugins = given.plugins or given.build.resolve() / f'tests/plugins/example_{example}'
            spec = shortened(spec, given.steps, folder)
            says, takes = [], []
            for turn in range(given.rounds):
                says.append(told(muster, spec, settings, plugins))
                takes.append(taken(muster, spec, settings, plugins, folder / f'{example}-{turn}'))
            report.add(f'{example}: told', 'MB', [memory['worker'] / 1e6 for memory in says])
            report.add(f'{example}: taken', 'MB', [peak / 1e6 for peak in takes])
            report.add(f'{example}: told ÷ taken', '', [m['worker'] / peak for m, peak in zip(says, takes)])
            parts = {part: statistics.median(m[part] for m in says) / 1e6 for part in says[0] if part != 'worker'}
            print('   ' + ', '.join(f'{part} {size:.1f}' for part, size in parts.items()), flush=True)
    report.write(given.json)


if __name__ == '__main__':
    main()
