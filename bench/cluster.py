#!/usr/bin/env python3
"""Figures of a whole cluster on this machine, from the events and metrics that any user sees.

    ./dev bench cluster                     all figures
    ./dev bench cluster steps recovery      some of them
    ./dev bench cluster --rounds 5 --json FILE
                                            more rounds; and a machine-readable record
    ./dev bench cluster --small             with models of which a step takes no time, to see that it works

steps       seconds of a step of the transformer of examples/transformer.yaml: two workers beside
            one, and with free order of sums beside canonical; exposed communication, bytes copied
            per byte sent
input       what a step waits for its samples, in seconds of a worker's train thread and in % of its
            steps, as the metrics of the job split them: of the transformer, whose data is made in
            memory, and of examples/code-lm.yaml, which reads text; on one worker and on two
finite      seconds of a step of the transformer with one server, which under `on_nan: stop` applies
            nothing before all sums are known to be finite, and under `continue` each chunk at once
tls         the same with certificates and without: two workers of one host of a cluster; and the
            processor time of both workers for a step. Plain text is spoken by programs of their own
            (bench/plaintext)
recovery    seconds from SIGKILL of a worker to the next complete step, and from the start of a
            killed coordinator's next process until it is ready
checkpoint  seconds that training stands still for one checkpoint of examples/code-lm.yaml
validation  what it costs a step of that on one worker that its model is measured every ten steps with
            a copy of a thousandth of its data: by the worker itself, or by a follower, which needs a
            processor of its own; its checkpoints are part of its cost
metrics     what it costs a step of the transformer on one worker that the metrics of all members are
            read every second, which is fifteen times as often as Prometheus does by default: in turns
            of five steps of one job, beside the turns before them in which nobody reads

Variants of a figure alternate, round by round, so that a change of the machine's load meets all.
Nothing else should run meanwhile.
"""
import argparse
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from local_cluster import Cluster
from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
WARM_UP = 2  # steps that are not counted
PHASES = ('input', 'compute', 'validation', 'exposed_communication', 'update')  # into which steps are split
TRANSFORMER, CODE_LM = 'examples/transformer.yaml', 'examples/code-lm.yaml'
HEADERS = pathlib.Path('/usr/include/c++')  # what the latter reads
SMALL = {
    TRANSFORMER: ['parameters.width=16', 'parameters.heads=2', 'parameters.encoder_layers=1',
                  'parameters.decoder_layers=1', 'parameters.feedforward=32', 'parameters.target_length=4'],
    CODE_LM: ['parameters.layers=1', 'parameters.width=16', 'parameters.heads=2', 'parameters.context=32'],
}
SMALL_STEPS = 20  # that take no longer than one of the examples


def length(options, steps):
    """So many steps of the examples, or as many of a small model as take about as long."""
    return steps * SMALL_STEPS if options.small else steps


def model(options, spec):
    """What is set in its job."""
    return SMALL[spec] if options.small else []


def needed(value, what):
    """Ends the benchmark where it did not happen."""
    if value is None:
        sys.exit(f'this did not happen: {what}')
    return value


class Run:
    """`muster train` of a spec: its events with the time they came."""

    def __init__(self, options, spec, steps, words=(), faults=None):
        self.folder = tempfile.TemporaryDirectory(prefix='muster-bench-')
        command = [options.muster, 'train', str(ROOT / spec), '--json', '--dir', self.folder.name + '/job', *words]
        for setting in [f'steps={length(options, steps)}', *model(options, spec)]:
            command += ['--set', setting]
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

    def trust(self):
        """Whom to expect at REST: its coordinator, whose certificate names the address, too."""
        return ssl.create_default_context(cafile=self.folder.name + '/job/store/identity/current/authority.pem')

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


def measure_steps(options, words, spec=TRANSFORMER, steps_of_run=10):
    """Seconds of a step after the warm-up, and what the members' metrics say of the same steps."""
    run = Run(options, spec, steps_of_run, words)
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
    waited = grown('muster_step_phase_seconds_total input')
    split = sum(grown(f'muster_step_phase_seconds_total {phase}') for phase in PHASES)
    return {
        'step': (times[-1] - times[WARM_UP - 1]) / steps,
        'exposed': exposed / counted if counted else 0,
        'input': waited / counted if counted else 0,
        'share of input': waited / split if split else None,
        'copied': grown('muster_bytes_copied_total') / sent if sent else 0,
    }


def measure_variants(options, variants):
    found = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, words in variants.items():
            found[name].append(measure_steps(options, words))
    return found


def ratio_of_steps(found, a, b):
    return [x['step'] / y['step'] for x, y in zip(found[a], found[b])]


