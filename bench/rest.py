#!/usr/bin/env python3
"""How fast REST answers while many clients are slow.

    ./dev bench rest                          200 requests a second, without and with 500 slow clients
    ./dev bench rest --rate 400 --slow 800    others
    ./dev bench rest --json FILE              and a machine-readable record

A job of two workers runs all the time. Of the requests 80 % ask for it, 15 % for the list of jobs, and 5 % change its
priority, which is written to disk. They are sent at fixed times, whether those before were answered or not, and the
time of each counts from when it was due. A third of the slow clients say nothing after they have connected, a third
send a request byte by byte, one each second, and a third follow the job's events and read none. Each comes again when
it was cut off. All is over HTTPS, on loopback; clients and coordinator share this machine.
"""
import argparse
import asyncio
import multiprocessing
import pathlib
import ssl
import time

from hosts import COUNTING
from local_cluster import Cluster
from report import Report

ROOT = pathlib.Path(__file__).resolve().parent.parent
CONNECTIONS = 40  # that stay open, for the requests that are measured
PATIENCE = 30


def trust_of(authority):
    trust = ssl.create_default_context(cafile=authority)
    trust.check_hostname = False
    return trust


async def silent(reader, writer, _):
    await reader.read(1)


async def byte_by_byte(reader, writer, path):
    for byte in f'GET {path} HTTP/1.1\r\nHost: localhost\r\n'.encode() * 100:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(1)


async def reads_nothing(reader, writer, path):
    reader._transport.pause_reading()  # the socket's buffers fill up
    writer.write(f'GET {path}/events HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    await writer.drain()
    await asyncio.sleep(PATIENCE)


KINDS = (silent, byte_by_byte, reads_nothing)


async def slow_client(kind, address, trust, path, ready):
    is_first = True
    while True:
        try:
            reader, writer = await asyncio.open_connection(*address, ssl=None if kind is silent else trust)
            if is_first:
                ready.release()
                is_first = False
            await kind(reader, writer, path)
            writer.close()
        except (OSError, ssl.SSLError, asyncio.IncompleteReadError):
            pass
        await asyncio.sleep(0.2)


def slow_clients(count, address, authority, path, ready):
    """A process of its own, so that it takes nothing from whoever measures."""
    async def run():
        trust = trust_of(authority)
        await asyncio.gather(*(slow_client(KINDS[n % len(KINDS)], address, trust, path, ready) for n in range(count)))
    asyncio.run(run())


class Connection:
    """One after the other: what is due waits for those before it on the same connection."""

    def __init__(self, address, trust):
        self.address, self.trust = address, trust
        self.lock, self.streams = asyncio.Lock(), None

    async def ask(self, method, path, body):
        async with self.lock:
            if self.streams is None:
                self.streams = await asyncio.open_connection(*self.address, ssl=self.trust)
            reader, writer = self.streams
            writer.write(f'{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n{body}'.encode())
            head = await asyncio.wait_for(reader.readuntil(b'\r\n\r\n'), PATIENCE)
            length = next(int(line[15:]) for line in head.lower().split(b'\r\n') if line.startswith(b'content-length:'))
            said = await reader.readexactly(length)
            if b'connection: close' in head.lower():
                writer.close()
                self.streams = None
            return int(head.split(b' ', 2)[1]), said


async def load(address, authority, path, rate, seconds):
    """The seconds that each request took from when it was due, and how many were refused."""
    trust = trust_of(authority)
    connections = [Connection(address, trust) for _ in range(CONNECTIONS)]
    await asyncio.gather(*(each.ask('GET', path, '') for each in connections))
    took, refused = [], []

    async def one(number, due):
        what = ('PATCH', path, f'{{"priority": {number % 7}}}') if number % 20 == 0 else \
            ('GET', '/v1/jobs', '') if number % 20 in (5, 10, 15) else ('GET', path, '')
        status, said = await connections[number % CONNECTIONS].ask(*what)
        took.append(time.monotonic() - due)
        if status != 200:
            refused.append(said)

    begun, tasks = time.monotonic() + 0.1, []
    for number in range(int(rate * seconds)):
        due = begun + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        tasks.append(asyncio.create_task(one(number, due)))
    await asyncio.gather(*tasks)
    return sorted(took), refused


def measure(options, report):
    settings = [*COUNTING, 'workers={min: 2, max: 2}']
    with Cluster(options.bin, ['a'], slots=2) as cluster:
        host, port = cluster.addresses['http'].rsplit(':', 1)
        address, authority = (host, int(port)), cluster.folder / 'store/identity/current/authority.pem'
        path = '/v1/jobs/bench'
        with cluster.submit('bench', options.spec, *settings) as watch:
            watch.step('the first step')
        for slow in (0, options.slow):
            ready = multiprocessing.Semaphore(0)
            process = multiprocessing.Process(target=slow_clients, args=(slow, address, authority, path, ready),
                                              daemon=True)
            process.start()
            for _ in range(slow):
                ready.acquire(timeout=PATIENCE)
            found = {'p50': [], 'p99': [], 'slowest': []}
            for _ in range(options.rounds):
                took, refused = asyncio.run(load(address, authority, path, options.rate, options.seconds))
                if refused:
                    raise SystemExit(f'{len(refused)} of {len(took)} requests were refused: {refused[0]}')
                for name, at in (('p50', 0.5), ('p99', 0.99), ('slowest', 1)):
                    found[name].append(1000 * took[min(int(at * len(took)), len(took) - 1)])
            for name, values in found.items():
                report.add(f'{options.rate} requests a second, {slow} slow clients: {name}', 'ms', values)
            process.kill()
            process.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rate', type=int, default=200, help='requests a second')
    parser.add_argument('--slow', type=int, default=500, help='slow clients')
    parser.add_argument('--seconds', type=int, default=20, help='of each round')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--spec', type=pathlib.Path, default=ROOT / 'examples/counting.yaml')
    parser.add_argument('--bin', type=pathlib.Path, default=ROOT / 'build/release/bin')
    parser.add_argument('--json', help='a file for the record')
    options = parser.parse_args()
    report = Report(options.rounds)
    measure(options, report)
    report.write(options.json)


if __name__ == '__main__':
    main()
