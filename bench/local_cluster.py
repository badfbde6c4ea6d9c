"""A cluster of the real programs as children of a benchmark: a coordinator and host agents, on loopback or each host in
a network of its own."""
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PATIENCE = 120  # seconds, of whatever is waited for
SKIPPED = 77  # exit code: this machine lacks what is needed
SAYS = 20  # lines of what a program said last, for people


class Network:
    """Hosts on a bridge, each in a network and under a host name of its own. They live as long as this process, which
    must be the first one of its own namespaces: enter()."""

    def __init__(self, hosts):
        self.hosts = {}
        run('ip', 'link', 'add', 'bridge', 'type', 'bridge')
        run('ip', 'link', 'set', 'bridge', 'up')
        for number, host in enumerate(hosts, start=1):
            self._add(host, number)

    @staticmethod
    def enter():
        """Goes on as process 1 of namespaces of its own, so that nothing that is started here outlives it, and nothing
        else sees its networks. Returns there."""
        if os.environ.get('MUSTER_BENCH_INSIDE'):
            return
        if not all(map(shutil.which, ('ip', 'nsenter', 'unshare'))) or subprocess.run(
                ['unshare', '--net', '--pid', '--fork', 'true'], capture_output=True, check=False).returncode != 0:
            print('hosts with networks of their own need root, ip, nsenter and unshare', file=sys.stderr)
            sys.exit(SKIPPED)
        os.environ['MUSTER_BENCH_INSIDE'] = 'yes'
        os.execvp('unshare', ['unshare', '--net', '--pid', '--mount-proc', '--fork', '--kill-child',
                              sys.executable, *sys.argv])

    def _add(self, host, number):
        holder = subprocess.Popen(['unshare', '--net', '--uts', 'sleep', 'infinity'])
        ours = os.readlink('/proc/self/ns/uts')
        wait(lambda: os.readlink(f'/proc/{holder.pid}/ns/uts') != ours, f'the network of host {host}')
        self.hosts[host] = (number, holder)
        run('ip', 'link', 'add', f'port{number}', 'type', 'veth', 'peer', 'name', 'wire', 'netns', holder.pid)
        run('ip', 'link', 'set', f'port{number}', 'master', 'bridge')
        run('ip', 'link', 'set', f'port{number}', 'up')
        run(*self.on(host), 'hostname', f'node-{host}')
        run(*self.on(host), 'ip', 'address', 'add', f'{self.address(host)}/24', 'dev', 'wire')
        run(*self.on(host), 'ip', 'link', 'set', 'wire', 'up')
        run(*self.on(host), 'ip', 'link', 'set', 'lo', 'up')

    def address(self, host):
        return f'10.78.0.{self.hosts[host][0]}'

    def on(self, host):
        """What a command begins with that is to run there."""
        return ['nsenter', '--target', str(self.hosts[host][1].pid), '--net', '--uts']

    def cut(self, host):
        """Nothing comes from there or gets there, without anybody being told."""
        run('ip', 'link', 'set', f'port{self.hosts[host][0]}', 'down')

    def heal(self, host):
        run('ip', 'link', 'set', f'port{self.hosts[host][0]}', 'up')

    def processes(self, host):
        """All that run there."""
        holder = self.hosts[host][1].pid
        there, found = os.readlink(f'/proc/{holder}/ns/net'), []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if os.readlink(f'/proc/{pid}/ns/net') == there and int(pid) != holder:
                    found.append(int(pid))
            except OSError:
                pass  # it has ended
        return found


class Loopback:
    """All hosts are this machine as it is."""

    @staticmethod
    def address(_):
        return '127.0.0.1'

    @staticmethod
    def on(_):
        return []