def steps(options):
    found = measure_variants(options, {
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


def input_wait(options):
    variants = {f'{job}, {workers} worker{"s" if workers > 1 else ""}': (spec, steps_of_run, workers)
                for job, spec, steps_of_run in (('transformer', TRANSFORMER, 10), ('code-lm', CODE_LM, 30))
                for workers in (1, 2)}
    found = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, (spec, steps_of_run, workers) in variants.items():
            measured = measure_steps(options, ['--workers', str(workers)], spec, steps_of_run)
            needed(measured['share of input'], f'the metrics of {name} tell how its steps are split')
            found[name].append(measured)
    for name, runs in found.items():
        yield f'{name}: input of a step and worker', 's', [r['input'] for r in runs]
        yield f'  {name}: input', '%', [100 * r['share of input'] for r in runs]


def finite(options):
    served = ['--workers', '2', '--set', 'sync=server', '--set', 'servers=1']
    found = measure_variants(options, {
        'on_nan: stop': [*served, '--set', 'on_nan=stop'],
        'on_nan: continue': [*served, '--set', 'on_nan=continue'],
    })
    for name, runs in found.items():
        yield f'transformer step with a server, {name}', 's', [r['step'] for r in runs]
    yield ('transformer step with a server, stop / continue', '',
           ratio_of_steps(found, 'on_nan: stop', 'on_nan: continue'))


def processor_seconds(pids):
    seconds = 0
    for pid in pids:
        # The second field, the program's name, may hold blanks; it ends at the last parenthesis.
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')
    return seconds


def children(pid):
    return pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()


def measure_steps_of_cluster(options, certificates, steps=10):
    """Seconds of a step after the warm-up, and processor seconds of both workers. The job has no end: its workers live
    when they are looked at."""
    endless = ['workers={min: 2, max: 2}', 'steps=1000000', *model(options, TRANSFORMER)]
    with Cluster(pathlib.Path(options.muster).parent, ['a'], slots=2, tls=certificates) as cluster:
        with cluster.submit('job', ROOT / TRANSFORMER, *endless) as watch:
            begin, first = watch.step('the warm-up', lambda event: event['step'] >= WARM_UP - 1)
            workers = children(cluster.agents['a'].pid)
            cpu = processor_seconds(workers)
            until = first['step'] + length(options, steps)
            end, last = watch.step('the last step', lambda event: event['step'] >= until)
            taken = last['step'] - first['step']
            return {'step': (end - begin) / taken, 'cpu': (processor_seconds(workers) - cpu) / taken}


def tls(options):
    variants = {'with certificates': True, 'in plain text': False}
    found = {name: [] for name in variants}
    for _ in range(options.rounds):
        for name, certificates in variants.items():
            found[name].append(measure_steps_of_cluster(options, certificates))
    for name, runs in found.items():
        yield f'transformer step, two workers {name}', 's', [r['step'] for r in runs]
        yield f'  processor time of both workers for it, {name}', 's', [r['cpu'] for r in runs]
    for what, field in (('transformer step', 'step'), ('  processor time of both workers for it', 'cpu')):
        yield (f'{what}, with certificates / in plain text', '',
               [x[field] / y[field] for x, y in zip(*found.values())])


def next_step_after_kill(options):
    run = Run(options, CODE_LM, 24, faults='faults: [{at_step: 10, kill: worker-2}]')
    killed = recovered = step = None
    for now, event in run.events():
        if event['event'] == 'fault' and killed is None:
            killed = now
        elif event['event'] == 'recovery':
            recovered = now
        elif event['event'] == 'step' and recovered and step is None:
            step = now
    needed(step, 'a step after a worker was killed')
    return recovered - killed, step - killed


def ready(url, trust):
    try:
        with urllib.request.urlopen(url + '/readyz', timeout=1, context=trust):
            return True
    except OSError:
        return False


def coordinator_ready(options):
    run = Run(options, CODE_LM, 30, faults='faults: [{at_step: 8, kill: coordinator, for_steps: 2}]')
    url, starts, seconds = None, 0, None
    for now, event in run.events():
        url = event.get('url', url)
        if event['event'] != 'process_start' or event.get('process') != 'coordinator':
            continue
        starts += 1
        trust = run.trust()
        while starts == 2 and seconds is None and time.monotonic() - now < 30:
            if ready(url, trust):
                seconds = time.monotonic() - now
            else:
                time.sleep(0.002)
    return needed(seconds, 'a killed coordinator is ready again within 30 s')


def recovery(options):
    kills = [next_step_after_kill(options) for _ in range(options.rounds)]
    yield 'SIGKILL of a worker to the next view', 's', [k[0] for k in kills]
    yield 'SIGKILL of a worker to the next complete step', 's', [k[1] for k in kills]
    yield 'start of a coordinator until it is ready', 's', [coordinator_ready(options) for _ in range(options.rounds)]


def checkpoint(options):
    stalls = []
    for _ in range(options.rounds):
        run = Run(options, CODE_LM, 30, ['--set', 'checkpoint.every_steps=5'])
        members = []
        for _, event in run.events():
            if event['event'] == 'step':
                members = list(run.members()) or members
        name = 'muster_checkpoint_stall_seconds'
        count = total(members, name + '_count')
        needed(count or None, 'a member tells how long a checkpoint held it up')
        stalls.append(total(members, name + '_sum') / count)
    yield 'stall of a worker for one checkpoint of code-lm', 's', stalls


def measure_windows(options, words, cadence):
    """Seconds of a step, over five whole times from one measured state to the next. Steps before that are not counted:
    what a follower measures first it may still be getting ready for. No checkpoint is written but for a follower."""
    run = Run(options, CODE_LM, 70, ['--workers', '1', '--set', 'checkpoint.every_steps=0',
                                     '--set', 'checkpoint.every_seconds=0', *words])
    times = {event['step']: now for now, event in run.events() if event['event'] == 'step'}
    last = max(times, default=0)
    begin = needed(times.get(last - 5 * cadence), 'a job tells of each of its steps')
    return (times[last] - begin) / (5 * cadence)


def write_some_headers(file):
    """A thousandth of what is trained with, from the first header on."""
    headers = sorted(path for path in HEADERS.rglob('*') if path.is_file())
    left = sum(path.stat().st_size for path in headers) // 1000
    needed(left or None, f'{HEADERS} has headers')
    with file.open('wb') as out:
        for path in headers:
            left -= out.write(path.read_bytes()[:left])
            if left == 0:
                return


def validation(options):
    cadence = length(options, 10)
    with tempfile.TemporaryDirectory(prefix='muster-bench-') as folder:
        text = pathlib.Path(folder) / 'text'
        write_some_headers(text)
        # What a job without validation reads is the same: the text is only measured with.
        measured = ['--set', f'validation.every_steps={cadence}', '--set', f'validation.paths=[{text}]']
        variants = {
            'without validation': [],
            'on: workers': measured,
            'on: follower': [*measured, '--set', 'validation.on=follower', '--set', f'validation.delay={cadence}'],
        }
        found = {name: [] for name in variants}
        for _ in range(options.rounds):
            for name, words in variants.items():
                found[name].append(measure_windows(options, words, cadence))
    without = found.pop('without validation')
    yield 'code-lm step, without validation', 's', without
    for name, runs in found.items():
        yield f'code-lm step, validation {name}', 's', runs
        yield f'  validation {name} costs of a step', '%', [100 * (a / b - 1) for a, b in zip(runs, without)]


def measure_turns_of_reads(options, turns=8):
    """Seconds of a step, in turns: while nobody reads the metrics of the members, and while they are read every
    second."""
    steps_of_turn = length(options, 5)
    run = Run(options, TRANSFORMER, WARM_UP + 5 * turns, ['--workers', '1'])
    over, reading = threading.Event(), threading.Event()
    reads = 0

    def read():
        nonlocal reads
        while not over.wait(0.01 if options.small else 1):
            if reading.is_set():
                reads += len(list(run.members()))

    reader = threading.Thread(target=read)
    reader.start()
    begins = []
    try:
        done = 0
        for now, event in run.events():
            if event['event'] != 'step':
                continue
            done += 1
            if done >= WARM_UP and (done - WARM_UP) % steps_of_turn == 0:
                begins.append(now)
                (reading.set if len(begins) % 2 == 0 else reading.clear)()
    finally:
        over.set()
        reader.join()
    needed(reads or None, 'the metrics of a member are read')
    turn = [(end - begin) / steps_of_turn for begin, end in zip(begins, begins[1:])]
    return list(zip(turn[0::2], turn[1::2]))


def metrics(options):
    turns = [pair for _ in range(options.rounds) for pair in measure_turns_of_reads(options)]
    yield 'transformer step, nobody reads metrics', 's', [unread for unread, _ in turns]
    yield ('  metrics that are read every second cost of a step', '%',
           [100 * (read / unread - 1) for unread, read in turns])


def main():
    figures = {'steps': steps, 'input': input_wait, 'finite': finite, 'tls': tls, 'recovery': recovery,
               'checkpoint': checkpoint, 'validation': validation, 'metrics': metrics}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('figure', nargs='*', help=', '.join(figures))
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--small', action='store_true', help='small models, to see that it works')
    parser.add_argument('--muster', default=str(ROOT / 'build/release/bin/muster'))
    parser.add_argument('--json', metavar='FILE', help='file for a machine-readable record')
    options = parser.parse_args()
    unknown = sorted(set(options.figure) - set(figures))
    if unknown or options.rounds < 1:
        parser.error(f'no figure {unknown[0]!r}; there are {", ".join(figures)}' if unknown else '--rounds: at least 1')
    report = Report(options.rounds)
    for name in options.figure or figures:
        for what, unit, values in figures[name](options):
            report.add(what, unit, values)
    report.write(options.json)


if __name__ == '__main__':
    main()
