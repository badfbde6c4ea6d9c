"""`muster up` for the tests of clients: on loopback, with TLS and tokens, in a folder that goes with it."""

import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get('MUSTER_PROGRAMS', SOURCE / 'build/dev/bin'))
WHEELS = Path.home() / '.cache/muster/clients/wheels'
PATIENCE = 120


def counting(steps=10, **more):
    """A job that counts; each step takes about a millisecond."""
    return {'task': 'counting', 'steps': steps, 'reduction': 'sum',
            'optimizer': {'kind': 'sgd', 'learning_rate': 1}, **more}


def until(what, look, seconds=PATIENCE):
    """What `look` gives once that is true."""
    end = time.monotonic() + seconds
    pause = threading.Event()  # that nobody sets: what is looked at tells of no change
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f'{what} did not come within {seconds} seconds')
        pause.wait(0.05)
    return found


class Answer:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.content_type = response.getheader('Content-Type', '')

    def json(self):
        return json.loads(self.body)


class Cluster:
    def __init__(self, slots=4):
        self.folder = Path(tempfile.mkdtemp(prefix='muster-clients-'))
        self.environment = {**os.environ, 'HOME': str(self.folder)}
        self.log = []
        self.program = subprocess.Popen(
            [PROGRAMS / 'muster', 'up', '--dir', self.folder / 'cluster', '--listen', '127.0.0.1:0', '--slots',
             str(slots)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.environment)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        try:
            ready = until('the address', lambda: self.program.poll() is not None or
                          next((line for line in self.log if 'ready at ' in line), None), 60)
            if ready is True:
                raise AssertionError('muster up ended: ' + ''.join(self.log))
        except BaseException:
            self.down()
            raise
        self.url = ready.split('ready at ')[1].split()[0]
        self.address = self.url.removeprefix('https://')
        self.ca = self.folder / 'cluster/store/identity/current/authority.pem'
        self.admin = (self.folder / 'cluster/store/identity/admin.token').read_text().strip()
        self.context = ssl.create_default_context(cafile=self.ca)
        self.context.check_hostname = False

    def _read(self):
        for line in self.program.stdout:
            self.log.append(line)

    def down(self):
        if self.program.poll() is None:
            self.program.send_signal(signal.SIGTERM)
            try:
                self.program.wait(60)
            except subprocess.TimeoutExpired:
                self.program.kill()
                self.program.wait()
        self.reader.join()
        self.program.stdout.close()
        shutil.rmtree(self.folder)

    def coordinator(self):
        """The process id of the coordinator; None: there is none now."""
        for stat in Path('/proc').glob('[0-9]*/stat'):
            try:
                name, rest = stat.read_text().rsplit(')', 1)
            except OSError:
                continue
            if 'muster-coordin' in name and int(rest.split()[1]) == self.program.pid:
                return int(stat.parent.name)
        return None

    def kill_coordinator(self):
        """Without a word; muster up starts another."""
        killed = self.coordinator()
        os.kill(killed, signal.SIGKILL)
        until('another coordinator', lambda: self.coordinator() not in (None, killed))

    def ask(self, method, path, body=None, token=None, headers=None):
        """One request, as a program of anybody makes it. `token`: '' for none; left out: that of the admin."""
        connection = http.client.HTTPSConnection(self.address, timeout=60, context=self.context)
        token = self.admin if token is None else token
        sent = {**({'Authorization': f'Bearer {token}'} if token else {}), **(headers or {})}
        try:
            connection.request(method, path, body if isinstance(body, (str, type(None))) else json.dumps(body), sent)
            response = connection.getresponse()
            return Answer(response, response.read())
        finally:
            connection.close()

    def token(self, user, role, namespace='default'):
        made = self.ask('POST', '/v1/tokens', {'user': user, 'role': role, 'namespace': namespace})
        assert made.status == 201, made.body
        return made.json()['token']

    def until_state(self, job, *states):
        def look():
            now = self.ask('GET', f'/v1/jobs/{job}').json()
            return now if now.get('state') in states else None
        return until(f'{job} in state {" or ".join(states)}', look)


class ClusterTest(unittest.TestCase):
    """Tests that share one cluster."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()
        cls.addClassCleanup(cls.cluster.down)


def main():
    unittest.main(argv=[sys.argv[0], '-v', *sys.argv[1:]])
