#!/usr/bin/env python3
"""Figures of a whole cluster on this machine, from the events and metrics that any user sees.

    ./dev bench cluster                     all figures
    ./dev bench cluster steps recovery      some of them
    ./dev bench cluster --rounds 5 --json   more rounds; one JSON object per figure

steps       seconds of a step of the transformer of examples/transformer.yaml: two workers beside
            one, and with free order of sums beside canonical; exposed communication, bytes copied
            per byte sent
finite      seconds of a step of the same with one server, which under `on_nan: stop` applies
            nothing before all sums are known to be finite, and under `continue` each chunk at once
recovery    seconds from SIGKILL of a worker to the next complete step, and from the start of a
            killed coordinator's next process until it is ready
checkpoint  seconds that training stands still for one checkpoint of examples/code-lm.yaml

Variants of a figure alternate, round by round, so that a change of the machine's load meets all.
Minimum, median and maximum over the rounds are printed. Nothing else should run meanwhile.
"""
import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_UP = 2  # steps that are not counted


class Run:
    """`muster train` of a spec: its events with the time they came."""

    def __init__(self, muster, spec, options=(), faults=None):
        self.folder = tempfile.TemporaryDirectory(prefix='muster-bench-')
        command = [muster, 'train', str(ROOT / spec), '--json', '--dir', self.folder.name + '/job', *options]
        if faults:
            plan = pathlib.Path(self.folder.name) / 'faults.yaml'
            plan.write_text(faults)
            command += ['--faults', str(plan)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def events(self):
        for line in self.process.stdout:
            yield time.monotonic(), json.loads(line)
        error = self.process.stderr.read()
        if self.process.wait() != 0:
            sys.exit(f'a job failed: {error}')
        self.folder.cleanup()

    def members(self):
        """The metrics of each member: values by name, or by name and phase."""
        targets = json.loads((pathlib.Path(self.folder.name) / 'job/prometheus-targets.json').read_text())
        for target in targets:
            for address in target['targets']:
                try:
                    with urllib.request.urlopen(f'http://{address}/metrics', timeout=2) as answer:
                        text = answer.read().decode()
                except OSError:
                    continue
                series = {}
                for name, labels, value in re.findall(r'^(muster_\w+)(?:{(.*)})? ([0-9.e+-]+)$', text, re.M):
                    phase = re.search('phase="(\\w+)"', labels)
                    series[f'{name} {phase[1]}' if phase else name] = float(value)
                if 'muster_steps_total' in series:
                    yield series


def total(members, name):
    return sum(value for m in members for series, value in m.items() if series == name)


def measure_steps(muster, options):
    """Seconds of a step after the warm-up, and what the members' metrics say of the same steps."""
    run = Run(muster, 'examples/transformer.yaml', options)
    times, first, last = [], [], []
    for now, event in run.events():
        if event['event'] != 'step':
            continue
        times.append(now)
        if len(times) == WARM_UP:
            first = list(run.members())
        elif len(times) > WARM_UP:
            last = list(run.members()) or last
    steps = len(times) - WARM_UP
    grown = lambda name: total(last, name) - total(first, name)
    exposed = grown('muster_step_phase_seconds_total exposed_communication')
    counted = grown('muster_steps_total')
    sent = grown('muster_bytes_sent_total')
    return {
        'step': (times[-1] - times[WARM_UP - 1]) / steps,
        'exposed': exposed / counted if counted else 0,
        'copied': grown('muster_bytes_copied_total') / sent if sent else 0,
    }


def measure_variants(muster, rounds, variants):
    found = {name: [] for name in variants}
    for _ in range(rounds):
        for name, options in variants.items():
            found[name].append(measure_steps(muster, [*options, '--set', 'steps=10']))
    return found


def ratio_of_steps(found, a, b):
    return [x['step'] / y['step'] for x, y in zip(found[a], found[b])]


def steps(muster, rounds):
    found = measure_variants(muster, rounds, {
        'one worker': ['--workers', '1'],
        'two workers': ['--workers', '2'],
        'two workers, free order': ['--workers', '2', '--set', 'order=free'],
    })
    for name, runs in found.items():
        yield f'transformer step, {name}', 's', [r['step'] for r in runs]
        yield f'  exposed communication per step and worker, {name}', 's', [r['exposed'] for r in runs]
        if name != 'one worker':
            yield f'  bytes copied per byte sent, {name}', '', [r['copied'] for r in runs]
    yield 'transformer step, one worker / two', '', ratio_of_steps(found, 'one worker', 'two workers')
    yield ('transformer step, canonical / free order', '',
           ratio_of_steps(found, 'two workers', 'two workers, free order'))


def finite(muster, rounds):
    served = ['--workers', '2', '--set', 'sync=server', '--set', 'servers=1']
    found = measure_variants(muster, rounds, {
        'on_nan: stop': [*served, '--set', 'on_nan=stop'],
        'on_nan: continue': [*served, '--set', 'on_nan=continue'],
    })
    for name, runs in found.items():
        yield f'transformer step with a server, {name}', 's', [r['step'] for r in runs]
    yield ('transformer step with a server, stop / continue', '',
           ratio_of_steps(found, 'on_nan: stop', 'on_nan: continue'))


def next_step_after_kill(muster):
    run = Run(muster, 'examples/code-lm.yaml', ['--set', 'steps=24'],
              'faults: [{at_step: 10, kill: worker-2}]')
    killed = recovered = None
    steps_after = []
    for now, event in run.events():
        if event['event'] == 'fault' and killed is None:
            killed = now
        elif event['event'] == 'recovery':
            recovered = now
        elif event['event'] == 'step' and recovered:
            steps_after.append(now)
    return recovered - killed, steps_after[0] - killed


def ready(url):
    try:
        with urllib.request.urlopen(url + '/readyz', timeout=1):
            return True
    except OSError:
        return False


def coordinator_ready(muster):
    run = Run(muster, 'examples/code-lm.yaml', ['--set', 'steps=30'],
              'faults: [{at_step: 8, kill: coordinator, for_steps: 2}]')
    url, starts, seconds = None, 0, None
    for now, event in run.events():
        url = event.get('url', url)
        if event['event'] != 'process_start' or event.get('process') != 'coordinator':
            continue
        starts += 1
        while starts == 2 and seconds is None and time.monotonic() - now < 30:
            if ready(url):
                seconds = time.monotonic() - now
            else:
                time.sleep(0.002)
    return seconds


def recovery(muster, rounds):
    kills = [next_step_after_kill(muster) for _ in range(rounds)]
    yield 'SIGKILL of a worker to the next view', 's', [k[0] for k in kills]
    yield 'SIGKILL of a worker to the next complete step', 's', [k[1] for k in kills]
    yield 'start of a coordinator until it is ready', 's', [coordinator_ready(muster) for _ in range(rounds)]


def checkpoint(muster, rounds):
    stalls = []
    for _ in range(rounds):
        run = Run(muster, 'examples/code-lm.yaml', ['--set', 'steps=30', '--set', 'checkpoint.every_steps=5'])
        members = []
        for _, event in run.events():
            if event['event'] == 'step':
                members = list(run.members()) or members
        name = 'muster_checkpoint_stall_seconds'
        stalls.append(total(members, name + '_sum') / max(1, total(members, name + '_count')))
    yield 'stall of a worker for one checkpoint of code-lm', 's', stalls


def main():
    figures = {'steps': steps, 'finite': finite, 'recovery': recovery, 'checkpoint': checkpoint}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('figure', nargs='*', help=', '.join(figures))
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--muster', default=str(ROOT / 'build/release/bin/muster'))
    parser.add_argument('--json', action='store_true')
    options = parser.parse_args()
    unknown = sorted(set(options.figure) - set(figures))
    if unknown or options.rounds < 1:
        parser.error(f'no figure {unknown[0]!r}; there are {", ".join(figures)}' if unknown else '--rounds: at least 1')
    for name in options.figure or figures:
        for what, unit, values in figures[name](options.muster, options.rounds):
            low, middle, high = min(values), statistics.median(values), max(values)
            if options.json:
                print(json.dumps({'figure': what, 'unit': unit, 'values': values}), flush=True)
            else:
                print(f'{what:62} {middle:9.4f} {unit:2} [{low:.4f}, {high:.4f}]', flush=True)


if __name__ == '__main__':
    main()
