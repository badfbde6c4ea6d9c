#!/usr/bin/env python3
"""Event files of real jobs, read by TensorBoard's own package.

MUSTER_PROGRAMS is the folder of muster and the programs that it starts.
"""

import json
import math
import pathlib
import re
import sys
import unittest

from tensorboard.backend.event_processing import event_accumulator, event_file_loader
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.util import tensor_util

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from watched_jobs import STEPS, WatchedJobs


def printable_lines(text):
    """As people are shown what others made: control characters as C++ writes them."""
    return re.sub(r'[^\t\n\x20-\x7e\xa0-\U0010ffff]', lambda found: f'\\x{ord(found[0]):02x}', text)


class TensorBoardTest(WatchedJobs):

    def run_of(self, folder):
        [run] = folder.iterdir()
        return run

    def files(self, run):
        """Those that have something, in the order of their names."""
        return [path for path in sorted(run.iterdir()) if path.stat().st_size > 0]

    def events(self, run):
        """Of all files, as they stand there."""
        return [event for path in self.files(run) for event in event_file_loader.EventFileLoader(str(path)).Load()]

    def read(self, run):
        seen = event_accumulator.EventAccumulator(str(run), size_guidance={'scalars': 0, 'tensors': 0})
        seen.Reload()
        return seen

    def assert_shows(self, seen, history):
        """Every value of the history once, and nothing else."""
        measured = sorted({tag for step in history for tag in step if tag.startswith('validation.')})
        self.assertEqual(sorted(tag for tag in seen.Tags()['scalars'] if tag.startswith('validation.')), measured)
        for tag in ('loss', 'learning_rate', 'gradient_norm', 'samples_per_second', *measured):
            with self.subTest(tag):
                told = {}
                for event in seen.Scalars(tag) if tag in seen.Tags()['scalars'] else []:
                    self.assertNotIn(event.step, told, 'twice')
                    told[event.step] = event.value
                history_of = {step['step']: step[tag] for step in history if step.get(tag) is not None}
                self.assertEqual(list(told), list(history_of))
                for step, value in history_of.items():
                    self.assertTrue(math.isclose(told[step], value, rel_tol=1e-6), f'{told[step]} for {value}')

    def text(self, seen, tag):
        """What the plug-in for text shows, without the four blanks that make code of a line."""
        self.assertEqual(seen.SummaryMetadata(tag).plugin_data.plugin_name, 'text')
        [text] = seen.Tensors(tag)
        lines = tensor_util.make_ndarray(text.tensor_proto).item().decode().split('\n')
        for line in lines:
            self.assertTrue(line.startswith('    '), line)
        return text.step, '\n'.join(line[4:] for line in lines)

    def test_a_job_that_goes_back_has_each_step_once(self):
        self.train('--faults', 'faults.yaml')
        history = self.history()
        self.assertEqual([step['step'] for step in history], list(range(STEPS)))
        self.assertGreater(history[-1]['lineage'], 1, 'it has gone back')
        run = self.run_of(self.folder / 'tensorboard')
        self.assert_shows(self.read(run), history)
        # Whoever knows nothing of the word that takes earlier steps back sees none twice either.
        steps = [event.step for event in self.events(run) if any(v.tag == 'loss' for v in event.summary.value)]
        self.assertEqual(steps, list(range(STEPS)))
        # Neither does metrics.jsonl.
        lines = (self.folder / 'jobs' / run.name / 'metrics.jsonl').read_text().splitlines()
        self.assertEqual([json.loads(line) for line in lines], history)

    def test_a_reader_of_a_growing_run_sees_no_step_twice(self):
        self.train('--set', 'steps=20', '--set', 'schedule.kind=constant')
        seen = self.read(self.run_of(self.folder / 'tensorboard'))
        self.assert_shows(seen, self.history())
        self.train('--set', f'steps={STEPS}', '--set', 'schedule.kind=constant')
        seen.Reload()
        history = self.history()
        self.assertEqual(len(history), STEPS)
        self.assert_shows(seen, history)

    def test_hyper_parameters_the_specification_and_the_end(self):
        self.train()
        run = self.run_of(self.folder / 'tensorboard')
        seen = self.read(run)
        content = seen.SummaryMetadata('_hparams_/session_start_info').plugin_data.content
        start = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info
        self.assertEqual(start.group_name, run.name)
        given = {name: getattr(value, value.WhichOneof('kind')) for name, value in start.hparams.items()}
        self.assertEqual(given['task'], 'counting')
        self.assertEqual(given['batch'], 16)
        self.assertEqual(given['optimizer.learning_rate'], 0.125)
        self.assertEqual(given['schedule.kind'], 'linear')
        self.assertNotIn('workers', given, 'it trains nothing else')
        content = seen.SummaryMetadata('_hparams_/session_end_info').plugin_data.content
        end = plugin_data_pb2.HParamsPluginData.FromString(content).session_end_info
        self.assertEqual(end.status, 1, 'STATUS_SUCCESS')
        self.assertIn('name: seen\n', self.text(seen, 'specification')[1])

    def test_what_is_measured_and_the_text_that_the_model_makes(self):
        self.write_language()
        result = json.loads(self.train('--json').splitlines()[-1])
        history = self.history()
        seen = self.read(self.run_of(self.folder / 'tensorboard'))
        self.assert_shows(seen, history)
        for tag in ('validation.loss', 'validation.perplexity', 'validation.accuracy'):
            self.assertEqual([event.step for event in seen.Scalars(tag)], [4, 8, 12], tag)
        step, text = self.text(seen, 'sample')
        self.assertEqual(step, 12, 'the last state, which was measured')
        self.assertGreater(len(result['sample']), 100)
        self.assertEqual(text, printable_lines(result['sample']))
        # A run that is written afterwards has them, too.
        self.muster('tensorboard', '--dir', self.folder, '-o', 'board')
        later = self.read(self.run_of(self.root / 'board'))
        self.assert_shows(later, history)
        self.assertEqual(self.text(later, 'sample'), (step, text))

    def test_what_has_been_is_the_same(self):
        self.train('--faults', 'faults.yaml')
        self.muster('tensorboard', '--dir', self.folder, '-o', 'board')
        self.assert_shows(self.read(self.run_of(self.root / 'board')), self.history())
        as_it_went, later = self.run_of(self.folder / 'tensorboard'), self.run_of(self.root / 'board')
        self.assertEqual(as_it_went.name, later.name)
        [first], [second] = self.files(as_it_went), self.files(later)
        self.assertEqual(first.read_bytes(), second.read_bytes())
        # A second time it takes the place of the first.
        self.muster('tensorboard', '--dir', self.folder, '-o', 'board')
        self.assertEqual(len(list(later.iterdir())), 1)


if __name__ == '__main__':
    unittest.main()