class Cluster:
    """The coordinator runs on the first host, and is asked there, so that nobody needs a token. Without certificates
    (tls=False) all must be on loopback, and the programs are those of bench/plaintext, which lie beside the others'
    folder."""

    def __init__(self, bin_folder, hosts, slots, tls=True, network=None):
        self.bin = pathlib.Path(bin_folder) if tls else pathlib.Path(bin_folder).parent / 'plaintext'
        self.network = network or Loopback()
        self.hosts, self.slots, self.tls = list(hosts), slots, tls
        self.temporary = tempfile.TemporaryDirectory(prefix='muster-bench-', ignore_cleanup_errors=True)
        self.folder = pathlib.Path(self.temporary.name)
        self.agents = {}
        self._start_coordinator()
        for host in self.hosts:
            self.admit(host)
            self.join(host)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.agents.values(), self.coordinator]:
            process.kill()
            process.wait()
        self.temporary.cleanup()

    def _start_coordinator(self):
        first = self.hosts[0]
        address = self.network.address(first)
        command = [*self.network.on(first), self.bin / 'muster-coordinator', '--dir', self.folder / 'store',
                   '--slots', '0', '--listen', f'{address}:0', '--http', '127.0.0.1:0',
                   '--log', self.folder / 'coordinator.log']
        if self.tls:
            command += ['--authority', '--join-listen', f'{address}:0']
        self.coordinator = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log('coordinator.err'),
                                            text=True)
        line = self.coordinator.stdout.readline()
        if not line:
            self.fail('the coordinator does not start')
        self.addresses = json.loads(line)

    def admit(self, host):
        """Makes the token with which that host joins."""
        if self.tls:
            token = self.folder / f'token-{host}'
            token.touch(mode=0o600)
            token.write_text(self.say('token', 'host', host))

    def join(self, host):
        """Starts its agent; returns once it has joined."""
        command = [*self.network.on(host), self.bin / 'muster', 'agent', '--coordinator', self.addresses['grpc'],
                   '--host', host, '--dir', self.folder / 'cluster', '--slots', str(self.slots)]
        if self.tls:
            command += ['--join', self.addresses['join'], '--join-token-file', self.folder / f'token-{host}',
                        '--identity', self.folder / f'identity-{host}']
        log = self.folder / f'agent-{host}.log'
        said = log.stat().st_size if log.exists() else 0
        self.agents[host] = subprocess.Popen(command, stdout=self._log(log.name), stderr=subprocess.STDOUT)

        def has_joined():
            with open(log, 'rb') as file:
                file.seek(said)
                return b'joined the cluster' in file.read()
        wait(has_joined, f'host {host} joins', self.fail)

    def kill(self, host):
        """Everything that runs on that host, at once."""
        for pid in self.network.processes(host):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        self.agents[host].wait()

    def _log(self, name):
        return open(self.folder / name, 'ab')

    def _url(self):
        return ('https://' if self.tls else 'http://') + self.addresses['http']

    def asking(self, *words):
        command = [*self.network.on(self.hosts[0]), self.bin / 'muster', *words, '--to', self._url()]
        if self.tls:
            command += ['--authority', self.folder / 'store/identity/current/authority.pem']
        return command

    def say(self, *words):
        """What `muster` answers."""
        done = subprocess.run(self.asking(*words), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.fail(f'muster {" ".join(map(str, words))}: {done.stdout}{done.stderr}')
        return done.stdout

    def status(self, job):
        return json.loads(self.say('status', job, '--json'))

    def submit(self, job, spec, *settings):
        words = [word for setting in settings for word in ('--set', setting)]
        self.say('submit', str(spec), '--id', job, *words)
        return Watch(self, job)

    def end(self, job):
        """Cancels it and waits until its places are free."""
        self.say('cancel', job)
        hosts = lambda: map(json.loads, self.say('hosts', '--json').splitlines())
        wait(lambda: sum(host['used'] for host in hosts()) == 0, f'places of job {job} become free', self.fail)

    def fail(self, what):
        for log in sorted(self.folder.glob('*.log')) + sorted(self.folder.glob('*.err')):
            print(f'--- {log.name}', *log.read_text(errors='replace').splitlines()[-SAYS:], sep='\n', file=sys.stderr)
        sys.exit(f'this did not happen: {what}')


class Watch:
    """The events of a job, each with the time at which it came."""

    def __init__(self, cluster, job):
        self.cluster, self.job = cluster, job
        self.events = queue.Queue()
        self.process = subprocess.Popen(cluster.asking('watch', job, '--json'), stdout=subprocess.PIPE)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.thread.join()

    def _read(self):
        for line in self.process.stdout:
            self.events.put((time.monotonic(), json.loads(line)))

    def drain(self):
        """Those that have come already."""
        came = []
        while not self.events.empty():
            came.append(self.events.get())
        return came

    def wait_for(self, what, holds):
        """The next event for which that is true, and when it came."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                came, event = self.events.get(timeout=max(0, deadline - time.monotonic()))
            except queue.Empty:
                self.cluster.fail(f'{what}, of job {self.job}: {self.cluster.status(self.job)}')
            if holds(event):
                return came, event

    def step(self, what, holds=lambda event: True):
        return self.wait_for(what, lambda event: event['event'] == 'step' and holds(event))


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'{" ".join(map(str, command))}: {done.stdout}{done.stderr}')


def wait(holds, what, fail=lambda what: sys.exit(f'this did not happen: {what}')):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            fail(what)
        time.sleep(0.01)
