#!/usr/bin/env python3
"""How fast Python reads the files that ./dev bench data reads, and both beside each other.

    ./dev test python                  brings a Python with all that is needed, ~/.cache/muster/python
    ./dev build release
    ~/.cache/muster/python/bin/python3 bench/data_peers.py --dir FOLDER
    … --dir FOLDER --small             little data and short rounds: two minutes, to see that it works
    … --dir FOLDER --formats text jpeg --rounds 5 --json FILE

It makes files of each format in FOLDER (1.2 GB; `memory` are the arrays of `numpy`, read beforehand). PyTorch's
DataLoader (with 0, 1 and 2 workers, which stay from epoch to epoch, shuffled where samples can be taken singly: not of
tar) reads them as people do: arrays that are in memory or mapped, those of HDF5 by h5py, images by PIL, the files of
MNIST and CIFAR-10 by NumPy. Where samples are rows it also takes whole batches at a time; HDF5 is read by h5py without
a DataLoader, too. JPEG files are decoded by libjpeg-turbo alone (jpeg_bench), beside ours where one process decodes:
with one thread that reads ahead, and with none. For `memory` there is memcpy.

Rounds of ours and of theirs alternate. A round takes whole epochs, for --seconds at least, after a warm-up. Rates are
in MB/s of what a task is given, whatever that takes on the disk. Each ratio is that of the rounds one by one, of the
number of threads and of workers whose medians are the best; figures are medians with their 5 to 95 % intervals.
Nothing is read ahead that is more than a tenth of the data set (data_bench sees to it).
"""
import argparse
import csv
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import time

import h5py
import numpy as np
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.numpy import save_file

from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
LANE, SIDE = 64, 96
SHARDS = 4
TEXT_BYTES = 256  # of a sample
MNIST_IMAGES, MNIST_LABELS = 'train-images-idx3-ubyte', 'train-labels-idx1-ubyte'
CIFAR_FILES = 5
THREADS = WORKERS = (0, 1, 2)
ALONE = 'ours, 0 threads read ahead'  # the thread that takes the samples reads them
ONE_AHEAD = 'ours, 1 threads read ahead'
WORDS = 'a loss is what the model has made of the samples that it was given in this step\n'.split(' ')


class Rows(torch.utils.data.Dataset):

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(np.array(self.x[i])), int(self.y[i])

    def batch(self, ids):
        return torch.from_numpy(self.x[ids]), torch.from_numpy(np.asarray(self.y[ids]).astype(np.int64))


class Text(torch.utils.data.Dataset):

    def __init__(self, path):
        content = np.fromfile(path, dtype=np.uint8)
        self.samples = content[:len(content) // TEXT_BYTES * TEXT_BYTES].reshape(-1, TEXT_BYTES)

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return torch.from_numpy(self.samples[i].copy())

    def batch(self, ids):
        return torch.from_numpy(self.samples[ids])


class Pixels(Rows):
    """Bytes in memory, which become numbers from 0 to 1 when they are taken."""

    def __getitem__(self, i):
        return torch.from_numpy(self.x[i].astype(np.float32) / 255), int(self.y[i])

    def batch(self, ids):
        return torch.from_numpy(self.x[ids].astype(np.float32) / 255), torch.from_numpy(self.y[ids].astype(np.int64))


class Batches(torch.utils.data.Dataset):
    """Of a data set that can be asked for many samples at once."""

    def __init__(self, samples):
        self.samples = samples

    def __getitem__(self, ids):
        return self.samples.batch(ids)


class InMemory(Rows):

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def batch(self, ids):
        return self.x[ids], self.y[ids]


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


def pixels_of(file, resized=True):
    with Image.open(file) as image:
        pixels = np.asarray(image.convert('RGB').resize((SIDE, SIDE), Image.BILINEAR) if resized else
                            image.convert('RGB'))
    return torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.float32) / 255)


