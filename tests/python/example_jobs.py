"""Jobs of the examples, trained by Muster from specifications that stand in the tests.

MUSTER_PROGRAMS is the folder of the programs, MUSTER_EXAMPLES that of the examples' plug-ins, a folder for each. Data is
made by what lies in examples/, or lies there.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from needs_torch import needs_torch, torch

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')
PLUGINS = pathlib.Path(os.environ['MUSTER_EXAMPLES'])
SOURCE = pathlib.Path(__file__).resolve().parents[2] / 'examples'


def muster(*words):
    done = subprocess.run([MUSTER, *map(str, words)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class ExampleJobs(unittest.TestCase):

    @needs_torch
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(1)

    def make_data(self, example, *words):
        done = subprocess.run([sys.executable, SOURCE / example / 'make_data.py', *words], timeout=100)
        self.assertEqual(done.returncode, 0)

    def run_of(self, spec, settings=()):
        return self.folder / f"run{spec.get('seed', 0)}{'-'.join(settings).replace('/', '')[:20]}"

    def train(self, example, spec, *settings):
        """The weights at the end."""
        (self.folder / 'job.yaml').write_text(json.dumps(spec))
        run = self.run_of(spec, settings)
        muster('train', self.folder / 'job.yaml', '--plugins', PLUGINS / ('example_' + example), '--dir', run, '--workers', '2',
               *(word for setting in settings for word in ('--set', setting)))
        file = self.folder / 'model.pt'
        muster('export', '--dir', run, '--format', 'pt', '-o', file)
        return torch.load(file, weights_only=True)

    def begin_of(self, example, spec):
        """The weights of step 0: no step changes what a rate of 0 leaves, but what batch norm has counted."""
        return self.train(example, spec, 'steps=1', 'optimizer={kind: sgd, learning_rate: 0}', 'schedule={kind: constant}')

    def records(self, spec):
        return [json.loads(line) for line in muster('ledger', '--dir', self.run_of(spec), '--json').splitlines()]

    def evaluate(self, example, spec, *words):
        return json.loads(muster('evaluate', '--dir', self.run_of(spec), '--plugins', PLUGINS / ('example_' + example), *words,
                                 '--json'))
