#!/usr/bin/env python3
"""Data sets beside Python's own readers: files that numpy, csv, safetensors, h5py, PIL and PyTorch write, and what
these read of them.

MUSTER_PRINT_DATA_SET is the program that prints a data set's samples (print_data_set.cc).
"""

import csv
import gzip
import io
import os
import struct
import subprocess
import tarfile
import tempfile
import unittest

import h5py
import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file

from needs_torch import needs_torch, torch

PROGRAM = os.environ['MUSTER_PRINT_DATA_SET']


class DataTest(unittest.TestCase):

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        self.random = np.random.default_rng(7)

    def path(self, *names):
        path = os.path.join(self.root, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def read(self, fields, paths=None):
        """{field: array} as Muster reads it, in its order."""
        spec = self.path('job', 'job.yaml')
        with open(spec, 'w') as out:
            out.write(f'task: any\nsteps: 1\ndata: {{paths: [{paths or self.path("data")}], {fields}}}\n')
        return self.printed(spec)

    def printed(self, *words):
        done = subprocess.run([PROGRAM, *words], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        head, _, data = done.stdout.partition(b'\n\n')
        arrays = {}
        for line in head.decode().splitlines():
            name, kind, dimensions = line.rsplit(' ', 2)
            shape = [int(size) for size in dimensions.split(',')]
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(data, kind, count).reshape(shape)
            data = data[count * np.dtype(kind).itemsize:]
        self.assertEqual(data, b'')
        return arrays

    def test_csv(self):
        numbers = self.random.normal(size=(50, 3)) * 10.0 ** self.random.integers(-30, 30, size=(50, 3))
        names = ['a,b', 'say "no"', 'two\nlines', 'ä', ' plain']
        path = self.path('data', 'rows.csv')
        with open(path, 'w', newline='') as out:
            writer = csv.writer(out)
            writer.writerow(['x', 'y', 'z', 'kind'])
            for i, row in enumerate(numbers):
                writer.writerow([repr(float(value)) for value in row] + [names[i % 5]])
        with open(path, newline='') as rows:
            read = list(csv.DictReader(rows))
        ours = self.read('format: csv, columns: [z, x], label: kind, classes: [kind]')
        theirs = np.array([[float(row['z']), float(row['x'])] for row in read]).astype(np.float32)
        np.testing.assert_array_equal(ours['input'], theirs)
        order = sorted({row['kind'].strip() for row in read}, key=lambda name: name.encode())
        np.testing.assert_array_equal(ours['label'], [order.index(row['kind'].strip()) for row in read])

    def test_numpy(self):
        kinds = ['f4', 'f8', 'f2', 'i8', 'i4', 'i2', 'i1', 'u1', '?', '>i4', '>f8']
        arrays = {f'a{i}': (self.random.normal(size=(9, 2, 3)) * 50).astype(kind) for i, kind in enumerate(kinds)}
        for save, name in ((np.savez, 'stored'), (np.savez_compressed, 'packed')):
            path = self.path(name, 'a.npz')
            save(path, **arrays)
            self.compare(self.read('format: numpy', path), dict(np.load(path)))
        for name, array in arrays.items():
            np.save(self.path('data', name + '.npy'), array)
        self.compare(self.read('format: numpy'), arrays)
        # As pandas gives them, often.
        for name, array in arrays.items():
            np.save(self.path('data', name + '.npy'), np.asfortranarray(array))
        self.compare(self.read('format: numpy'), arrays)

    def compare(self, ours, theirs):
        self.assertEqual(set(ours), set(theirs))
        for name, array in theirs.items():
            if np.issubdtype(array.dtype, np.floating):
                array = array.astype(np.float32)
            self.assertEqual(ours[name].dtype, array.dtype.newbyteorder('='))
            np.testing.assert_array_equal(ours[name], array, err_msg=name)

    def test_safetensors(self):
        path = self.path('data', 'a.safetensors')
        save_file({'x': self.random.normal(size=(5, 4)).astype(np.float32),
                   'half': self.random.normal(size=(5, 2)).astype(np.float16),
                   'bytes': self.random.integers(0, 255, size=(5, 3)).astype(np.uint8),
                   'y': self.random.integers(0, 9, size=5).astype(np.int32)}, path, {'made': 'here'})
        theirs = load_file(path)
        theirs['y'] = theirs['y'].astype(np.int64)
        ours = self.read('format: safetensors, label: y')
        self.assertEqual(list(ours)[-1], 'y')
        self.compare(ours, theirs)

    @needs_torch
    def test_pt(self):
        x = torch.from_numpy(self.random.normal(size=(9, 4, 3)))
        values = {'f8': x, 'f4': x.float(), 'f2': x.half(), 'i8': (x * 50).long(), 'i4': (x * 50).int(),
                  'i2': (x * 50).short(), 'i1': (x * 20).to(torch.int8), 'u1': (x.abs() * 20).to(torch.uint8),
                  'b': x > 0, 'rows': torch.cat([x, x])[::2], 'part': torch.cat([x, x], 1)[:, 2:6], 'y': x[:, 0, 0].long()}
        theirs = {key: value.numpy() for key, value in values.items()}
        path = self.path('data', 'a.pt')
        torch.save(values | {'epoch': 7, 'rate': 0.1, 'names': ['a', 'b'], 'none': None}, path)
        self.compare(self.read('format: pt', path), theirs)
        # bfloat16, which numpy has not, a parameter, and a module's state.
        path = self.path('data', 'b.pt')
        torch.save(torch.nn.Parameter(x.bfloat16()), path)
        self.compare(self.read('format: pt', path), {'b': x.bfloat16().float().numpy()})
        state = torch.nn.Linear(5, 3).state_dict()
        torch.save(state, path)
        self.compare(self.read('format: pt', path), {key: value.numpy() for key, value in state.items()})
        torch.save((x, x[:, 0]), path)
        self.compare(self.read('format: pt, label: "1"', path), {'0': x.numpy(), '1': x[:, 0].numpy()})

    def test_hdf5(self):
        kinds = ['f4', 'f8', 'f2', 'i8', 'i4', 'i2', 'i1', 'u1', '?', '>i4', '>f8', '>f2']
        arrays = {f'in/a{i}': (self.random.normal(size=(70, 2, 3)) * 50).astype(kind) for i, kind in enumerate(kinds)}
        arrays['y'] = self.random.integers(0, 9, size=70)
        path = self.path('data', 'a.h5')
        for packed in ({}, {'compression': 'gzip', 'shuffle': True, 'chunks': True}, {'fletcher32': True}):
            with h5py.File(path, 'w') as file:
                for name, array in arrays.items():
                    file.create_dataset(name, data=array, **packed)
                file['other/y'] = file['y']  # a second name of one array
                file['text'] = 'not asked for'
            with h5py.File(path) as file:
                theirs = {name: file[name][:] for name in arrays}
                theirs['other/y'] = theirs['y']
            keys = ', '.join(f'"{name}"' for name in arrays if name != 'y')
            self.compare(self.read(f'format: hdf5, keys: [{keys}, other/y], label: y', path), theirs)

    def test_idx(self):
        images = self.random.integers(0, 256, size=(6, 28, 28)).astype(np.uint8)
        labels = self.random.integers(0, 10, size=6).astype(np.uint8)
        with gzip.open(self.path('data', 'train-images-idx3-ubyte.gz'), 'wb') as out:
            out.write(struct.pack('>IIII', 0x803, *images.shape) + images.tobytes())
        with open(self.path('data', 'train-labels-idx1-ubyte'), 'wb') as out:
            out.write(struct.pack('>II', 0x801, len(labels)) + labels.tobytes())
        ours = self.read('format: idx')
        np.testing.assert_array_equal(ours['image'][:, 0], (images / 255).astype(np.float32))
        np.testing.assert_array_equal(ours['label'], labels)

    def test_cifar(self):
        images = self.random.integers(0, 256, size=(4, 3, 32, 32)).astype(np.uint8)
        with open(self.path('data', 'data_batch_1.bin'), 'wb') as out:
            for label, image in enumerate(images):
                out.write(bytes([label]) + image.tobytes())
        ours = self.read('format: cifar10, mean: [0.5, 0.25, 0], deviation: [0.5, 1, 2]')
        mean, deviation = np.array([0.5, 0.25, 0]), np.array([0.5, 1, 2])
        theirs = (images / 255 - mean[:, None, None]) / deviation[:, None, None]
        np.testing.assert_array_equal(ours['image'], theirs.astype(np.float32))
        np.testing.assert_array_equal(ours['label'], range(4))

    # The fine label stands behind the coarse one.
    def test_cifar100(self):
        images = self.random.integers(0, 256, size=(5, 3, 32, 32)).astype(np.uint8)
        labels = self.random.integers(0, [20, 100], size=(5, 2)).astype(np.uint8)
        with open(self.path('data', 'train.bin'), 'wb') as out:
            for (coarse, fine), image in zip(labels, images):
                out.write(bytes([coarse, fine]) + image.tobytes())
        records = np.fromfile(self.path('data', 'train.bin'), np.uint8).reshape(-1, 2 + 3072)
        ours = self.read('format: cifar100')
        np.testing.assert_array_equal(ours['image'], (records[:, 2:].reshape(-1, 3, 32, 32) / 255).astype(np.float32))
        np.testing.assert_array_equal(ours['label'], records[:, 1])

    # Samples of so many bytes of all files, one after the other with a zero between two; what is left at the end is none.
    def test_text(self):
        for name, content in (('a.txt', 'naïve\r\n'.encode() * 7), ('b/c.txt', bytes(range(256))), ('d.txt', b'')):
            with open(self.path('data', *name.split('/')), 'wb') as out:
                out.write(content)
        theirs = bytearray()
        for folder, folders, names in os.walk(self.path('data')):
            folders.sort()
            for name in sorted(names):
                with open(os.path.join(folder, name), 'rb') as file:
                    content = file.read()
                theirs += (b'\0' if theirs and content else b'') + content
        ours = self.read('format: text, shape: [13]')
        rows = len(theirs) // 13
        np.testing.assert_array_equal(ours['input'], np.frombuffer(theirs[:rows * 13], np.uint8).reshape(rows, 13))

    # What a plug-in's own data set, which holds its samples in memory, gives back of numpy's bytes.
    def test_memory(self):
        arrays = {'x': self.random.normal(size=(9, 2, 3)).astype(np.float32), 'd': self.random.normal(size=(9, 1)),
                  'h': self.random.normal(size=(9, 4)).astype(np.float16), 'm': self.random.normal(size=9) > 0,
                  'b': self.random.integers(0, 256, size=(9, 5)).astype(np.uint8),
                  'y': self.random.integers(-2**62, 2**62, size=9)}
        words = []
        for name, array in arrays.items():
            path = self.path('memory', name)
            array.tofile(path)
            words += [name, array.dtype.name, ','.join(map(str, array.shape[1:])) or '-', path]
        ours = self.printed(*words)
        self.assertEqual(list(ours), list(arrays))
        for name, array in arrays.items():
            self.assertEqual(ours[name].dtype, array.dtype)
            np.testing.assert_array_equal(ours[name], array, err_msg=name)

    def pictures(self):
        """(name, PIL's image): slopes with noise, so that neither decoder nor filter has an easy time."""
        for i, (mode, size) in enumerate([('RGB', (40, 30)), ('L', (33, 47)), ('RGB', (64, 64)), ('P', (20, 50)),
                                          ('RGBA', (31, 29)), ('1', (24, 24))]):
            width, height = size
            slope = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[:, :, None] + [0, 40, 90]
            noise = self.random.integers(0, 30, size=(height, width, 3))
            image = Image.fromarray(((slope + noise) % 256).astype(np.uint8))
            if mode == 'RGBA':
                image.putalpha(Image.fromarray((slope[:, :, 0] % 256).astype(np.uint8)))
            yield f'{i}-{mode}', image if mode == 'RGBA' else image.convert(mode)

    def expected(self, image, box_of=(24, 32)):
        """The middle part of the shape of (height, width), at that size, as PIL makes it."""
        height, width = box_of
        image = image.convert('RGB')
        if image.width * height > image.height * width:
            part = (max(1, image.height * width // height), image.height)
        else:
            part = (image.width, max(1, image.width * height // width))
        left, top = (image.width - part[0]) // 2, (image.height - part[1]) // 2
        image = image.crop((left, top, left + part[0], top + part[1]))
        if image.size != (width, height):
            image = image.resize((width, height), Image.BILINEAR)
        return np.asarray(image).transpose(2, 0, 1).astype(float)

    def test_png(self):
        expected = []
        for name, image in self.pictures():
            image.save(self.path('data', 'one', name + '.png'))
            expected.append(self.expected(Image.open(self.path('data', 'one', name + '.png'))))
        ours = self.read('format: images, image_size: [24, 32]')
        for i, image in enumerate(expected):
            self.assertLessEqual(np.abs(ours['image'][i] * 255 - image).max(), 0.001, f'picture {i}')

    def test_jpeg(self):
        expected = []
        for name, image in self.pictures():
            if image.mode in ('RGB', 'L'):
                for sampling in (0, 1, 2):
                    path = self.path('data', 'one', f'{name}-{sampling}.jpg')
                    image.save(path, quality=90, subsampling=sampling, progressive=sampling == 1)
                    expected.append(self.expected(Image.open(path)))
        ours = self.read('format: images, image_size: [24, 32]')
        for i, image in enumerate(expected):
            self.assertLessEqual(np.abs(ours['image'][i] * 255 - image).max(), 1.001, f'picture {i}')

    # Of the size that is asked for, and resized. A level of each of two inks may differ.
    def test_jpeg_of_inks(self):
        path = self.path('data', 'one', 'inks.jpg')
        pixels = self.random.integers(0, 256, size=(24, 32, 4)).astype(np.uint8)
        Image.frombuffer('CMYK', (32, 24), pixels.tobytes(), 'raw', 'CMYK', 0, 1).save(path, quality=95)
        for shape in ((24, 32), (12, 16)):
            with Image.open(path) as image:
                self.assertEqual(image.mode, 'CMYK')
                expected = self.expected(image, shape)
            ours = self.read(f'format: images, image_size: [{shape[0]}, {shape[1]}]')
            self.assertLessEqual(np.abs(ours['image'][0] * 255 - expected).max(), 2.001, shape)

    def test_webdataset(self):
        images = [image.convert('RGB').resize((16, 16)) for _, image in self.pictures()]
        for shard in range(2):
            with tarfile.open(self.path('data', f'{shard}.tar'), 'w', format=tarfile.PAX_FORMAT) as tar:
                for i, image in list(enumerate(images))[shard * 3:shard * 3 + 3]:
                    png = io.BytesIO()
                    image.save(png, 'png')
                    # A name that has no room in the header of old.
                    name = 'ä' * 60 + f'/{"long" * 30}{i}'
                    for kind, content in (('png', png.getvalue()), ('cls', str(i * 7).encode())):
                        info = tarfile.TarInfo(f'{name}.{kind}')
                        info.size = len(content)
                        tar.addfile(info, io.BytesIO(content))
        ours = self.read('format: webdataset')
        np.testing.assert_array_equal(ours['label'], [i * 7 for i in range(6)])
        for i, image in enumerate(images):
            np.testing.assert_array_equal(np.rint(ours['image'][i] * 255), np.asarray(image).transpose(2, 0, 1))


if __name__ == '__main__':
    unittest.main()