class Images(torch.utils.data.Dataset):

    def __init__(self, folder, resized=True):
        self.resized = resized
        self.paths = [(os.path.join(folder, name, file), i) for i, name in enumerate(sorted(os.listdir(folder)))
                      for file in sorted(os.listdir(os.path.join(folder, name)))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        path, label = self.paths[i]
        return pixels_of(path, self.resized), label


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


def mnist(folder):
    """The numbers before the bytes are a mark, and then the dimensions."""
    with open(os.path.join(folder, MNIST_IMAGES), 'rb') as file:
        _, images, height, width = np.frombuffer(file.read(16), '>i4')
        x = np.fromfile(file, np.uint8).reshape(images, 1, height, width)
    return Pixels(x, np.fromfile(os.path.join(folder, MNIST_LABELS), np.uint8, offset=8))


def cifar(folder):
    """A label and 3072 bytes for each picture."""
    records = np.concatenate([np.fromfile(os.path.join(folder, name), np.uint8) for name in sorted(os.listdir(folder))])
    records = records.reshape(-1, 1 + 3 * 32 * 32)
    return Pixels(records[:, 1:].reshape(-1, 3, 32, 32), records[:, 0])


def make_mnist(folder, images, random):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, MNIST_IMAGES), 'wb') as out:
        out.write(np.array([0x803, images, 28, 28], '>i4').tobytes())
        out.write(random.integers(0, 256, size=images * 28 * 28, dtype=np.uint8).tobytes())
    with open(os.path.join(folder, MNIST_LABELS), 'wb') as out:
        out.write(np.array([0x801, images], '>i4').tobytes())
        out.write(random.integers(0, 10, size=images, dtype=np.uint8).tobytes())


def make_cifar(folder, images, random):
    """In as many files as CIFAR-10 has to train with."""
    os.makedirs(folder, exist_ok=True)
    records = random.integers(0, 256, size=(images, 1 + 3 * 32 * 32), dtype=np.uint8)
    records[:, 0] %= 10
    for i, part in enumerate(np.array_split(records, CIFAR_FILES)):
        part.tofile(os.path.join(folder, f'data_batch_{i + 1}.bin'))


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


def make_text(path, size, random):
    """Words one after the other; no two parts are alike."""
    with open(path, 'w', encoding='ascii') as out:
        left = size
        while left > 0:
            piece = ' '.join(WORDS[i] for i in random.integers(0, len(WORDS), size=10_000))[:left]
            left -= out.write(piece)


def make(folder, small):
    """{format: (data of the job, how Python opens it)}; pictures, text and CSV that are there stay."""
    random = np.random.default_rng(1)
    rows, images, text_bytes = (2000, 2 * LANE, 1 << 20) if small else (100_000, 1500, 64 << 20)
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
    if not os.path.exists(path('text')):
        make_text(path('text'), text_bytes, random)
    if not os.path.exists(path('tar', f'{SHARDS - 1}.tar')):
        make_pictures(path, images, random)
    make_mnist(path('mnist'), 2000 if small else 60_000, random)
    make_cifar(path('cifar'), 2000 if small else 50_000, random)
    size = f'image_size: [{SIDE}, {SIDE}], fit: stretch'
    return {
        'memory': (f'{{paths: [{path("numpy")}], format: numpy, label: y}}',
                   lambda: InMemory(torch.from_numpy(x), torch.from_numpy(y))),
        'text': (f'{{paths: [{path("text")}], format: text, shape: [{TEXT_BYTES}]}}', lambda: Text(path('text'))),
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
        'mnist': (f'{{paths: [{path("mnist")}], format: idx}}', lambda: mnist(path('mnist'))),
        'cifar': (f'{{paths: [{path("cifar")}], format: cifar10}}', lambda: cifar(path('cifar'))),
        'jpeg': (f'{{paths: [{path("jpg")}], format: images, {size}}}', lambda: Images(path('jpg'))),
        'jpeg-whole': (f'{{paths: [{path("jpg")}], format: images}}', lambda: Images(path('jpg'), resized=False)),
        'png': (f'{{paths: [{path("png")}], format: images, {size}}}', lambda: Images(path('png'))),
        'tar': (f'{{paths: [{path("tar")}], format: webdataset, {size}}}', lambda: Shards(path('tar'))),
    }


