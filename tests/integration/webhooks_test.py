#!/usr/bin/env python3
"""Jobs of a real cluster whose coordinator is killed between what happens and its delivery.

usage: webhooks_test.py PROGRAMS SOURCE

A receiver of our own checks each signature by the text of Standard Webhooks, with no code of Muster's. It kills the
coordinator when the first event of a job's end comes, before it answers; one job's events it does not take at all until
then. Afterwards each job's end was delivered, each repeat had the id and the body of the first, and no job's events
came in another order than they were decided.
"""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

JOBS = ('first', 'second', 'third')
REFUSED = 'third'
ENDS = ('job.done', 'job.stopped', 'job.failed', 'job.cancelled')
PATIENCE = 100


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as f:
        return [int(child) for child in f.read().split()]


def coordinator_of(pid):
    """Its process; none while it is started anew."""
    for child in children(pid):
        try:
            with open(f'/proc/{child}/cmdline', encoding='utf-8') as f:
                if f.read().split('\0')[0].endswith('/muster-coordinator'):
                    return child
        except OSError:  # it has ended meanwhile
            pass
    return None


def signature(key, headers, body):
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    return 'v1,' + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


class Receiver:
    """What came, in the order in which it came, and what it answers."""

    def __init__(self, key):
        self.key = key
        self.lock = threading.Condition()
        self.came = []       # (id, job, type, body, was taken)
        self.complaints = []
        self.killed = set()  # jobs at whose end the coordinator was killed
        self.up = None       # the process of `muster up`
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def do_POST(self):
                body = self.rfile.read(int(self.headers['content-length']))
                status = receiver.take(self.headers, body)
                if status is None:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header('Content-Length', '0')
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self):
        return f'http://127.0.0.1:{self.server.server_address[1]}/hook'

    def take(self, headers, body):
        """The status to answer; none: no answer."""
        event = json.loads(body)
        job, kind, event_id = event['data']['job'], event['type'], headers['webhook-id']
        with self.lock:
            if not any(hmac.compare_digest(signature(self.key, headers, body), one)
                       for one in headers['webhook-signature'].split(' ')):
                self.complaints.append(f'{event_id}: its signature is not genuine')
            if abs(time.time() - int(headers['webhook-timestamp'])) > 60:
                self.complaints.append(f'{event_id}: its time is not now')
            killed = kind in ENDS and job not in self.killed
            if killed:
                self.killed.add(job)
                process = coordinator_of(self.up.pid)
                if process is None:
                    self.complaints.append(f'{event_id}: nobody can have sent it')
                else:
                    os.kill(process, signal.SIGKILL)
            taken = not killed and (job != REFUSED or len(self.killed) >= 2)
            self.came.append((event_id, job, kind, body, taken))
            self.lock.notify_all()
        return 204 if taken else None if killed else 500

    def await_ends(self, deadline):
        with self.lock:
            while {job for _, job, kind, _, taken in self.came if taken and kind in ENDS} != set(JOBS):
                left = deadline - time.monotonic()
                if left <= 0 or not self.lock.wait(left):
                    return False
        return True

    def check(self):
        complaints = list(self.complaints)
        bodies = {}
        by_job = collections.defaultdict(list)
        for event_id, job, kind, body, taken in self.came:
            if bodies.setdefault(event_id, body) != body:
                complaints.append(f'{event_id}: its body is not the one that came before')
            if taken:
                by_job[job].append((tuple(int(part) for part in event_id.split('-')[-3:-1]), kind))
        repeats = len(self.came) - len(bodies)
        if repeats < len(JOBS):
            complaints.append(f'{repeats} events came again, and {len(JOBS)} were cut')
        for job in JOBS:
            first = list(dict.fromkeys(by_job[job]))
            if first != sorted(first):
                complaints.append(f'{job}: not in order: {first}')
            kinds = [kind for _, kind in first]
            if kinds[0] != 'job.queued' or [kind for kind in kinds if kind in ENDS] != ['job.done']:
                complaints.append(f'{job}: {kinds}')
            for wanted in ('job.starting', 'job.running', 'checkpoint.committed'):
                if wanted not in kinds:
                    complaints.append(f'{job}: there is no {wanted} in {kinds}')
        ends = [json.loads(body) for _, _, kind, body, _ in self.came if kind == 'job.done']
        for end in ends:
            if end['data']['exit_code'] != 0 or not end['data']['digest'] or end['data']['state'] != 'done':
                complaints.append(f'not how a job ends: {end}')
        return complaints


def run(programs, source, folder):
    key = os.urandom(32)
    with open(f'{folder}/secret', 'w', opener=lambda path, flags: os.open(path, flags, 0o600), encoding='ascii') as f:
        f.write('whsec_' + base64.b64encode(key).decode() + '\n')
    receiver = Receiver(key)
    with open(f'{folder}/webhooks.yaml', 'w', encoding='utf-8') as f:
        f.write(f'webhooks:\n  - {{name: test, url: "{receiver.url()}", secret_file: secret}}\n')
    muster = f'{programs}/muster'
    deadline = time.monotonic() + PATIENCE
    with open(f'{folder}/up.log', 'w', encoding='utf-8') as log:
        # Relative, as a person would write it.
        receiver.up = subprocess.Popen(
            [muster, 'up', '--dir', 'cluster', '--listen', '127.0.0.1:0', '--slots', '2', '--webhooks', 'webhooks.yaml'],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    try:
        for job in JOBS:
            submit = [muster, 'submit', f'{source}/examples/counting.yaml', '--id', job, '--dir', f'{folder}/cluster',
                      '--set', 'workers=2']
            while subprocess.run(submit, capture_output=True, check=False, timeout=PATIENCE).returncode != 0:
                if time.monotonic() > deadline or receiver.up.poll() is not None:
                    return [f'{job} cannot be submitted']
        if not receiver.await_ends(deadline):
            return ['not all ends came: ' + str([entry[:3] for entry in receiver.came])]
        return receiver.check()
    finally:
        receiver.up.send_signal(signal.SIGINT)
        try:
            receiver.up.wait(30)
        except subprocess.TimeoutExpired:
            receiver.up.kill()
            receiver.up.wait()


def main():
    programs, source = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='muster-webhooks-') as folder:
        complaints = run(programs, source, folder)
        for complaint in complaints:
            print(complaint)
        if complaints:
            with open(f'{folder}/up.log', encoding='utf-8') as f:
                print(f.read())
            for name in ('coordinator.log',):
                for where, _, files in os.walk(f'{folder}/cluster'):
                    if name in files:
                        with open(f'{where}/{name}', encoding='utf-8') as f:
                            print(f.read()[-8000:])
    return 1 if complaints else 0


if __name__ == '__main__':
    sys.exit(main())
