"""What people do with clients/python, on a cluster with TLS and tokens; package_test.py runs it where that is."""

import contextlib
import dataclasses
import inspect
import io
import json
import os
import socket
import unittest
from unittest import mock

import muster_client
from cluster import SOURCE, Cluster, ClusterTest, counting, main, until
from muster_client import OVER, Client
from relay import Answers, Drips, IsFull, LosesAnswers, SomebodyElse, SpeaksPlainText

PATIENCE = 120
FOREVER = 10**9  # steps
NO_FAMILY = 45  # of addresses, which no kernel knows
# Long enough for two coordinators to be started meanwhile.
STEPS, SLOW = 600, {'data': {'samples': 1_000_000}, 'batch': 1000, 'checkpoint': {'every_steps': 100}}


class UsesTest(ClusterTest):
    def client(self, token=None, **more):
        return Client(self.cluster.url, token=token or self.cluster.admin, ca=self.cluster.ca, **more)

    def until_state(self, job, *states):
        return until(f'{job} {states}', lambda: (now := self.client().get(job)).state in states and now)


class Jobs(UsesTest):
    def test_a_job_is_submitted_followed_and_looked_at(self):
        client = self.client(self.cluster.token('ada', 'submitter'))
        job = client.submit({**counting(200), 'name': 'first'})
        self.assertTrue(job.id.startswith('first-'))
        events = list(client.follow(job.id, timeout=PATIENCE))
        self.assertEqual([event.fields['step'] for event in events if event.kind == 'step'], list(range(200)))
        self.assertEqual((events[-1].kind, events[-1].fields['state']), ('done', 'done'))
        done = client.wait(job.id, timeout=PATIENCE)
        self.assertEqual((done.state, done.step, done.exit_code, done.owner), ('done', 200, 0, 'ada'))
        self.assertTrue(done.is_over)
        self.assertEqual(client.digest(job.id).digest, done.digest)
        self.assertEqual(client.digest(job.id, step=200).step, 200)
        self.assertTrue(client.audit(job.id).ok)
        self.assertEqual([step.step for step in client.history(job.id)], list(range(200)))
        self.assertEqual([step.step for step in client.history(job.id, first=190)], list(range(190, 200)))
        self.assertIn('worker-0', client.logs(job.id, tail=3))
        lines = list(client.follow_logs(job.id, timeout=PATIENCE))
        self.assertTrue(lines)
        self.assertEqual({line.member for line in lines}, {'worker-0'})

    def test_the_readme_runs_as_it_stands(self):
        readme = (SOURCE / 'clients/python/README.md').read_text()
        places = {'"https://10.0.0.1:7080"': self.cluster.url, '"muster-ada-…"': self.cluster.token('ada', 'submitter'),
                  '"authority.pem"': str(self.cluster.ca), '"muster-cluster"': str(self.cluster.folder / 'cluster')}
        for text, real in places.items():
            self.assertEqual(readme.count(text), 1, text)
            readme = readme.replace(text, repr(real))
        blocks = [block.split('```')[0] for block in readme.split('```python\n')[1:]]
        said, names = io.StringIO(), {}
        with contextlib.redirect_stdout(said):
            for block in blocks:
                exec(block, names)
        self.assertEqual(names['done'].state, 'done')
        self.assertIn('worker-0', said.getvalue())
        self.assertTrue(said.getvalue().endswith('lanes lanes: 0 is out of range; allowed: 1 to 4096\n'))

    def test_files_are_submitted(self):
        client = self.client()
        yaml = client.submit(SOURCE / 'examples/counting.yaml', id='of-yaml')
        self.assertEqual(yaml.spec['reduction'], 'sum')
        file = self.cluster.folder / 'job.json'
        file.write_text(json.dumps(counting(3)))
        self.assertEqual(client.submit(str(file), id='of-json').spec['steps'], 3)
        file.with_suffix('.yaml').write_text('task: [')
        for bad in (file.with_suffix('.yaml'), file.with_suffix('.toml')):
            with self.assertRaises(muster_client.MusterError):
                client.submit(bad)
        file.write_text(json.dumps({'task': 'code-lm', 'steps': 1, 'data': {'paths': ['here']}}))
        self.assertEqual(client.submit(file, id='paths').spec['data']['paths'], [os.path.abspath('here')])

    def test_it_is_stopped_resumed_and_cancelled(self):
        client = self.client()
        client.submit(counting(FOREVER), id='long')
        self.until_state('long', 'running')
        client.stop('long')
        stopped = client.wait('long', timeout=PATIENCE)
        self.assertEqual(stopped.state, 'stopped')
        self.assertIsNotNone(stopped.checkpoint_step)
        again = client.resume('long', timeout=PATIENCE)
        self.assertNotIn(again.state, OVER)
        self.until_state('long', 'running')
        self.assertEqual(client.resume('long', timeout=PATIENCE).state, 'running')
        client.stop('long')
        client.wait('long', timeout=PATIENCE)
        client.submit(counting(FOREVER), id='long')  # the same as resume, for who has the specification
        self.until_state('long', 'running')
        client.cancel('long')
        self.assertEqual(client.wait('long', timeout=PATIENCE).state, 'cancelled')
        client.delete('long')
        until('its end', lambda: not self.is_there('long'))

    def is_there(self, job):
        try:
            self.client().get(job)
        except muster_client.NotFound:
            return False
        return True

    def test_it_is_scaled(self):
        client = self.client()
        client.submit(counting(FOREVER, lanes=4, batch=4, workers=1), id='grows')
        self.until_state('grows', 'running')
        self.assertEqual(client.scale('grows', 2).spec['workers'], {'min': 1, 'max': 2})
        self.assertEqual(client.scale('grows', (1, 3)).spec['workers'], {'min': 1, 'max': 3})
        client.cancel('grows')

    def test_lists_come_page_by_page(self):
        client = self.client()
        for number in range(7):
            client.submit(counting(2, labels={'of': 'pages', 'number': str(number)}), id=f'page-{number}')
        listed = [job.id for job in client.list(labels={'of': 'pages'}, page_size=3)]
        self.assertEqual(listed, [f'page-{number}' for number in range(7)])
        self.assertEqual([job.id for job in client.list(labels={'of': 'pages', 'number': '4'})], ['page-4'])
        self.assertEqual(list(client.list(namespace='elsewhere')), [])
        for job in client.list(state='running'):
            self.assertEqual(job.state, 'running')

    def test_checkpoints_are_listed_kept_and_deleted(self):
        client, viewer = self.client(), self.client(self.cluster.token('vera', 'viewer'))
        for steps in (5, 10, 15):  # it goes on, and each end has a checkpoint
            client.submit(counting(steps, checkpoint={'keep': 9}), id='saves')
            client.wait('saves', timeout=PATIENCE)
        early, middle, newest = saved = list(viewer.checkpoints('saves'))
        self.assertEqual([one.step for one in saved], [5, 10, 15])
        for one in saved:
            self.assertEqual((one.complete, one.finite, one.why, one.name), (True, True, None, None))
            self.assertFalse(one.left_out or one.deleting or one.best)
        self.assertEqual(client.keep_checkpoint('saves', early.checkpoint, 'early').name, 'early')
        self.assertEqual([one.name for one in viewer.checkpoints('saves')], ['early', None, None])
        with self.assertRaises(muster_client.AlreadyExists):
            client.keep_checkpoint('saves', middle.checkpoint, 'early')
        with self.assertRaises(muster_client.InvalidArgument) as wrong:
            client.keep_checkpoint('saves', middle.checkpoint, 'No Name')
        self.assertEqual(wrong.exception.field, 'name')
        for call in (lambda: viewer.keep_checkpoint('saves', middle.checkpoint, 'mine'),
                     lambda: viewer.delete_checkpoint('saves', middle.checkpoint)):
            with self.assertRaises(muster_client.PermissionDenied):
                call()
        for one in (early, newest):
            with self.assertRaises(muster_client.FailedPrecondition):
                client.delete_checkpoint('saves', one.checkpoint)
        client.delete_checkpoint('saves', middle.checkpoint)
        with self.assertRaises(muster_client.NotFound):
            client.delete_checkpoint('saves', middle.checkpoint)
        client.delete_checkpoint('saves', early.checkpoint, force=True)
        self.assertEqual(client.keep_checkpoint('saves', newest.checkpoint, 'end').name, 'end')
        self.assertIsNone(client.keep_checkpoint('saves', newest.checkpoint, None).name)
        self.assertEqual([one.step for one in viewer.checkpoints('saves')], [15])

    def test_nothing_is_waited_for_longer_than_is_said(self):
        client = self.client()
        client.submit(counting(FOREVER), id='waits')
        with self.assertRaises(muster_client.TimedOut):
            client.wait('waits', timeout=0.5)
        with self.assertRaises(TimeoutError):
            list(client.follow_logs('waits', timeout=0.5))
        client.cancel('waits')
        with self.assertRaises(muster_client.ConnectionLost):
            Client('https://127.0.0.1:1', token='t', ca=self.cluster.ca, retry_for=0.3).get('waits')


    def test_bytes_that_come_one_by_one_do_not_prolong_it(self):
        head = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n'
        begins = {'the head': head + b'A: ', 'the body': head + b'Content-Length: 99999\r\n\r\n',
                  'a stream': head + b'\r\n'}
        calls = {'get': lambda client: client.get('any'), 'wait': lambda client: client.wait('any', timeout=0.2),
                 'follow_logs': lambda client: list(client.follow_logs('any', timeout=0.2)),
                 'follow': lambda client: list(client.follow('any', timeout=0.3))}
        for where, name in [(where, name) for where in begins for name in calls
                            if (where == 'a stream') == (name == 'follow')]:
            with self.subTest(where, name=name):
                there = Drips(self.cluster.ca.parent, begins[where])
                client = Client(there.url, token='t', ca=self.cluster.ca, timeout=0.3, retry_for=0)
                try:
                    with self.assertRaises((muster_client.ConnectionLost, muster_client.TimedOut) if name == 'get'
                                           else muster_client.TimedOut):
                        calls[name](client)
                finally:
                    there.close()
                self.assertEqual((there.left, there.connections), (1, 1))

    def test_logs_that_are_quiet_for_longer_than_the_time_of_an_answer_are_followed(self):
        asker = self.client()
        asker.submit(counting(FOREVER), id='quiet')
        self.until_state('quiet', 'running')
        client, lines = self.client(timeout=1, retry_for=0), []
        with self.assertRaises(muster_client.TimedOut):
            for line in client.follow_logs('quiet', timeout=8):
                lines.append(line)
        asker.cancel('quiet')
        self.assertTrue(lines)
        asker.wait('quiet', timeout=PATIENCE)
        self.assertTrue(list(client.follow_logs('quiet', timeout=PATIENCE)))


