#!/usr/bin/env python3
"""What `muster data convert` writes, read by Python's own readers: numpy, safetensors, tarfile and PIL beside csv, h5py
and PyTorch, which have the same samples from the source.

MUSTER_PROGRAMS is the folder of muster and the programs that it starts.
"""

import csv
import io
import json
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

import h5py
import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file

from needs_torch import needs_torch, torch

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')


class ConvertTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        self.random = np.random.default_rng(11)

    def path(self, *names):
        path = os.path.join(self.root, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def convert(self, sources, target, *words, code=0):
        """What it tells."""
        sources = sources if isinstance(sources, list) else [sources]
        done = subprocess.run([MUSTER, 'data', 'convert', *sources, '-o', self.path(target), '--json', *words],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def compare(self, ours, theirs):
        self.assertEqual(set(ours), set(theirs))
        for name, array in theirs.items():
            self.assertEqual(ours[name].dtype, array.dtype.newbyteorder('='), name)
            np.testing.assert_array_equal(ours[name], array, err_msg=name)

    def test_csv(self):
        files, rows = [], []
        for name in 'ab':
            files.append(self.path(f'{name}.csv'))
            of_file = [[f'{x:.9g}' for x in self.random.normal(size=3)] + [f'kind {i % 3}'] for i in range(20)]
            rows += of_file
            with open(files[-1], 'w', newline='') as out:
                csv.writer(out).writerows([['x', 'y', 'z', 'kind'], *of_file])
        told = self.convert(files, 't.safetensors', '--set', 'data.label=kind', '--set', 'data.classes=[kind]')
        self.assertEqual(told['samples'], 40)
        self.compare(load_file(told['target']),
                     {'input': np.array([row[:3] for row in rows], dtype=np.float64).astype(np.float32),
                      'label': np.array([int(row[3][-1]) for row in rows])})

    def test_every_type_of_numpy(self):
        kinds = ['f4', 'f8', 'f2', 'i8', 'i4', 'i2', 'i1', 'u1', '?', '>i4', '>f8']
        arrays = {f'a{i}': (self.random.normal(size=(9, 2, 3)) * 50).astype(kind) for i, kind in enumerate(kinds)}
        arrays['y'] = np.arange(9, dtype=np.int16)
        source = self.path('a.npz')
        np.savez_compressed(source, **arrays)
        self.compare(load_file(self.convert(source, 'a.safetensors')['target']), arrays)
        told = self.convert(source, 'folder', '--format', 'numpy')
        found = {name[:-4]: np.load(os.path.join(told['target'], name)) for name in os.listdir(told['target'])}
        self.compare(found, arrays)
        self.assertEqual(told['files'], len(arrays))
        alone = self.convert(source, 'y.npy', '--set', 'data.keys=[y]')
        mapped = np.load(alone['target'], mmap_mode='r')
        np.testing.assert_array_equal(mapped, arrays['y'])

    def test_hdf5(self):
        source = self.path('a.h5')
        x = self.random.normal(size=(300, 4, 5)).astype(np.float32)
        y = self.random.integers(0, 9, size=300)
        with h5py.File(source, 'w') as file:
            file.create_dataset('train/x', data=x, chunks=(7, 4, 5), compression='gzip')
            file['train/y'] = y
        told = self.convert(source, 'a.safetensors', '--set', 'data.label=train/y')
        self.compare(load_file(told['target']), {'train/x': x, 'train/y': y})
        self.assertIn("'train/x' cannot be the name of a file",
                      self.convert(source, 'folder', '--format', 'numpy', code=64))

    @needs_torch
    def test_pt(self):
        source = self.path('a.pt')
        x = torch.from_numpy(self.random.normal(size=(6, 3)))
        torch.save({'x': x.bfloat16(), 'y': (x[:, 0] * 50).long()}, source)
        told = self.convert(source, 'a.safetensors')
        from safetensors.torch import load_file as load_tensors
        found = load_tensors(told['target'])
        self.assertTrue(torch.equal(found['x'], x.bfloat16()))
        self.assertTrue(torch.equal(found['y'], (x[:, 0] * 50).long()))

    def test_images_are_the_same_files_and_the_same_pixels(self):
        encoded = []
        for i in range(7):
            pixels = self.random.integers(0, 255, size=(8, 6, 3)).astype(np.uint8)
            name = self.path('photos', 'ab'[i % 2], f'{i}.png')
            Image.fromarray(pixels).save(name)
            encoded.append((i % 2, name, pixels))
        encoded.sort(key=lambda image: image[1])
        told = self.convert(self.path('photos'), 'shards', '--format', 'webdataset', '--shard-mib', '1')
        found = []
        for shard in sorted(os.listdir(told['target'])):
            with tarfile.open(os.path.join(told['target'], shard)) as tar:
                members = tar.getmembers()
                for image, label in zip(members[::2], members[1::2]):
                    self.assertEqual(os.path.splitext(image.name)[0], os.path.splitext(label.name)[0])
                    found.append((int(tar.extractfile(label).read()), tar.extractfile(image).read()))
        self.assertEqual(found, [(label, pathlib.Path(name).read_bytes()) for label, name, _ in encoded])
        np.testing.assert_array_equal(np.array(Image.open(io.BytesIO(found[0][1]))), encoded[0][2])
        arrays = load_file(self.convert(self.path('photos'), 'photos.safetensors')['target'])
        self.compare(arrays, {'image': np.stack([pixels.transpose(2, 0, 1) for _, _, pixels in encoded]),
                              'label': np.array([label for label, _, _ in encoded])})

    def test_what_is_told_reads_it(self):
        source = self.path('a.safetensors')
        save_file({'x': self.random.normal(size=(5, 2)), 'y': np.arange(5)}, source)
        told = self.convert(source, 'out', '--format', 'numpy', '--set', 'data.label=y', '--set', 'data.mean=[0.5]')
        words = [word for field, value in told['data'].items()
                 for word in ('--set', f'data.{field}={json.dumps(value)}')]
        inspected = [json.loads(subprocess.run([MUSTER, 'data', 'inspect', *what, '--json'], check=True,
                                               capture_output=True, timeout=60).stdout)
                     for what in ([source, '--set', 'data.label=y', '--set', 'data.mean=[0.5]'],
                                  [told['target'], *words])]
        self.assertEqual(inspected[0]['fields'], inspected[1]['fields'])
        self.assertEqual(inspected[0]['samples'], inspected[1]['samples'])

    def test_a_broken_file_leaves_nothing(self):
        source = self.path('a.npy')
        np.save(source, np.arange(1000))
        os.truncate(source, 900)
        self.assertIn('a.npy', self.convert(source, 'a.safetensors', code=65))
        self.assertFalse(os.path.exists(self.path('a.safetensors')))


if __name__ == '__main__':
    unittest.main(verbosity=2)
