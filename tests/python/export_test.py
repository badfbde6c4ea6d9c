#!/usr/bin/env python3
"""Exported weights beside Python's own readers: a small model is trained, exported in each format and loaded.

MUSTER_PROGRAMS is the folder of the programs, MUSTER_PLUGINS that of the example's plug-in.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load_file, save_file

from needs_torch import needs_torch, torch

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')
PLUGINS = os.environ['MUSTER_PLUGINS']
STEPS = 24
SHAPES = {'first.weight': (12, 2), 'first.bias': (12,), 'last.weight': (1, 12), 'last.bias': (1,)}


def muster(*words):
    done = subprocess.run([MUSTER, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


if torch is not None:

    class Tied(torch.nn.Module):
        """One weight in two layers."""

        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(2, 6)
            self.again = torch.nn.Linear(6, 6)
            self.more = torch.nn.Linear(6, 6)
            self.more.weight = self.again.weight
            self.last = torch.nn.Linear(6, 1)

        def forward(self, x):
            return self.last(torch.tanh(self.more(torch.tanh(self.again(torch.tanh(self.first(x)))))))


class ExportTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.root = cls.scratch.name
        random = np.random.default_rng(5)
        cls.rows = random.normal(size=(48, 3)).astype(np.float32)
        np.savetxt(cls.path('rows.csv'), cls.rows, delimiter=',', fmt='%.9g')
        with open(cls.path('job.yaml'), 'w') as out:
            json.dump({'task': 'mlp', 'parameters': {'hidden': 12},
                       'data': {'paths': [cls.path('rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                       'batch': 12, 'lanes': 6, 'steps': STEPS,
                       'optimizer': {'kind': 'adamw', 'learning_rate': 0.03, 'weight_decay': 0.1}}, out)
        muster('train', cls.path('job.yaml'), '--workers', '2', '--plugins', PLUGINS, '--dir', cls.path('run'))

    @classmethod
    def path(cls, name):
        return os.path.join(cls.root, name)

    def export(self, form, *words):
        file = self.path('model.' + form)
        told = json.loads(muster('export', '--dir', self.path('run'), '--format', form, '-o', file, '--json', *words))
        self.assertEqual(told['step'], STEPS)
        return file

    def test_safetensors(self):
        tensors = load_file(self.export('safetensors', '--optimizer'))
        expected = dict(SHAPES)
        for name, shape in SHAPES.items():
            expected['optimizer.exp_avg.' + name] = expected['optimizer.exp_avg_sq.' + name] = shape
        self.assertEqual({name: array.shape for name, array in tensors.items()}, expected)
        hidden = np.tanh(self.rows[:, :2] @ tensors['first.weight'].T + tensors['first.bias'])
        out = (hidden @ tensors['last.weight'].T + tensors['last.bias'])[:, 0]
        measured = json.loads(muster('evaluate', '--dir', self.path('run'), '--plugins', PLUGINS, '--json'))
        self.assertAlmostEqual(measured['metrics']['loss'], float(np.mean((out - self.rows[:, 2]) ** 2)), places=5)

    def begun(self, *settings):
        """What a job begins with, which makes one step at rate 0 with these settings."""
        self.addCleanup(shutil.rmtree, self.path('begun'), ignore_errors=True)
        words = [word for setting in settings for word in ('--set', setting)]
        muster('train', self.path('job.yaml'), '--plugins', PLUGINS, '--dir', self.path('begun'), '--set', 'steps=1',
               '--set', 'optimizer={kind: sgd, learning_rate: 0}', *words)
        file = self.path('begun.safetensors')
        muster('export', '--dir', self.path('begun'), '-o', file)
        return load_file(file)

    def test_a_job_begins_with_what_safetensors_saves(self):
        halves = {name: array.astype(np.float16) for name, array in load_file(self.export('safetensors')).items()}
        file = self.path('halves.bin')
        save_file({'module.' + name: array for name, array in halves.items()}, file, metadata={'of': 'a test'})
        begun = self.begun(f'initial={{file: {file}, map: [{{from: module.}}]}}')
        self.assertEqual(set(begun), set(SHAPES))
        for name, array in begun.items():
            self.assertTrue(np.array_equal(array, halves[name].astype(np.float32)), name)

    @needs_torch
    def test_a_job_begins_with_what_torch_saves(self):
        torch.manual_seed(3)
        module = torch.nn.Module()
        module.first, module.last = torch.nn.Linear(2, 12), torch.nn.Linear(12, 1)
        file = self.path('module.pth')
        torch.save(module.state_dict(), file)
        for name, array in self.begun(f'initial.file={file}').items():
            self.assertTrue(np.array_equal(array, module.state_dict()[name].numpy()), name)

    @needs_torch
    def test_a_job_begins_with_each_of_our_own_exports(self):
        tensors = load_file(self.export('safetensors'))
        for form, *words in (['pt'], ['pt', '--optimizer'], ['libtorch']):
            begun = self.begun(f'initial.file={self.export(form, *words)}')
            self.assertEqual(set(begun), set(SHAPES))
            for name, array in begun.items():
                self.assertTrue(np.array_equal(array, tensors[name]), (form, name))
            shutil.rmtree(self.path('begun'))

    @needs_torch
    def test_a_job_begins_with_a_scripted_module(self):
        torch.manual_seed(4)
        module = torch.nn.Module()
        module.first, module.last = torch.nn.Linear(2, 12), torch.nn.Linear(12, 1)
        module.sizes, module.words = [1, 2], {'a': 3}
        file = self.path('module.ts')
        torch.jit.script(module).save(file)
        for name, array in self.begun(f'initial.file={file}').items():
            self.assertTrue(np.array_equal(array, module.state_dict()[name].numpy()), name)

    @needs_torch
    def test_pt(self):
        tensors = load_file(self.export('safetensors', '--optimizer'))
        model = torch.load(self.export('pt'), weights_only=True)
        self.assertEqual(list(model), list(SHAPES))
        whole = torch.load(self.export('pt', '--optimizer'), weights_only=True)
        for name, tensor in model.items():
            self.assertTrue(np.array_equal(tensor.numpy(), tensors[name]), name)
            self.assertTrue(torch.equal(tensor, whole['model'][name]), name)
        mapped = torch.load(self.export('pt'), weights_only=True, mmap=True)
        self.assertTrue(torch.equal(mapped['first.weight'], model['first.weight']))
        parameters = [torch.nn.Parameter(tensor) for tensor in model.values()]
        optimizer = torch.optim.AdamW(parameters)
        optimizer.load_state_dict(whole['optimizer'])
        for parameter, name in zip(parameters, SHAPES):
            state = optimizer.state[parameter]
            self.assertEqual(state['step'].item(), STEPS)
            for slot in ('exp_avg', 'exp_avg_sq'):
                self.assertTrue(np.array_equal(state[slot].numpy(), tensors[f'optimizer.{slot}.{name}']), name)
        self.assertEqual(optimizer.param_groups[0]['lr'], 0.03)
        self.assertEqual(optimizer.param_groups[0]['weight_decay'], 0.1)
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    @needs_torch
    def test_pt_of_groups_and_a_moving_average(self):
        with open(self.path('groups.yaml'), 'w') as out:
            json.dump({'task': 'mlp', 'parameters': {'hidden': 12},
                       'data': {'paths': [self.path('rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                       'batch': 12, 'lanes': 6, 'steps': 6, 'ema': {'decay': 0.5},
                       'optimizer': {'kind': 'rmsprop', 'learning_rate': 0.01, 'weight_decay': 0.1},
                       'groups': [{'match': '*.bias', 'learning_rate_factor': 0.5, 'weight_decay': 0}]}, out)
        muster('train', self.path('groups.yaml'), '--plugins', PLUGINS, '--dir', self.path('groups'))
        file = self.path('groups.pt')
        muster('export', '--dir', self.path('groups'), '--format', 'pt', '--optimizer', '-o', file)
        whole = torch.load(file, weights_only=True)
        self.assertEqual(list(whole['ema']), list(SHAPES))
        for name, average in whole['ema'].items():
            self.assertFalse(torch.equal(average, whole['model'][name]), name)
        parameters = {name: torch.nn.Parameter(tensor) for name, tensor in whole['model'].items()}
        of = lambda kind: {'params': [p for name, p in parameters.items() if name.endswith(kind)]}
        optimizer = torch.optim.RMSprop([of('weight'), of('bias')])
        optimizer.load_state_dict(whole['optimizer'])
        self.assertEqual([(g['lr'], g['weight_decay']) for g in optimizer.param_groups], [(0.01, 0.1), (0.005, 0)])
        for name, parameter in parameters.items():
            self.assertEqual(optimizer.state[parameter]['square_avg'].shape, SHAPES[name])
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    @needs_torch
    def test_libtorch(self):
        tensors = load_file(self.export('safetensors'))
        archive = torch.jit.load(self.export('libtorch'))
        found = dict(archive.named_parameters())
        self.assertEqual(set(found), set(SHAPES))
        for name, tensor in found.items():
            self.assertTrue(np.array_equal(tensor.detach().numpy(), tensors[name]), name)

    def train_tied(self, name, *settings, code=0):
        """Trains what tied/tied.pt is, as a job of that name."""
        with open(self.path('tied.yaml'), 'w') as out:
            json.dump({'task': 'torchscript', 'parameters': {'file': 'tied.pt', 'loss': 'mse'},
                       'data': {'paths': [self.path('rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                       'batch': 12, 'lanes': 6, 'steps': STEPS, 'ema': {'decay': 0.5},
                       'optimizer': {'kind': 'adamw', 'learning_rate': 0.03, 'weight_decay': 0.1}}, out)
        words = [word for setting in settings for word in ('--set', setting)]
        done = subprocess.run([MUSTER, 'train', self.path('tied.yaml'), '--plugins', self.path('tied'), '--dir',
                               self.path(name), *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def export_of(self, name, form, *words):
        file = self.path(name + '.' + form)
        muster('export', '--dir', self.path(name), '--format', form, '-o', file, *words)
        return file

    @needs_torch
    def test_tied_weights_have_both_names_and_one_state_of_the_optimizer(self):
        torch.manual_seed(6)
        net = Tied()
        os.makedirs(self.path('tied'), exist_ok=True)
        torch.jit.script(net).save(self.path('tied/tied.pt'))
        self.train_tied('tied-run')
        names = set(net.state_dict())
        state = torch.load(self.export_of('tied-run', 'pt'), weights_only=True)
        self.assertEqual(set(state), names)
        self.assertEqual(state['again.weight'].data_ptr(), state['more.weight'].data_ptr())
        self.assertFalse(torch.equal(state['again.weight'], net.again.weight))
        net.load_state_dict(state)
        arrays = load_file(self.export_of('tied-run', 'safetensors', '--optimizer'))
        self.assertTrue(np.array_equal(arrays['again.weight'], arrays['more.weight']))
        self.assertEqual({name for name in arrays if not name.startswith(('optimizer.', 'ema.'))}, names)
        self.assertEqual({name[4:] for name in arrays if name.startswith('ema.')}, names)
        self.assertNotIn('optimizer.exp_avg.more.weight', arrays)
        archive = dict(torch.jit.load(self.export_of('tied-run', 'libtorch')).named_parameters())
        self.assertEqual(set(archive), names)
        self.assertTrue(torch.equal(archive['more.weight'], state['more.weight']))
        whole = torch.load(self.export_of('tied-run', 'pt', '--optimizer'), weights_only=True)
        self.assertEqual(set(whole['ema']), names)
        optimizer = torch.optim.AdamW(net.parameters())
        optimizer.load_state_dict(whole['optimizer'])
        for name, parameter in net.named_parameters():
            self.assertTrue(np.array_equal(optimizer.state[parameter]['exp_avg'].numpy(),
                                           arrays['optimizer.exp_avg.' + name]), name)

    @needs_torch
    def test_a_job_of_tied_weights_begins_with_any_of_their_names(self):
        torch.manual_seed(7)
        os.makedirs(self.path('tied'), exist_ok=True)
        torch.jit.script(Tied()).save(self.path('tied/tied.pt'))
        state = Tied().state_dict()
        still = ('steps=1', 'optimizer={kind: sgd, learning_rate: 0}')
        for left_out in (None, 'again.weight', 'more.weight'):
            torch.save({name: value for name, value in state.items() if name != left_out}, self.path('begin.pt'))
            self.train_tied('tied-begun', f'initial.file={self.path("begin.pt")}', *still)
            begun = torch.load(self.export_of('tied-begun', 'pt'), weights_only=True)
            for name, value in state.items():
                self.assertTrue(torch.equal(begun[name], value), (left_out, name))
            shutil.rmtree(self.path('tied-begun'))
        torch.save(state | {'more.weight': state['more.weight'] + 1}, self.path('begin.pt'))
        told = self.train_tied('tied-begun', f'initial.file={self.path("begin.pt")}', *still, code=64)
        self.assertIn("'again.weight' and 'more.weight' of the file are one tensor in the model", told)
        shutil.rmtree(self.path('tied-begun'), ignore_errors=True)


if __name__ == '__main__':
    unittest.main(verbosity=2)