class Errors(UsesTest):
    def refusal(self, kind, call, *values, **more):
        with self.assertRaises(kind) as refused:
            call(*values, **more)
        return refused.exception

    def test_each_has_its_type(self):
        admin, viewer = self.client(), self.client(self.cluster.token('eve', 'viewer'))
        ada, bob = (self.client(self.cluster.token(user, 'submitter')) for user in ('ada', 'bob'))
        ada.submit(counting(5), id='hers')
        ada.wait('hers', timeout=PATIENCE)
        wrong = self.refusal(muster_client.InvalidArgument, admin.submit, counting(5, lanes=0))
        self.assertEqual((wrong.field, wrong.code, wrong.status), ('lanes', 'invalid_argument', 400))
        self.assertIn('out of range', wrong.message)
        self.refusal(muster_client.Unauthenticated, self.client('muster-ada-wrong').get, 'hers')
        self.assertEqual(self.refusal(muster_client.PermissionDenied, viewer.submit, counting(5)).status, 403)
        self.refusal(muster_client.PermissionDenied, bob.delete, 'hers')
        for call in (admin.get, admin.stop, admin.cancel, admin.delete, admin.audit, admin.digest, admin.logs):
            self.assertEqual(self.refusal(muster_client.NotFound, call, 'nobody').status, 404)
        self.refusal(muster_client.NotFound, lambda: list(admin.follow('nobody', timeout=PATIENCE)))
        self.refusal(muster_client.NotFound, lambda: list(admin.follow_logs('nobody', timeout=PATIENCE)))
        other = self.refusal(muster_client.AlreadyExists, ada.submit, counting(5, seed=7), id='hers')
        self.assertIn('seed', other.message)
        self.refusal(muster_client.FailedPrecondition, ada.scale, 'hers', 2)
        elsewhere = self.client(self.cluster.token('zoe', 'viewer', 'vision'))
        self.refusal(muster_client.NotFound, elsewhere.get, 'hers')

    def test_what_is_no_id_is_no_other_path(self):
        for name in ('../tokens', 'a/b', 'a?b', 'ä b', 'a#b', '', '.', '..', '-a', 'a\n', 'a' * 101):
            self.assertEqual(self.refusal(muster_client.InvalidArgument, self.client().get, name).field, 'id')
        for name in ('', '..', '../lineage-1-step-2', 'lineage-1-step-2/x', 'lineage-1-step-2?force=true',
                     'lineage-1-step-', 'lineage-1-step-2\n', 'best'):
            wrong = self.refusal(muster_client.InvalidArgument, self.client().delete_checkpoint, 'any', name)
            self.assertEqual(wrong.field, 'checkpoint')


