"""A client that openapi-python-client generates from the document works on a cluster with TLS and tokens."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from cluster import SOURCE, ClusterTest, main, until


class Generated(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tools = Path(sys.executable).parent
        made = cls.cluster.folder / 'generated'
        said = subprocess.run(
            [tools / 'openapi-python-client', 'generate', '--path', SOURCE / 'docs/openapi.json', '--meta', 'none',
             '--output-path', made / 'generated_muster', '--fail-on-warning'],
            env={**os.environ, 'PATH': f'{tools}:{os.environ["PATH"]}'}, capture_output=True, text=True, timeout=300)
        assert said.returncode == 0, said.stdout + said.stderr
        sys.path.insert(0, str(made))
        cls.addClassCleanup(sys.path.remove, str(made))
        cls.models = importlib.import_module('generated_muster.models')

    def setUp(self):
        self.token = self.cluster.admin

    def client_of(self, token):
        client = importlib.import_module('generated_muster.client')
        return client.AuthenticatedClient(self.cluster.url, token, verify_ssl=self.cluster.context)

    def call(self, name, *values, tag='jobs', **more):
        call = importlib.import_module(f'generated_muster.api.{tag}.{name}').sync_detailed
        with self.client_of(self.token) as client:
            return call(*values, client=client, **more)

    def spec(self, steps):
        return self.models.JobSpec.from_dict({
            'task': 'counting', 'steps': steps, 'reduction': 'sum', 'workers': {'min': 1, 'max': 2},
            'optimizer': {'kind': 'sgd', 'learning_rate': 1}})

    def until_state(self, job, state):
        def look():
            now = self.call('get_job', job).parsed
            return now if now.state == state else None
        return until(f'{job} {state}', look)

    def test_a_job_is_submitted_and_looked_at(self):
        made = self.call('submit_job', body=self.models.Submission(spec=self.spec(100), id='made'))
        self.assertEqual((made.status_code, made.parsed.id), (201, 'made'))
        done = self.until_state('made', 'done')
        self.assertIsInstance(done, self.models.Job)
        self.assertEqual((done.step, done.exit_code, done.seconds_left), (100, 0, None))
        self.assertEqual(done.spec.optimizer.kind, 'sgd')
        self.assertIn('made', [job.id for job in self.call('list_jobs', limit=5).parsed.jobs])
        self.assertEqual(self.call('get_digest', 'made').parsed.digest, done.digest)
        self.assertTrue(self.call('audit_job', 'made').parsed.ok)
        self.assertIn('"event":"done"', self.call('watch_job', 'made').parsed)
        self.assertIn('worker-0', self.call('get_logs', 'made').parsed)
        self.assertTrue(self.call('follow_logs', 'made').parsed.lines)
        self.assertEqual(len(self.call('get_history', 'made').parsed.steps), 100)

    def test_one_is_stopped_and_cancelled(self):
        self.call('submit_job', body=self.models.Submission(spec=self.spec(10**9), id='long'))
        self.until_state('long', 'running')
        self.call('set_queue', 'long', body=self.models.QueueChange(priority=7))
        self.assertEqual(self.call('get_job', 'long').parsed.spec.priority, 7)
        self.call('scale_job', 'long', body=self.models.Scaling(workers=1))
        self.call('stop_job', 'long')
        self.until_state('long', 'stopped')
        self.assertEqual(self.call('cancel_job', 'long').parsed.state, 'cancelled')

    def test_errors_are_values_with_code_and_message(self):
        missing = self.call('get_job', 'nobody')
        self.assertEqual((missing.status_code, missing.parsed.error.code), (404, 'not_found'))
        wrong = self.call('submit_job', body=self.models.Submission(spec=self.models.JobSpec.from_dict(
            {'task': 'counting', 'steps': 5, 'epochs': 5})))
        self.assertEqual((wrong.status_code, wrong.parsed.error.field), (400, 'epochs'))
        self.token = 'muster-ada-wrong'
        self.assertEqual(self.call('list_jobs').status_code, 401)

    def test_hosts_and_tokens(self):
        self.assertTrue(self.call('list_hosts', tag='hosts').parsed.hosts[0].up)
        asked = self.models.TokenRequest(user='ada', role=self.models.TokenRequestRole.VIEWER, namespace='default')
        token = self.call('make_token', tag='tokens', body=asked).parsed
        self.assertEqual(token.user, 'ada')
        self.assertEqual(self.call('revoke_token', token.id, tag='tokens').status_code, 200)


if __name__ == '__main__':
    main()
