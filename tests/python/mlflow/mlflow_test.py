#!/usr/bin/env python3
"""Runs of real jobs at MLflow's own tracking server, read by its own client.

MUSTER_PROGRAMS is the folder of muster and the programs that it starts.
"""

import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

os.environ['MLFLOW_DISABLE_TELEMETRY'] = 'true'

from mlflow.tracking import MlflowClient

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from watched_jobs import GOES_BACK, STEPS, WatchedJobs

NEXT_START = 'the next start with --mlflow sends it'
CURVES = ('loss', 'learning_rate', 'gradient_norm', 'samples_per_second', 'validation.loss')

# And the coordinator, too.
FAULTS = f'{GOES_BACK}- {{at_step: 45, kill: coordinator, for_steps: 5}}\n'


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Server:
    """MLflow, with its state in a folder."""

    def __init__(self, folder, port):
        self.url = f'http://127.0.0.1:{port}'
        self.log = open(folder / 'mlflow.log', 'ab')
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'mlflow', 'server', '--host', '127.0.0.1', '--port', str(port), '--workers', '1',
             '--backend-store-uri', f'sqlite:///{folder}/mlflow.db', '--default-artifact-root', f'{folder}/artifacts'],
            stdout=self.log, stderr=self.log, start_new_session=True)
        end = time.monotonic() + 120
        pause = threading.Event()  # that nobody sets: it tells of no begin
        while True:
            try:
                urllib.request.urlopen(f'{self.url}/health', timeout=5).read()
                return
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.stop()
                    raise
                pause.wait(0.2)

    def stop(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, 9)
        self.process.wait()
        self.log.close()


class MlflowTest(WatchedJobs):
    FAULTS = FAULTS

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.server_folder = pathlib.Path(scratch.name)
        cls.port = free_port()
        cls.server = Server(cls.server_folder, cls.port)
        cls.addClassCleanup(lambda: cls.server.stop())
        cls.client = MlflowClient(tracking_uri=cls.server.url)

    def setUp(self):
        super().setUp()
        self.experiment = self.id().rsplit('.', 1)[1]

    def train(self, *words, code=0):
        return self.muster('train', 'job.yaml', '--dir', self.folder, '--mlflow', self.server.url,
                           '--mlflow-experiment', self.experiment, *words, code=code)

    def train_and_send(self, *words, then=()):
        """Until the server has all: one that is slow, as on a machine with much to do, gets what it lacks from the next
        start, as the warning says."""
        told = self.train(*words, *then)
        for _ in range(5):
            if NEXT_START not in told:
                return
            told = self.train(*then)
        self.fail(told)

    def run_there(self):
        experiment = self.client.get_experiment_by_name(self.experiment)
        [run] = self.client.search_runs([experiment.experiment_id])
        return run

    def assert_shows(self, run, history, not_of=()):
        """Every value of the history once, and nothing else. Times are those of when a step was done first."""
        for curve in CURVES:
            with self.subTest(curve):
                there = self.client.get_metric_history(run.info.run_id, curve)
                steps = [point.step for point in there]
                self.assertEqual(len(steps), len(set(steps)), 'twice')
                told = {point.step: point.value for point in there}
                if curve in not_of:
                    continue
                expected = {step['step']: step[curve] for step in history if step.get(curve) is not None}
                self.assertEqual(sorted(told), sorted(expected))
                if curve != 'samples_per_second':
                    for step, value in expected.items():
                        self.assertTrue(math.isclose(told[step], value, rel_tol=1e-6), f'{told[step]} for {value}')

    def test_a_job_that_goes_back_is_one_run_with_each_step_once(self):
        self.train_and_send('--faults', 'faults.yaml')
        history = self.history()
        self.assertEqual([step['step'] for step in history], list(range(STEPS)))
        self.assertGreater(history[-1]['lineage'], 1, 'it has gone back')
        run = self.run_there()
        # The speed is not known in the first step of a view, and views were others the first time.
        self.assert_shows(run, history, not_of=('samples_per_second',))
        self.assertEqual(run.info.status, 'FINISHED')
        self.assertEqual(run.data.params['task'], 'counting')
        self.assertEqual(float(run.data.params['optimizer.learning_rate']), 0.125)
        self.assertNotIn('workers', run.data.params, 'it trains nothing else')
        self.assertEqual(run.data.tags['muster.namespace'], 'default')
        self.assertEqual(len(run.data.tags['muster.digest']), 64)
        self.assertEqual(run.info.run_name, run.data.tags['muster.job'])

    def test_what_is_measured_is_a_curve(self):
        self.write_language()
        self.train_and_send()
        run = self.run_there()
        self.assert_shows(run, self.history())
        there = self.client.get_metric_history(run.info.run_id, 'validation.loss')
        self.assertEqual([point.step for point in there], [4, 8, 12])

    def test_a_job_that_is_made_longer_goes_on_with_its_run(self):
        constant = ('--set', 'schedule.kind=constant')
        self.train_and_send(then=('--set', 'steps=20', *constant))
        before = self.run_there()
        self.assertEqual(before.info.status, 'FINISHED')
        self.train_and_send(then=constant)
        run = self.run_there()
        self.assertEqual(run.info.run_id, before.info.run_id)
        self.assert_shows(run, self.history(), not_of=('samples_per_second',))
        self.assertEqual(run.data.tags['muster.now.steps'], str(STEPS))

    def test_a_server_that_is_gone_stops_no_training_and_gets_all_later(self):
        self.server.stop()
        told = self.train()
        self.assertIn('does not take what it is sent', told)
        self.assertIn(NEXT_START, told)
        type(self).server = Server(self.server_folder, self.port)
        self.train_and_send()
        run = self.run_there()
        self.assert_shows(run, self.history())
        self.assertEqual(run.info.status, 'FINISHED')


if __name__ == '__main__':
    unittest.main()
