#!/usr/bin/env python3
"""What PyTorch's checkpoints cost the steps: the peers of ./dev bench checkpoint, on as many bytes.

    python3 -m venv venv
    venv/bin/pip install torch numpy
    venv/bin/python bench/checkpoint_peers.py --dir FOLDER

It needs a Python in which torch can be imported, which the project itself does not. For
`torch.save` (followed by fsync, as a member does) and for `async_save` of torch.distributed.checkpoint
it measures how long the call holds up training, how long it takes until the files are there, and how
much slower the steps are that run meanwhile than those just before. A plain copy of the same tensors
into warm memory stands beside them. The variants alternate, round by round; medians are printed.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import time

import torch
import torch.distributed.checkpoint as checkpoint


def processor_time():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Steps:
    """Products of matrices on all cores, about so many seconds each."""

    def __init__(self, seconds):
        self.a, self.b = torch.rand(768, 768), torch.rand(768, 768)
        begin = time.monotonic()
        for _ in range(5):
            torch.mm(self.a, self.b)
        self.products = max(1, int(seconds / ((time.monotonic() - begin) / 5)))

    def mean(self, go_on):
        begin, count = time.monotonic(), 0
        while go_on() or count < 2:
            for _ in range(self.products):
                torch.mm(self.a, self.b)
            count += 1
        return (time.monotonic() - begin) / count


def save(state, folder):
    path = folder / 'torch.save'
    torch.save(state, path)
    with open(path, 'rb+') as file:
        os.fsync(file.fileno())
    return None


def async_save(state, folder):
    return checkpoint.async_save(state, checkpoint_id=str(folder / 'dcp'))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=10)
    parser.add_argument('--parameters', type=int, default=44140544)
    parser.add_argument('--step-seconds', type=float, default=0.1)
    parser.add_argument('--seconds', type=float, default=3, help='of steps beside which nothing is written')
    parser.add_argument('--dir', type=pathlib.Path, required=True, help='folder for the files, which are deleted')
    parser.add_argument('--json', type=pathlib.Path)
    arguments = parser.parse_args()

    folder = arguments.dir / 'muster-checkpoint-peers'
    state = {name: torch.rand(arguments.parameters) for name in ('weight', 'exp_avg', 'exp_avg_sq')}
    warm = {name: tensor.clone() for name, tensor in state.items()}
    steps = Steps(arguments.step_seconds)
    found = {}
    for _ in range(arguments.rounds):
        for name, variant in {'torch.save and fsync': save, 'async_save': async_save}.items():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            end = time.monotonic() + arguments.seconds
            alone = steps.mean(lambda: time.monotonic() < end)
            begin = time.monotonic()
            for tensor_name, tensor in state.items():
                warm[tensor_name].copy_(tensor)
            copy = time.monotonic() - begin
            begin, busy = time.monotonic(), processor_time()
            future = variant(state, folder)
            stall, busy = time.monotonic() - begin, processor_time() - busy
            figures = {'stall': stall, 'processor time of the call': busy, 'stall ÷ copy': stall / copy}
            if future is not None:
                beside = steps.mean(lambda: not future.done())
                future.result()
                figures['steps, wall ÷ alone'] = beside / alone
            figures['written after'] = time.monotonic() - begin
            found.setdefault('copy into warm memory', []).append(copy)
            for what, value in figures.items():
                found.setdefault(f'{name}: {what}', []).append(value)
    shutil.rmtree(folder, ignore_errors=True)
    print(f'torch {torch.__version__}, {torch.get_num_threads()} threads, {3 * arguments.parameters * 4 / 1e6:.0f} MB')
    for name, values in found.items():
        print(f'{name:52} {statistics.median(values):8.3f}   {min(values):.3f} … {max(values):.3f}')
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=2) + '\n')


if __name__ == '__main__':
    main()
