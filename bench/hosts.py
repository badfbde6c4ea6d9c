#!/usr/bin/env python3
"""Figures of a cluster of three hosts with certificates, each in a network namespace of this machine.

    ./dev bench hosts                       all figures
    ./dev bench hosts submit --rounds 20    one of them
    ./dev bench hosts --json FILE           and a machine-readable record

submit    seconds from the start of `muster submit` until the job has a view of three workers, one on each host, and
          until its first step is recorded
killed    seconds from the SIGKILL of all processes of a host to the view without it, and to the next step that is
          recorded; beside it the time between two steps that nothing disturbs
cut       the same from the moment at which nothing reaches the host or comes from it any more

The job counts instead of learning, so that steps are short and what is measured is Muster; --spec takes another one.
The two hosts without the coordinator take turns to be lost, and are back before the next round. Needs root, ip, nsenter
and unshare. Nothing else should run meanwhile.
"""
import argparse
import pathlib
import time

from local_cluster import Cluster, Network, wait
from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
HOSTS = ('a', 'b', 'c')
LOSABLE = HOSTS[1:]
COUNTING = ['steps=100000000', 'epochs=0', 'data.samples=100003', 'batch=96', 'lanes=6', 'checkpoint.every_steps=0',
            'checkpoint.every_seconds=0', 'fingerprint_every=0']
QUIET_STEPS = 50  # that go undisturbed before a host is lost


def submit(cluster, options):
    """Of each round: seconds until the command has ended, until the view is there, until the first step is recorded."""
    all_three = ['workers={min: 3, max: 3}']
    found = {'accepted': [], 'view': [], 'step': []}
    for number in range(-1, options.rounds):  # the first one warms up
        job, begin = f'first-{number + 1}', time.monotonic()
        with cluster.submit(job, options.spec, *options.settings, *all_three) as watch:
            accepted = time.monotonic()
            view, _ = watch.wait_for('a view', lambda event: event['event'] == 'view' and 'goes on' in event['text'])
            step, _ = watch.step('the first step')
        cluster.end(job)
        if number >= 0:
            for name, when in (('accepted', accepted), ('view', view), ('step', step)):
                found[name].append(when - begin)
    yield 'muster submit until the command has ended', 's', found['accepted']
    yield 'muster submit until the view of three hosts is active', 's', found['view']
    yield 'muster submit until the first step is recorded', 's', found['step']


def lose(cluster, options, what, lose_it, bring_back):
    found = {'view': [], 'step': [], 'quiet': []}
    job = f'loses-{what}'
    with cluster.submit(job, options.spec, *options.settings, 'workers={min: 1, max: 3}') as watch:
        for number in range(-1, options.rounds):
            host = LOSABLE[number % len(LOSABLE)]

            def is_whole():
                status = cluster.status(job)
                return status['state'] == 'running' and status['workers'] == len(HOSTS)
            wait(is_whole, f'job {job} has three workers', cluster.fail)
            watch.drain()
            quiet = [watch.step('steps before a host is lost') for _ in range(QUIET_STEPS)]
            view_before = quiet[-1][1]['view']
            is_new = lambda event: event.get('view', 0) > view_before
            begin = time.monotonic()
            lose_it(host)
            view, _ = watch.wait_for('a view without the host',
                                     lambda event: event['event'] == 'recovery' and is_new(event))
            step, _ = watch.step('a step without the host', is_new)
            bring_back(host)
            if number >= 0:
                found['view'].append(view - begin)
                found['step'].append(step - begin)
                found['quiet'].append((quiet[-1][0] - quiet[0][0]) / (len(quiet) - 1))
    cluster.end(job)
    yield f'a host is {what} until the view without it is active', 's', found['view']
    yield f'a host is {what} until the next step is recorded', 's', found['step']
    yield '  between two steps that nothing disturbs', 's', found['quiet']


def killed(cluster, options):
    return lose(cluster, options, 'killed', cluster.kill, cluster.join)


def cut(cluster, options):
    return lose(cluster, options, 'cut', cluster.network.cut, cluster.network.heal)


def main():
    figures = {'submit': submit, 'killed': killed, 'cut': cut}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('figure', nargs='*', help=', '.join(figures))
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--spec', type=pathlib.Path, help='another job (default: a counting one)')
    parser.add_argument('--programs', default=str(ROOT / 'build/release/bin'), help='folder with muster and the others')
    parser.add_argument('--json', metavar='FILE', help='file for a machine-readable record')
    options = parser.parse_args()
    unknown = sorted(set(options.figure) - set(figures))
    if unknown or options.rounds < 1:
        parser.error(f'no figure {unknown[0]!r}; there are {", ".join(figures)}' if unknown else '--rounds: at least 1')
    options.settings = [] if options.spec else COUNTING
    options.spec = options.spec or ROOT / 'examples/counting.yaml'
    Network.enter()
    report = Report(options.rounds)
    with Cluster(options.programs, HOSTS, slots=1, network=Network(HOSTS)) as cluster:
        for name in options.figure or figures:
            for what, unit, values in figures[name](cluster, options):
                report.add(what, unit, values)
    report.write(options.json)


if __name__ == '__main__':
    main()
