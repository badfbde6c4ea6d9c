#!/usr/bin/env python3
"""Models without C++: one that PyTorch scripts and saves is trained by Muster, and one that a job lists; the trained
weights go back into PyTorch's module.

MUSTER_PROGRAMS is the folder of the programs.
"""

import json
import os
import subprocess
import tempfile
import unittest

from needs_torch import needs_torch, nn, torch

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')
ROWS = 96


def muster(*words, code=0):
    done = subprocess.run([MUSTER, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout


if torch is not None:

    class Net(nn.Module):
        """Names within names, batch norm, dropout, one weight under two names, and one that is frozen."""

        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.05), nn.Linear(8, 8))
            self.again = nn.Linear(8, 8)
            self.again.weight = self.body[4].weight
            self.head = nn.Linear(8, 1)
            self.scale = nn.Parameter(torch.tensor([0.5]), requires_grad=False)
            self.register_buffer('runs', torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            if self.training:
                self.runs = self.runs + 1
            return self.head(torch.tanh(self.again(torch.tanh(self.body(x))))) * self.scale


class ModelsTest(unittest.TestCase):

    @needs_torch
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = scratch.name
        torch.manual_seed(3)
        self.rows = torch.randn(ROWS, 2)
        with open(self.path('rows.csv'), 'w') as out:
            for a, b in self.rows.tolist():
                out.write(f'{a!r},{b!r},{a * b!r}\n')
        os.mkdir(self.path('plugins'))

    def path(self, *names):
        return os.path.join(self.root, *names)

    def job(self, task='torchscript', parameters=None):
        file = self.path('job.yaml')
        with open(file, 'w') as out:
            json.dump({'task': task, 'parameters': parameters or {'file': 'net.pt', 'loss': 'mse'},
                       'data': {'paths': [self.path('rows.csv')], 'format': 'csv', 'header': False, 'label': '3'},
                       'batch': 32, 'lanes': 4, 'epochs': 30,
                       'optimizer': {'kind': 'adamw', 'learning_rate': 0.02}}, out)
        return file

    def test_scripted(self):
        net = Net()
        torch.jit.script(net).save(self.path('plugins', 'net.pt'))
        plugins = ('--plugins', self.path('plugins'))
        muster('check', self.job(), *plugins)
        muster('train', self.job(), *plugins, '--workers', '2', '--dir', self.path('run'))
        muster('export', '--dir', self.path('run'), '--format', 'pt', '-o', self.path('model.pt'))
        state = torch.load(self.path('model.pt'), weights_only=True)
        self.assertEqual(set(state), set(net.state_dict()))
        self.assertTrue(torch.equal(state['scale'], net.scale))
        self.assertFalse(torch.equal(state['head.weight'], net.head.weight))
        self.assertEqual(int(state['runs']), 90, 'a step counts once, by lane 0')
        self.assertEqual(int(state['body.1.num_batches_tracked']), 90)
        net.load_state_dict(state)
        net.eval()
        with torch.no_grad():
            loss = nn.functional.mse_loss(net(self.rows)[:, 0], self.rows[:, 0] * self.rows[:, 1])
        told = json.loads(muster('evaluate', '--dir', self.path('run'), *plugins, '--json'))
        self.assertAlmostEqual(told['metrics']['loss'], float(loss), places=5)
        self.assertLess(float(loss), 0.5, 'the best constant has a loss of about 1')

    def test_traced(self):
        net = Net().eval()
        torch.jit.trace(net, self.rows[:4]).save(self.path('plugins', 'net.pt'))
        muster('check', self.job(), '--plugins', self.path('plugins'))

    def test_layers(self):
        layers = [{'linear': 8}, 'batch_norm', {'leaky_relu': 0.2}, {'linear': {'size': 8, 'bias': False}},
                  'layer_norm', 'gelu', {'dropout': 0.05}, {'linear': 1}]
        parameters = {'layers': layers, 'loss': 'huber', 'loss_beta': 0.5}
        muster('train', self.job('layers', parameters), '--workers', '2', '--dir', self.path('run'))
        muster('export', '--dir', self.path('run'), '--format', 'pt', '-o', self.path('model.pt'))
        net = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.LeakyReLU(0.2), nn.Linear(8, 8, bias=False),
                            nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.05), nn.Linear(8, 1)).eval()
        net.load_state_dict(torch.load(self.path('model.pt'), weights_only=True))
        with torch.no_grad():
            out, label = net(self.rows)[:, 0], self.rows[:, 0] * self.rows[:, 1]
        told = json.loads(muster('evaluate', '--dir', self.path('run'), '--json'))['metrics']
        self.assertAlmostEqual(told['loss'], float(nn.functional.huber_loss(out, label, delta=0.5)), places=5)
        self.assertAlmostEqual(told['mean_absolute_error'], float((out - label).abs().mean()), places=5)

    def test_what_does_not_fit(self):
        for module, says in ((nn.Linear(3, 1), 'cannot be multiplied'),
                             (nn.Linear(2, 1).double(), 'is of type Double'),
                             (nn.Tanh(), 'has no parameter to train')):
            torch.jit.script(module).save(self.path('plugins', 'net.pt'))
            told = muster('check', self.job(), '--plugins', self.path('plugins'), code=64)
            self.assertIn(says, told)
            self.assertEqual(told.count('\n'), 1, told)
        torch.save(Net().state_dict(), self.path('plugins', 'net.pt'))
        self.assertIn('is a file of torch.save, which holds no code',
                      muster('check', self.job(), '--plugins', self.path('plugins'), code=64))


if __name__ == '__main__':
    unittest.main(verbosity=2)
