#!/usr/bin/env python3
"""How fast Python reads the files that ./dev bench data reads, and both beside each other.

    python3 -m venv venv
    venv/bin/pip install torch numpy pillow safetensors h5py
    venv/bin/python bench/data_peers.py --bench build/release/bin/data_bench --dir FOLDER

It needs a Python in which torch can be imported, which the project itself does not. It makes files of each format in
FOLDER. PyTorch's DataLoader (with 0, 1 and 2 workers, shuffled where samples can be taken singly: not of tar) reads
them as people do: arrays that are in memory or mapped, those of HDF5 by h5py, images by PIL. Rounds of ours and of
theirs alternate, and medians and their range are printed, in MB/s of what a task is given, with ours, the fastest
number of threads, ÷ the fastest number of workers.
"""
import argparse
import csv
import io
import json
import os
import statistics
import subprocess
import tarfile
import time

import h5py
import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file

LANE, SIDE = 64, 96
SHARDS = 4


class Rows(torch.utils.data.Dataset):

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(np.array(self.x[i])), int(self.y[i])


class Tensors(torch.utils.data.Dataset):
    """`x` is whatever gives a tensor for a number."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], int(self.y[i])


class Hdf5(torch.utils.data.Dataset):
    """A worker opens the file itself: what libhdf5 has open does not live through a fork."""

    def __init__(self, path):
        self.path, self.x, self.of = path, None, None
        with h5py.File(path) as file:
            self.y = file['y'][:]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        if self.of != os.getpid():
            self.x, self.of = h5py.File(self.path)['x'], os.getpid()
        return torch.from_numpy(self.x[i]), int(self.y[i])


def pixels_of(file):
    with Image.open(file) as image:
        pixels = np.asarray(image.convert('RGB').resize((SIDE, SIDE), Image.BILINEAR))
    return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255)


class Images(torch.utils.data.Dataset):

    def __init__(self, folder):
        self.paths = [(os.path.join(folder, name, file), i) for i, name in enumerate(sorted(os.listdir(folder)))
                      for file in sorted(os.listdir(os.path.join(folder, name)))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path, label = self.paths[i]
        return pixels_of(path), label


class Shards(torch.utils.data.IterableDataset):
    """Tar files from their beginning to their end; a worker takes those that are its own."""

    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        for path in self.paths[worker.id::worker.num_workers] if worker else self.paths:
            with tarfile.open(path) as tar:
                image = None
                for entry in tar:
                    content = tar.extractfile(entry).read()
                    if entry.name.endswith('.jpg'):
                        image = pixels_of(io.BytesIO(content))
                    else:
                        yield image, int(content)


def read_csv(path):
    with open(path, newline='') as rows:
        read = csv.reader(rows)
        next(read)
        cells = np.array([[float(cell) for cell in row] for row in read], dtype=np.float32)
    return Rows(cells[:, :-1], cells[:, -1])


def safetensors(path):
    file = safe_open(path, 'pt')
    return Tensors(file.get_slice('x'), file.get_tensor('y'))


def npz(path):
    arrays = np.load(path)
    return Rows(arrays['x'], arrays['y'])


def pt(path):
    tensors = torch.load(path, weights_only=True, mmap=True)
    return Tensors(tensors['x'], tensors['y'])


def make_pictures(path, images, random):
    """The same pictures as JPEG and PNG, a folder for each class, and those of JPEG in tar files."""
    names = []
    for i in range(images):
        slope = np.add.outer(np.arange(240) * (i % 7), np.arange(320))[:, :, None] * [1, 2, 3]
        noise = random.integers(0, 40, size=(240, 320, 3))
        image = Image.fromarray(((slope + noise) % 256).astype(np.uint8))
        for kind, settings in (('jpg', {'quality': 90}), ('png', {})):
            os.makedirs(path(kind, f'class{i % 5}'), exist_ok=True)
            image.save(path(kind, f'class{i % 5}', f'{i}.{kind}'), **settings)
        names.append(path('jpg', f'class{i % 5}', f'{i}.jpg'))
    os.makedirs(path('tar'), exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(path('tar', f'{shard}.tar'), 'w') as tar:
            for i in range(shard, images, SHARDS):
                tar.add(names[i], f'{i:05}.jpg')
                label = tarfile.TarInfo(f'{i:05}.cls')
                content = str(i % 5).encode()
                label.size = len(content)
                tar.addfile(label, io.BytesIO(content))


def make(folder, small):
    """{format: (data of the job, how Python opens it)}; files that are there stay."""
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
    np.savez(path('a.npz'), x=x, y=y)
    save_file({'x': x, 'y': y}, path('a.safetensors'))
    torch.save({'x': torch.from_numpy(x), 'y': torch.from_numpy(y)}, path('a.pt'))
    for name, settings in (('whole', {}), ('packed', {'chunks': (LANE, 64), 'compression': 'gzip', 'shuffle': True})):
        with h5py.File(path(name + '.h5'), 'w') as file:
            file.create_dataset('x', data=x, **settings)
            file['y'] = y
    if not os.path.exists(path('tar', f'{SHARDS - 1}.tar')):
        make_pictures(path, images, random)
    size = f'image_size: [{SIDE}, {SIDE}], fit: stretch'
    return {
        'csv': (f'{{paths: [{path("rows.csv")}], format: csv, label: y, classes: [y]}}',
                lambda: read_csv(path('rows.csv'))),
        'numpy': (f'{{paths: [{path("numpy")}], format: numpy, label: y}}',
                  lambda: Rows(np.load(path('numpy', 'x.npy'), mmap_mode='r'), np.load(path('numpy', 'y.npy')))),
        'npz': (f'{{paths: [{path("a.npz")}], format: numpy, label: y}}', lambda: npz(path('a.npz'))),
        'safetensors': (f'{{paths: [{path("a.safetensors")}], format: safetensors, label: y}}',
                        lambda: safetensors(path('a.safetensors'))),
        'pt': (f'{{paths: [{path("a.pt")}], format: pt, label: y}}', lambda: pt(path('a.pt'))),
        'hdf5': (f'{{paths: [{path("whole.h5")}], format: hdf5, keys: [x], label: y}}', lambda: Hdf5(path('whole.h5'))),
        'hdf5-packed': (f'{{paths: [{path("packed.h5")}], format: hdf5, keys: [x], label: y}}',
                        lambda: Hdf5(path('packed.h5'))),
        'jpeg': (f'{{paths: [{path("jpg")}], format: images, {size}}}', lambda: Images(path('jpg'))),
        'png': (f'{{paths: [{path("png")}], format: images, {size}}}', lambda: Images(path('png'))),
        'tar': (f'{{paths: [{path("tar")}], format: webdataset, {size}}}', lambda: Shards(path('tar'))),
    }


def rate_of_peer(dataset, workers, megabytes, samples):
    shuffled = None if isinstance(dataset, torch.utils.data.IterableDataset) else True
    loader = torch.utils.data.DataLoader(dataset, batch_size=LANE, shuffle=shuffled, num_workers=workers)
    begin = time.monotonic()
    seen = sum(len(labels) for _, labels in loader)
    seconds = time.monotonic() - begin
    assert seen == samples, f'{seen} of {samples} samples'
    return megabytes / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--bench', required=True, help='the program data_bench, built in release')
    parser.add_argument('--dir', required=True, help='a folder for the files')
    parser.add_argument('--formats', nargs='+', help='these alone, such as hdf5 png')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--small', action='store_true', help='little data, to see that it works')
    parser.add_argument('--json', help='a file for the figures')
    asked = parser.parse_args()
    torch.set_num_threads(1)
    folder = os.path.join(asked.dir, 'small' if asked.small else 'whole')
    formats, record = make(folder, asked.small), {}
    for name in asked.formats or formats:
        if name not in formats:
            parser.error(f'--formats: {name!r} is not known; allowed: {", ".join(formats)}')
    for name in asked.formats or formats:
        data, opened = formats[name]
        job, figures = os.path.join(folder, name + '.yaml'), os.path.join(folder, name + '.json')
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
                    rate_of_peer(dataset, workers, ours['mb'], ours['samples']))
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
