#!/usr/bin/env python3
"""How fast Python reads the files that ./dev bench data reads, and both beside each other.

    python3 -m venv venv
    venv/bin/pip install torch numpy pillow safetensors
    venv/bin/python bench/data_peers.py --bench build/release/bin/data_bench --dir FOLDER

It needs a Python in which torch can be imported, which the project itself does not. It makes files of each format in
FOLDER. PyTorch's DataLoader (shuffled, with 0, 1 and 2 workers) reads them as people do: arrays that are in memory or
mapped, images by PIL. Rounds of ours and of theirs alternate, and medians and their range are printed, in MB/s of what
a task is given, with ours, the fastest number of threads, ÷ the fastest number of workers.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import time

import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file

LANE = 64


class Rows(torch.utils.data.Dataset):

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(np.array(self.x[i])), int(self.y[i])


class Safetensors(torch.utils.data.Dataset):

    def __init__(self, path):
        self.file = safe_open(path, 'pt')
        self.x, self.y = self.file.get_slice('x'), self.file.get_tensor('y')

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class Images(torch.utils.data.Dataset):

    def __init__(self, folder):
        self.paths = [(os.path.join(folder, name, file), i) for i, name in enumerate(sorted(os.listdir(folder)))
                      for file in sorted(os.listdir(os.path.join(folder, name)))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path, label = self.paths[i]
        with Image.open(path) as image:
            pixels = np.asarray(image.convert('RGB').resize((96, 96), Image.BILINEAR))
        return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255), label


def read_csv(path):
    with open(path, newline='') as rows:
        read = csv.reader(rows)
        next(read)
        cells = np.array([[float(cell) for cell in row] for row in read], dtype=np.float32)
    return Rows(cells[:, :-1], cells[:, -1])


def make(folder, small):
    """{format: (line of the job, how Python opens it)}; files that are there stay."""
    random = np.random.default_rng(1)
    rows, images = (2000, 60) if small else (100_000, 1500)
    x = random.normal(size=(rows, 64)).astype(np.float32)
    y = random.integers(0, 10, size=rows)
    path = lambda *names: os.path.join(folder, *names)
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(path('rows.csv')):
        with open(path('rows.csv'), 'w', newline='') as out:
            writer = csv.writer(out)
            writer.writerow([f'x{i}' for i in range(64)] + ['y'])
            writer.writerows([[f'{value:.6g}' for value in row] + [label] for row, label in zip(x.tolist(), y)])
    os.makedirs(path('numpy'), exist_ok=True)
    np.save(path('numpy', 'x.npy'), x)
    np.save(path('numpy', 'y.npy'), y)
    save_file({'x': x, 'y': y}, path('a.safetensors'))
    np.save(path('memory.npy'), x)
    if not os.path.exists(path('images')):
        for i in range(images):
            os.makedirs(path('images', f'class{i % 5}'), exist_ok=True)
            slope = np.add.outer(np.arange(240) * (i % 7), np.arange(320))[:, :, None] * [1, 2, 3]
            noise = random.integers(0, 40, size=(240, 320, 3))
            Image.fromarray(((slope + noise) % 256).astype(np.uint8)).save(
                path('images', f'class{i % 5}', f'{i}.jpg'), quality=90)
    return {
        'csv': (f'{{paths: [{path("rows.csv")}], format: csv, label: y, classes: [y]}}',
                lambda: read_csv(path('rows.csv'))),
        'numpy': (f'{{paths: [{path("numpy")}], format: numpy, label: y}}',
                  lambda: Rows(np.load(path('numpy', 'x.npy'), mmap_mode='r'), np.load(path('numpy', 'y.npy')))),
        'safetensors': (f'{{paths: [{path("a.safetensors")}], format: safetensors, label: y}}',
                        lambda: Safetensors(path('a.safetensors'))),
        'jpeg': (f'{{paths: [{path("images")}], format: images, image_size: [96, 96], fit: stretch}}',
                 lambda: Images(path('images'))),
    }


def rate_of_peer(dataset, workers, megabytes):
    loader = torch.utils.data.DataLoader(dataset, batch_size=LANE, shuffle=True, num_workers=workers)
    begin = time.monotonic()
    for _ in loader:
        pass
    return megabytes / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bench', required=True, help='the program data_bench, built in release')
    parser.add_argument('--dir', required=True, help='a folder for the files')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--small', action='store_true', help='little data, to see that it works')
    parser.add_argument('--json', help='a file for the figures')
    asked = parser.parse_args()
    torch.set_num_threads(1)
    record = {}
    for name, (data, opened) in make(asked.dir, asked.small).items():
        job, figures = os.path.join(asked.dir, name + '.yaml'), os.path.join(asked.dir, name + '.json')
        with open(job, 'w') as out:
            out.write(f'task: any\nsteps: 1\ndata: {data}\n')
        dataset, rates = opened(), {}
        for _ in range(asked.rounds):
            subprocess.run([asked.bench, job, '--rounds', '1', '--lane', str(LANE), '--json', figures], check=True,
                           stdout=subprocess.DEVNULL)
            with open(figures) as file:
                ours = json.load(file)
            for what, figure in ours['figures'].items():
                rates.setdefault('ours, ' + what, []).append(figure['median'])
            for workers in (0, 1, 2):
                rates.setdefault(f'DataLoader, MB/s, {workers} workers', []).append(
                    rate_of_peer(dataset, workers, ours['mb']))
        print(f'{name}: {ours["samples"]} samples, {ours["mb"]:.1f} MB')
        for what, values in rates.items():
            print(f'  {what:44} median {statistics.median(values):9.1f}   {min(values):.1f} … {max(values):.1f}')
        best = lambda start: max(statistics.median(v) for k, v in rates.items() if k.startswith(start))
        print(f'  {"ours ÷ DataLoader, the fastest of each":44} {best("ours") / best("DataLoader"):16.2f}', flush=True)
        record[name] = rates
    if asked.json:
        with open(asked.json, 'w') as out:
            json.dump(record, out, indent=1)


if __name__ == '__main__':
    main()