class Lost(UsesTest):
    """Connections break, and coordinators end."""

    def test_an_address_of_a_family_that_this_machine_lacks_is_passed_over(self):
        host, port = self.cluster.address.split(':')
        addresses = [(family, socket.SOCK_STREAM, 0, '', (host, int(port))) for family in (NO_FAMILY, socket.AF_INET)]
        with mock.patch('socket.getaddrinfo', lambda *_, **__: addresses):
            self.assertEqual(list(self.client(retry_for=0).list(namespace='nowhere')), [])

    def test_a_lost_answer_starts_no_second_job(self):
        relay = LosesAnswers(self.cluster.address)
        self.addCleanup(relay.close)
        client = Client(relay.url, token=self.cluster.admin, ca=self.cluster.ca)
        job = client.submit({**counting(5), 'name': 'once'})
        self.assertEqual(relay.lost, 1)
        self.assertEqual([one.id for one in self.client().list() if one.name == 'once'], [job.id])

    def test_a_lost_answer_to_a_deletion_is_one(self):
        self.client().submit(counting(5), id='goes')
        self.client().wait('goes', timeout=PATIENCE)
        [saved] = self.client().checkpoints('goes')
        for delete in (lambda client: client.delete_checkpoint('goes', saved.checkpoint, force=True),
                       lambda client: client.delete('goes')):
            relay = LosesAnswers(self.cluster.address)
            self.addCleanup(relay.close)
            delete(Client(relay.url, token=self.cluster.admin, ca=self.cluster.ca))
            self.assertEqual(relay.lost, 1)

    def test_an_answer_that_is_cut_short_is_a_lost_one(self):
        whole = b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
        for cut in (b'HTTP/1.1 200 OK\r\nCache-Con', whole[:-1],
                    b'HTTP/1.1 500 Internal Server Error\r\nContent-Length: 100\r\n\r\n{"er'):
            with self.subTest(cut):
                there = Answers(self.cluster.ca.parent, cut, whole)
                try:
                    client = Client(there.url, token='t', ca=self.cluster.ca, timeout=5, retry_for=20)
                    self.assertEqual(client.logs('any'), 'ok')
                    self.assertEqual(there.connections, 2)
                finally:
                    there.close()

    def test_a_coordinator_that_is_full_is_asked_again(self):
        there = IsFull()
        try:
            client = Client(there.url, token='t', ca=self.cluster.ca, timeout=5, retry_for=0.5)
            with self.assertRaisesRegex(muster_client.ConnectionLost, 'all connections'):
                client.get('any')
            self.assertGreater(there.connections, 1)
        finally:
            there.close()

    def test_what_is_no_answer_of_a_coordinator_is_an_error_of_ours(self):
        deep = b'[' * 200_000
        calls = {
            'get': lambda client: client.get('any'), 'list': lambda client: list(client.list()),
            'history': lambda client: list(client.history('any')),
            'checkpoints': lambda client: list(client.checkpoints('any')),
            'follow_logs': lambda client: list(client.follow_logs('any', timeout=5))}
        for body in (deep, b'7', b'null', b'{"members": 7}', b'{"jobs": null, "lines": 5, "steps": [7]}',
                     b'{"members": "xy"}', b'{"steps": [], "next": 0, "checkpoints": {}}'):
            for name, call in calls.items():
                if name == 'get' and b'"jobs"' in body:
                    continue  # a job may have fields that nobody knows
                with self.subTest(name, body=body[:40]):
                    there = Answers(self.cluster.ca.parent, b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body)
                                    + body)
                    try:
                        with self.assertRaises(muster_client.MusterError):
                            call(Client(there.url, token='t', ca=self.cluster.ca, timeout=5, retry_for=0))
                    finally:
                        there.close()

    def test_pages_that_do_not_go_on_are_an_error(self):
        lists = {'checkpoints': lambda client: client.checkpoints('any'), 'jobs': lambda client: client.list()}
        for key, pages_of in lists.items():
            with self.subTest(key):
                body = b'{"%s": [], "next_page_token": "2"}' % key.encode()
                page = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body) + body
                there = Answers(self.cluster.ca.parent, page, page)
                try:
                    with self.assertRaisesRegex(muster_client.MusterError, 'does not go on'):
                        list(pages_of(Client(there.url, token='t', ca=self.cluster.ca, timeout=5, retry_for=0)))
                    self.assertEqual(there.connections, 2)
                finally:
                    there.close()

    def test_the_coordinator_is_killed_while_events_are_followed(self):
        client = self.client()
        # A coordinator tells anew that jobs of before have ended, by events whose numbers this one would lack.
        for job in client.list():
            client.wait(job.id, timeout=PATIENCE)
            client.delete(job.id)
        until('no other job', lambda: not list(client.list()))
        client.submit(counting(STEPS, **SLOW), id='followed')
        kills = [STEPS // 10, STEPS // 3]
        events = []
        for event in client.follow('followed', timeout=PATIENCE):
            events.append(event)
            if event.kind == 'step' and kills and event.fields['step'] >= kills[0]:
                kills.pop(0)
                self.cluster.kill_coordinator()
        self.assertEqual((events[-1].kind, events[-1].fields['state']), ('done', 'done'))
        self.assertEqual(kills, [])
        terms = {}
        for event in events:
            term, number = event.id.split('-')
            terms.setdefault(int(term), []).append(int(number))
        self.assertEqual(list(terms), sorted(terms))
        self.assertEqual(len(terms), 3)
        for numbers in terms.values():  # the one that says `restart` is number 0
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))
        self.assertEqual([numbers[0] for numbers in terms.values()][1:], [0, 0])
        self.assertEqual(sum(event.kind == 'restart' for event in events), 2)
        kept = [event.id for event in client.follow('followed', timeout=PATIENCE)]
        self.assertEqual([event.id for event in events][-len(kept):], kept)
        self.assertEqual([step.step for step in client.history('followed')], list(range(STEPS)))
        self.assertTrue(client.audit('followed').ok)

    def test_the_coordinator_is_killed_while_logs_are_followed(self):
        client = self.client()
        client.submit(counting(STEPS, **SLOW), id='logged')
        lines = []
        for line in client.follow_logs('logged', timeout=PATIENCE):
            if not lines:
                self.cluster.kill_coordinator()
            lines.append(line.line)
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(client.get('logged').state, 'done')
        kept = [line.line for line in client.follow_logs('logged', timeout=PATIENCE)]
        self.assertEqual([line for line in kept if line not in lines], [])


