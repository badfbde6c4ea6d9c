"""Jobs whose curves are looked at, by TensorBoard's package and by MLflow's: what both tests train, and how.

MUSTER_PROGRAMS is the folder of muster and the programs that it starts.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

MUSTER = os.path.join(os.environ['MUSTER_PROGRAMS'], 'muster')
STEPS = 60

SPEC = f'''
name: seen
task: counting
data: {{samples: 1009}}
batch: 16
lanes: 3
steps: {STEPS}
optimizer: {{kind: adam, learning_rate: 0.125}}
schedule: {{kind: linear, warmup_steps: 5}}
clip_norm: 100
workers: 2
checkpoint: {{every_steps: 10}}
'''

# One whose model makes text in the end, and is measured on data of its own while it is trained.
LANGUAGE = '''
name: words
task: code-lm
parameters: {layers: 1, width: 16, heads: 2, context: 16}
data: {paths: [text]}
validation: {paths: [held-out], every_steps: 4}
batch: 8
lanes: 2
steps: 12
optimizer: {kind: adamw, learning_rate: 0.01}
'''

# All copies of a state at once, so that the job goes back to its checkpoint.
GOES_BACK = '''
- {at_step: 25, kill: worker-0}
- {at_step: 25, kill: worker-1}
'''


class WatchedJobs(unittest.TestCase):
    FAULTS = GOES_BACK

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)
        (self.root / 'job.yaml').write_text(SPEC)
        (self.root / 'faults.yaml').write_text(self.FAULTS)
        self.folder = self.root / 'run'

    def write_language(self):
        """job.yaml is LANGUAGE, and its texts are there."""
        for folder, words in (('text', 'workers add lanes'), ('held-out', 'a server sums lanes')):
            (self.root / folder).mkdir()
            (self.root / folder / 'text.txt').write_text(''.join(f'{words} {i * i}. ' for i in range(200)))
        (self.root / 'job.yaml').write_text(LANGUAGE)

    def muster(self, *words, code=0):
        done = subprocess.run([MUSTER, *map(str, words)], capture_output=True, text=True, timeout=300, cwd=self.root)
        self.assertEqual(done.returncode, code, f'{words}\n{done.stdout}\n{done.stderr}')
        return done.stdout

    def train(self, *words, code=0):
        return self.muster('train', 'job.yaml', '--dir', self.folder, *words, code=code)

    def history(self):
        lines = self.muster('history', '--dir', self.folder, '--json').splitlines()
        return [json.loads(line) for line in lines]