def count(batch):
    return len(batch if isinstance(batch, torch.Tensor) else batch[-1])


class Peer:
    """A way to read a data set with Python: `epoch` gives its batches."""

    def __init__(self, epoch, samples, megabytes):
        self.epoch, self.samples, self.megabytes = epoch, samples, megabytes

    def _seconds(self):
        begin = time.monotonic()
        seen = sum(count(batch) for batch in self.epoch())
        seconds = time.monotonic() - begin
        if seen != self.samples:
            sys.exit(f'Python reads {seen} samples, and we {self.samples}')
        return seconds

    def rate(self, warm_up, least):
        """MB/s over whole epochs, which take so many seconds at least."""
        warm = 0
        while warm < warm_up:
            warm += self._seconds()
        taken = [self._seconds()]
        while sum(taken) < least:
            taken.append(self._seconds())
        return len(taken) * self.megabytes / sum(taken)


def batches_of_h5py(path, at_once):
    """The rows of each batch one by one; or at once, in ascending order, as h5py wants them."""
    with h5py.File(path) as file:
        x, y = file['x'], file['y']
        order = np.random.permutation(len(y))
        for first in range(0, len(order), LANE):
            ids = order[first:first + LANE]
            if at_once:
                ids = np.sort(ids)
                yield x[ids], y[ids]
            else:
                yield np.stack([x[i] for i in ids]), np.array([y[i] for i in ids])


def peers_of(dataset, samples, megabytes):
    """By name. The name's beginning says what is compared with."""
    shuffled = None if isinstance(dataset, torch.utils.data.IterableDataset) else True
    peers = {}
    for workers in WORKERS:
        loader = torch.utils.data.DataLoader(dataset, batch_size=LANE, shuffle=shuffled, num_workers=workers,
                                             persistent_workers=workers > 0)
        peers[f'DataLoader, {workers} workers'] = Peer(loader.__iter__, samples, megabytes)
    if hasattr(dataset, 'batch'):
        order = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(dataset), LANE, drop_last=False)
        loader = torch.utils.data.DataLoader(Batches(dataset), batch_size=None, sampler=order)
        peers['whole batches by DataLoader, 0 workers'] = Peer(loader.__iter__, samples, megabytes)
    if isinstance(dataset, Hdf5):
        for how in ('row by row', 'rows of a batch at once'):
            peers[f'h5py alone, {how}'] = Peer(
                lambda at_once=how != 'row by row': batches_of_h5py(dataset.path, at_once), samples, megabytes)
    return peers


def run_bench(program, figures, *words):
    """What it has written."""
    subprocess.run([program, *words, '--rounds', '1', '--json', figures], check=True, stdout=subprocess.DEVNULL)
    with open(figures, encoding='utf-8') as file:
        return json.load(file)