class Trust(UsesTest):
    """Nobody but the coordinator is told anything."""

    def test_another_authority_is_none(self):
        other = Cluster(slots=1)
        self.addCleanup(other.down)
        client = Client(self.cluster.url, token=self.cluster.admin, ca=other.ca)
        with self.assertRaises(muster_client.UntrustedServer):
            client.get('any')

    def test_another_name_of_the_same_authority_is_told_nothing(self):
        [identity] = (self.cluster.folder / 'cluster/keys/host').glob('of-*')
        there = SomebodyElse(identity)
        try:
            with self.assertRaises(muster_client.UntrustedServer) as refused:
                Client(there.url, token=self.cluster.admin, ca=self.cluster.ca).get('any')
        finally:
            there.close()
        self.assertEqual(there.connections, 1)
        self.assertEqual(there.told, b'')
        self.assertIn('/host/', str(refused.exception))

    def test_the_coordinators_name_is_asked_for_whatever_the_address_is(self):
        port = self.cluster.address.rsplit(':', 1)[1]
        client = Client(f'https://localhost:{port}', token=self.cluster.admin, ca=self.cluster.ca)
        self.assertEqual(list(client.list(namespace='elsewhere')), [])

    def test_plain_text_is_none(self):
        with self.assertRaisesRegex(muster_client.MusterError, 'https://'):
            Client(self.cluster.url.replace('https', 'http'), token='t', ca=self.cluster.ca)

    def test_who_speaks_no_tls_is_told_nothing(self):
        there = SpeaksPlainText()
        try:
            with self.assertRaises(muster_client.UntrustedServer):
                Client(there.url, token=self.cluster.admin, ca=self.cluster.ca).get('any')
        finally:
            there.close()
        self.assertNotIn(b'muster-', there.told)

    def test_what_is_not_given_is_found(self):
        token = self.cluster.folder / 'ada.token'
        token.write_text(self.cluster.token('ada', 'submitter') + '\n')
        home, nothing = self.cluster.folder / 'home', {'HOME': str(self.cluster.folder / 'none')}
        with mock.patch.dict(os.environ, nothing, clear=True):
            self.assertEqual(Client(dir=self.cluster.folder / 'cluster').submit(counting(2)).owner, 'admin')
            with self.assertRaisesRegex(muster_client.MusterError, 'whom to trust'):
                Client(self.cluster.url)
            with self.assertRaisesRegex(muster_client.MusterError, 'give url'):
                Client(ca=self.cluster.ca)
            with self.assertRaisesRegex(muster_client.MusterError, 'cluster.json'):
                Client(dir=self.cluster.folder, ca=self.cluster.ca)
        with mock.patch.dict(os.environ, {**nothing, 'MUSTER_TOKEN_FILE': str(token),
                                          'MUSTER_AUTHORITY': str(self.cluster.ca)}, clear=True):
            self.assertEqual(Client(self.cluster.url).submit(counting(2)).owner, 'ada')
        (home / '.config/muster').mkdir(parents=True)
        (home / '.config/muster/authority.pem').write_bytes(self.cluster.ca.read_bytes())
        (home / '.config/muster/token').write_text(token.read_text())
        with mock.patch.dict(os.environ, {'HOME': str(home)}, clear=True):
            self.assertEqual(Client(self.cluster.url).submit(counting(2)).owner, 'ada')
        # Anybody may have made a folder: what it names alone gets no token of the home folder.
        (home / '.config/muster/authority.pem').unlink()
        folder = self.cluster.folder / 'made'
        (folder / 'identity').mkdir(parents=True)
        (folder / 'identity/authority.pem').write_bytes(self.cluster.ca.read_bytes())
        (folder / 'cluster.json').write_text(json.dumps({'http': self.cluster.address}))
        with mock.patch.dict(os.environ, {'HOME': str(home)}, clear=True), \
                self.assertRaises(muster_client.Unauthenticated):
            Client(dir=folder).get('any')

    def test_a_file_that_is_no_token_is_named(self):
        bad = self.cluster.folder / 'bad.token'
        bad.write_text('two words')
        with mock.patch.dict(os.environ, {'MUSTER_TOKEN_FILE': str(bad)}), \
                self.assertRaisesRegex(muster_client.MusterError, 'bad.token holds no token'):
            Client(self.cluster.url, ca=self.cluster.ca)
        with self.assertRaisesRegex(muster_client.MusterError, 'no certificate'):
            Client(self.cluster.url, token='t', ca=bad)


class Document(unittest.TestCase):
    def test_values_have_the_fields_of_the_document(self):
        schemas = json.loads((SOURCE / 'docs/openapi.json').read_text())['components']['schemas']
        for name, value in {'Job': muster_client.Job, 'JobMember': muster_client.Member,
                            'Checkpoint': muster_client.Checkpoint,
                            'SavedCheckpoint': muster_client.SavedCheckpoint, 'Audit': muster_client.Audit,
                            'Lineage': muster_client.Lineage, 'Digest': muster_client.Digest,
                            'HistoryStep': muster_client.HistoryStep,
                            'MetricValue': muster_client.Metric, 'LogLine': muster_client.LogLine}.items():
            with self.subTest(name):
                self.assertEqual([field.name for field in dataclasses.fields(value)], list(schemas[name]['properties']))

    def test_everything_public_says_what_it_is(self):
        for name in muster_client.__all__:
            thing = getattr(muster_client, name)
            self.assertTrue(not inspect.isclass(thing) or thing.__doc__, name)
        for name, method in inspect.getmembers(Client, inspect.isfunction):
            self.assertTrue(name.startswith('_') or method.__doc__, name)


if __name__ == '__main__':
    main()
