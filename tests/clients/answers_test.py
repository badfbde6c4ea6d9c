"""Every operation of the OpenAPI document is called on a cluster, and every answer is as the document says.

The document lets clients pass over fields that they do not know. Here an answer may have none but those.
"""

import json
import shutil
import ssl

from cluster import ClusterTest, counting, main, until
from jsonschema import Draft202012Validator, ValidationError
from openapi_spec_validator import validate

# SubjectPublicKeyInfo of a P-256 key that nobody has.
PUBLIC_KEY = ('MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMqiMYzjOIZKbT+hX/A9IMBVz25mcKBag5/ihXHku/6fh8dvdCoZAYY/Q9MAnQFzr'
              'IQtSQVwnngD+WhhFwwuBlg==')
NOBODY = {'id': 'nobody', 'name': 'nobody', 'adoption': '1-999', 'checkpoint': 'lineage-1-step-1'}


def closed(schema):
    """The same without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get('properties'), dict) and 'type' in schema:
        schema.setdefault('additionalProperties', False)
    return schema


class Contract:
    """The document, and which of its answers have been seen."""

    def __init__(self, document):
        self.document = document
        self.schemas = closed(document['components']['schemas'])
        self.operations = {}
        for path, item in document['paths'].items():
            for method, operation in item.items():
                self.operations[operation['operationId']] = (method.upper(), path, operation)
        self.seen = {name: set() for name in self.operations}

    def check(self, schema, value):
        whole = {**schema, 'components': {'schemas': self.schemas}}
        Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(value)

    def check_answer(self, name, answer):
        responses = self.operations[name][2]['responses']
        said = responses.get(str(answer.status))
        if said is None:
            assert answer.status >= 400, f'{name}: {answer.status} is not in the document: {answer.body[:500]}'
            said = responses['default']
        self.seen[name].add(str(answer.status))
        [(content_type, content)] = said['content'].items()
        assert answer.content_type.replace(' ', '') == content_type.replace(' ', ''), (name, answer.content_type)
        is_json = content_type == 'application/json'
        as_text = 'latin-1' if content_type == 'application/octet-stream' else 'utf-8'
        self.check(content['schema'], answer.json() if is_json else answer.body.decode(as_text))


def events_in(text):
    return [json.loads(line.removeprefix('data: ')) for line in text.splitlines() if line.startswith('data: ')]


class Answers(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.contract = Contract(cls.cluster.ask('GET', '/v1/openapi.json').json())

    def call(self, name, status, body=None, /, query='', token=None, headers=None, or_else=(), **parameters):
        method, path, operation = self.contract.operations[name]
        if status < 300 and body is not None:
            [content] = operation['requestBody']['content'].values()
            self.contract.check(content['schema'], body)
        answer = self.cluster.ask(method, path.format(**parameters) + query, body, token, headers)
        self.assertIn(answer.status, {status, *or_else}, (name, answer.body[:1000]))
        self.contract.check_answer(name, answer)
        return answer

    def done(self, job):
        self.assertEqual(self.cluster.until_state(job, 'done', 'failed')['state'], 'done')

    def test_the_document_is_one(self):
        validate(self.contract.document)

    def test_what_differs_from_it_is_found(self):
        self.cluster.ask('POST', '/v1/jobs', {'id': 'small', 'spec': counting()})
        job = self.call('getJob', 200, id='small').json()
        wrong = [{**job, 'more': 1}, {**job, 'step': '1'}, {**job, 'seconds_left': 'soon'},
                 {name: value for name, value in job.items() if name != 'loss'},
                 {**job, 'spec': {**job['spec'], 'optimizer': {'kind': 'adamm'}}},
                 {**job, 'members': [{'name': 'worker-0'}]}]
        for changed in wrong:
            with self.assertRaises(ValidationError):
                self.contract.check({'$ref': '#/components/schemas/Job'}, changed)

    def test_strangers_and_unknown_parameters_are_refused_everywhere(self):
        viewer = self.cluster.token('eve', 'viewer')
        for name, (_, path, operation) in self.contract.operations.items():
            with self.subTest(name):
                self.call(name, 400, query='?nonsense=1', **NOBODY)
                if 'security' in operation:
                    continue
                self.call(name, 401, token='', **NOBODY)
                if operation['x-muster-role'] != 'viewer' and '/jobs/{id}' not in path:
                    self.call(name, 403, {}, token=viewer, **NOBODY)
                if '{' in path and '/namespaces/' not in path and name != 'admitHost':
                    self.call(name, 404, self.least_body(operation), **NOBODY)

    def least_body(self, operation):
        return {'scaleJob': {'workers': 1}, 'keepCheckpoint': {'name': None}}.get(operation['operationId'], {})

    # A field of the specification is refused outside of what the document says of it, and named.
    def test_bounds_of_the_specification_are_those_of_the_reader(self):
        def leaves(schema, path=()):
            for name, inner in schema['properties'].items():
                if 'properties' in inner:
                    yield from leaves(inner, (*path, name))
                else:
                    yield (*path, name), inner

        tried = 0
        for path, schema in leaves(self.contract.schemas['JobSpec']):
            wrong = [schema[end] + step for end, step in (('minimum', -1), ('maximum', 1), ('exclusiveMinimum', 0),
                                                          ('exclusiveMaximum', 0)) if end in schema]
            wrong += ['no such word'] if 'enum' in schema else []
            for value in wrong:
                spec = counting()
                inner = spec
                for name in path[:-1]:
                    inner = inner.setdefault(name, {})
                inner[path[-1]] = value
                with self.subTest('.'.join(path), value=value):
                    answer = self.call('submitJob', 400, {'spec': spec})
                    self.assertEqual(answer.json()['error']['field'], '.'.join(path))
                    tried += 1
        self.assertGreater(tried, 60)

    def test_each_operation(self):
        self.jobs()
        self.what_a_job_did()
        self.ends()
        self.adoptions()
        self.hosts_and_namespaces()
        self.tokens()
        self.authority()
        missing = {(name, status) for name, (_, _, operation) in self.contract.operations.items()
                   for status in operation['responses'] if status < '300' and status not in self.contract.seen[name]}
        # How far an adoption is at a look is for the disk to say.
        self.assertEqual(missing - {('adoptJob', '200'), ('getAdoption', '202')}, set())

    def jobs(self):
        submission = {'id': 'first', 'spec': counting(300, labels={'team': 'see'}, fingerprint_every=10,
                                                      checkpoint={'every_steps': 50}, workers=2, lanes=4, batch=8)}
        self.call('submitJob', 201, submission)
        self.call('submitJob', 200, submission)
        self.call('submitJob', 409, {'id': 'first', 'spec': counting(301, seed=5)})
        self.call('submitJob', 400, {'spec': {}})
        self.call('submitJob', 400, '{')
        self.call('submitJob', 413, json.dumps({'id': 'x' * (1 << 20)}))
        self.call('getJob', 200, id='first')
        self.assertEqual(len(self.call('listJobs', 200, query='?label=team=see&limit=1').json()['jobs']), 1)
        self.call('listJobs', 400, query='?limit=0')
        self.call('submitJob', 201, {'id': 'long', 'spec': counting(10**9, workers={'min': 1, 'max': 2})})
        self.cluster.until_state('long', 'running')
        self.call('setQueue', 200, {'priority': 5, 'labels': {'a': 'b'}}, id='long')
        self.call('setQueue', 200, {'priority': None, 'labels': {'a': None}}, id='long')
        self.call('setQueue', 400, {'priority': 5000}, id='long')
        self.call('scaleJob', 200, {'workers': 1}, id='long')
        self.call('scaleJob', 400, {'workers': 0}, id='long')
        self.call('deleteJob', 409, id='long')
        self.done('first')
        self.call('getJob', 200, id='first')
        self.call('scaleJob', 409, {'workers': 1}, id='first')

    def what_a_job_did(self):
        events = events_in(self.call('watchJob', 200, id='first').body.decode())
        self.assertEqual(events[-1]['event'], 'done')
        for event in events:
            self.contract.check({'$ref': '#/components/schemas/JobEvent'}, event)
        self.assertGreaterEqual({event['event'] for event in events}, {'step', 'state', 'view', 'checkpoint'})
        rest = self.call('watchJob', 200, id='first', headers={'Last-Event-ID': f'1-{events[0]["seq"]}'})
        self.assertEqual(len(events_in(rest.body.decode())), len(events) - 1)
        self.call('watchJob', 400, id='first', query='?from=yesterday')
        self.assertTrue(self.call('getFingerprints', 200, id='first', query='?from=10').json()['fingerprints'])
        self.assertTrue(self.call('auditJob', 200, id='first').json()['ok'])
        self.assertEqual(self.call('getHistory', 200, id='first', query='?limit=3').json()['next'], 3)
        self.call('getHistory', 400, id='first', query='?limit=x')
        self.assertTrue(self.call('getLedger', 200, id='first', query='?limit=3').json()['steps'])
        self.call('getLedger', 200, id='first', query='?sample=1')
        digest = self.call('getDigest', 200, id='first').json()
        file = f'lineage-{digest["lineage"]}-step-{digest["step"]}/checkpoint.manifest'
        part = self.call('readCheckpoint', 200, id='first', query=f'?file={file}&offset=1&bytes=7')
        self.assertEqual(len(part.body), 7)
        self.call('readCheckpoint', 404, id='first', query='?file=lineage-1-step-987654/checkpoint.manifest')
        self.call('getDigest', 404, id='first', query='?step=7')
        self.assertIn('worker-0', self.call('getLogs', 200, id='first').body.decode())
        self.call('getLogs', 404, id='first', query='?member=worker-77')
        page = self.call('followLogs', 200, id='first', query='?tail=2').json()
        self.assertTrue(page['lines'])
        self.call('followLogs', 200, id='first', query=f'?after={page["next"]}')

    def ends(self):
        self.call('stopJob', 200, id='long')
        self.cluster.until_state('long', 'stopped')
        self.call('getJob', 200, id='long')
        self.checkpoints('long')
        self.call('cancelJob', 200, id='long')
        self.call('deleteJob', 200, id='long')
        # It goes while this looks, and is a 404 in the end.
        until('the end of it', lambda: self.cluster.ask('GET', '/v1/jobs/long').status == 404)
        self.call('submitJob', 201, {'id': 'broken', 'spec': {
            'task': 'code-lm', 'steps': 1, 'data': {'paths': [str(self.cluster.folder / 'nowhere')]}}})
        self.assertEqual(self.cluster.until_state('broken', 'failed')['exit_code'], 65)
        self.call('getJob', 200, id='broken')

    def checkpoints(self, job):
        newest = self.call('listCheckpoints', 200, id=job).json()['checkpoints'][-1]['checkpoint']
        self.call('listCheckpoints', 400, id=job, query='?page_token=x')
        one = {'id': job, 'checkpoint': newest}
        self.assertEqual(self.call('keepCheckpoint', 200, {'name': 'mine'}, **one).json()['name'], 'mine')
        self.assertIsNone(self.call('keepCheckpoint', 200, {'name': None}, **one).json()['name'])
        self.call('keepCheckpoint', 400, {'name': 'No Name'}, **one)
        self.call('keepCheckpoint', 404, {'name': 'mine'}, id=job, checkpoint='lineage-1-step-999999999999')
        self.call('deleteCheckpoint', 409, **one)
        self.call('deleteCheckpoint', 400, query='?force=1', **one)
        self.call('deleteCheckpoint', 200, query='?force=true', **one)
        self.call('deleteCheckpoint', 404, query='?force=true', **one)

    def adoptions(self):
        left = self.cluster.folder / 'left'
        shutil.copytree(self.cluster.folder / 'cluster/checkpoints/first', left)
        self.call('adoptJob', 409, {'folder': str(left), 'id': 'first'})
        adoption = self.call('adoptJob', 202, {'folder': str(left), 'id': 'again'}).json()['adoption']
        self.see_adoption(adoption, 'done')
        self.done('again')
        self.call('adoptJob', 400, {'folder': 'left'})
        empty = self.cluster.folder / 'empty'
        empty.mkdir()
        adoption = self.call('adoptJob', 202, {'folder': str(empty)}, or_else={200}).json()['adoption']
        self.assertEqual(self.see_adoption(adoption, 'failed')['error']['code'], 'not_found')

    def see_adoption(self, adoption, state):
        def look():
            now = self.cluster.ask('GET', f'/v1/adoptions/{adoption}')
            self.contract.check_answer('getAdoption', now)
            return now.json() if now.json()['state'] == state else None
        return until(f'adoption {state}', look)

    def hosts_and_namespaces(self):
        host = self.call('listHosts', 200, query='?limit=1').json()['hosts'][0]['name']
        self.call('getHost', 200, name=host)
        self.call('drainHost', 200, name=host)
        self.call('undrainHost', 200, name=host)
        self.call('admitHost', 200, {'namespace': 'vision'}, name='guest')
        self.call('admitHost', 200, {'certified': True}, name='guest')
        self.call('admitHost', 400, {'certified': 1}, name='guest')
        self.call('revokeHost', 200, name='guest')
        self.assertEqual(self.call('listHosts', 200).json()['revoked'], ['guest'])
        self.call('setQuotas', 200, {'slots': 8, 'queued': None, 'priority': 3}, name='vision')
        self.call('setQuotas', 400, {'slots': -1}, name='vision')
        self.call('getNamespace', 200, name='vision')
        self.assertTrue(self.call('listNamespaces', 200).json()['namespaces'])
        viewer = self.cluster.token('zoe', 'viewer')
        self.call('getNamespace', 403, token=viewer, name='vision')

    def tokens(self):
        asked = {'user': 'ada', 'role': 'submitter', 'namespace': 'default', 'expires_in': 3600}
        made = self.call('makeToken', 201, asked).json()
        self.call('makeToken', 400, {**asked, 'role': 'king'})
        self.assertIn(made['id'], [token['id'] for token in self.call('listTokens', 200).json()['tokens']])
        self.call('makeCertificate', 201, {'public_key': PUBLIC_KEY}, token=made['token'])
        self.call('makeCertificate', 400, {'public_key': 'no key'})
        self.call('revokeToken', 200, id=made['id'])
        self.call('getJob', 401, token=made['token'], id='first')
        last = self.call('listTokens', 200).json()['tokens'][0]
        self.assertEqual(last['user'], 'admin')
        self.call('revokeToken', 409, id=last['id'])

    def authority(self):
        self.call('getOpenApi', 200)
        self.call('getMetrics', 200)
        self.call('getHealth', 200, token='')
        self.call('getReadiness', 200, token='')
        self.call('getAuthority', 200)
        self.call('finishAuthority', 409)
        self.call('changeAuthority', 400, {'now': 'noon'})
        self.call('changeAuthority', 200)
        self.call('changeAuthority', 409)
        self.assertIsNotNone(self.call('getAuthority', 200).json()['change_ends'])
        self.call('finishAuthority', 200, {'force': True})
        self.cluster.context = ssl.create_default_context(cafile=self.cluster.ca)
        self.cluster.context.check_hostname = False
        self.assertIsNone(self.call('getAuthority', 200).json()['change_ends'])


if __name__ == '__main__':
    main()