class Format:
    """One format: its rounds, and what they come to."""

    def __init__(self, asked, folder, name, data, opened):
        self.asked, self.name, self.dataset = asked, name, opened()
        self.job, self.figures = os.path.join(folder, name + '.yaml'), os.path.join(folder, name + '.json')
        self.pictures = os.path.join(folder, 'jpg') if name.startswith('jpeg') else None
        self.words = ['--memory'] if name == 'memory' else []
        self.peers, self.rates = None, {}
        with open(self.job, 'w', encoding='utf-8') as out:
            out.write(f'task: any\nsteps: 1\ndata: {data}\n')

    def _seconds(self):
        return ['--seconds', str(self.asked.seconds), '--warm-up', str(self.asked.warm_up)]

    def _add(self, what, rate):
        self.rates.setdefault(what, []).append(rate)

    def round(self):
        ours = run_bench(self.asked.bench, self.figures, self.job, '--lane', str(LANE), '--threads',
                         *map(str, THREADS), *self._seconds(), *self.words)
        for what, figure in ours['figures'].items():
            limit = what.endswith('memcpy')
            self._add('limit: memcpy' if limit else f'ours, {what.removeprefix("MB/s, ")}', figure['median'])
        if self.pictures:
            # A picture counts as what a task is given of it.
            alone = run_bench(self.asked.jpeg_bench, self.figures, self.pictures, *self._seconds())
            for what, figure in alone['figures'].items():
                pictures_a_second = figure['median'] * alone['pictures'] / alone['mb']
                self._add('limit: ' + what.removeprefix('MB/s, '), pictures_a_second * ours['mb'] / ours['samples'])
        if self.peers is None:
            print(f'{self.name}: {ours["samples"]} samples, {ours["mb"]:.1f} MB, '
                  f'{ours["epochs_per_ahead"]:.1f} times what is read ahead', flush=True)
            self.peers = peers_of(self.dataset, ours['samples'], ours['mb'])
        for what, peer in self.peers.items():
            self._add(what, peer.rate(self.asked.warm_up, self.asked.seconds))

    def _best(self, start):
        """The rounds of the best of what begins so; nothing where there is none."""
        return max((rates for what, rates in self.rates.items() if what.startswith(start)), key=statistics.median,
                   default=None)

    def report(self, report):
        for what, rates in self.rates.items():
            report.add(f'{self.name}: {what}', 'MB/s', rates)
        ours, alone, ahead = self._best('ours'), self.rates[ALONE], self.rates[ONE_AHEAD]
        for what, mine, theirs in (
                ('ours ÷ DataLoader, the best of each', ours, 'DataLoader'),
                ('ours ÷ DataLoader that takes whole batches', ours, 'whole batches'),
                ('ours ÷ h5py alone, the best of each', ours, 'h5py alone'),
                ('ours ÷ memcpy', ours, 'limit: memcpy'),
                ('ours, one thread ahead ÷ libjpeg-turbo alone', ahead, 'limit: libjpeg-turbo alone'),
                ('ours, none ahead ÷ libjpeg-turbo alone', alone, 'limit: libjpeg-turbo alone'),
                ('ours, one thread ahead ÷ the same, less exact', ahead, 'limit: libjpeg-turbo alone, less exact'),
        ):
            rates = self.rates.get(theirs) if theirs.startswith('limit') else self._best(theirs)
            if rates:
                report.add(f'{self.name}: {what}', '', [a / b for a, b in zip(mine, rates)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dir', required=True, help='a folder for the files')
    programs = ROOT / 'build/release/bin'
    parser.add_argument('--bench', default=str(programs / 'data_bench'), help='the program data_bench')
    parser.add_argument('--jpeg-bench', default=str(programs / 'jpeg_bench'), help='the program jpeg_bench')
    parser.add_argument('--formats', nargs='+', help='these alone, such as hdf5 png')
    parser.add_argument('--rounds', type=int, help='default: 10; 3 with --small')
    parser.add_argument('--seconds', type=float, help='of each round and way to read; default: 3; 0.2 with --small')
    parser.add_argument('--small', action='store_true', help='little data, to see that it works')
    parser.add_argument('--json', metavar='FILE', help='a file for the figures')
    asked = parser.parse_args()
    asked.rounds = asked.rounds or (3 if asked.small else 10)
    asked.seconds = (0.2 if asked.small else 3) if asked.seconds is None else asked.seconds
    asked.warm_up = asked.seconds / 3
    if asked.rounds < 1 or asked.seconds < 0:
        parser.error('--rounds: at least 1; --seconds: at least 0')
    torch.set_num_threads(1)
    folder = os.path.join(os.path.abspath(asked.dir), 'small' if asked.small else 'whole')
    formats, report = make(folder, asked.small), Report(asked.rounds)
    for name in asked.formats or formats:
        if name not in formats:
            parser.error(f'--formats: {name!r} is not known; allowed: {", ".join(formats)}')
    for name in asked.formats or formats:
        measured = Format(asked, folder, name, *formats[name])
        for _ in range(asked.rounds):
            measured.round()
        measured.report(report)
    report.write(asked.json)


if __name__ == '__main__':
    main()
