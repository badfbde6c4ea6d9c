#!/usr/bin/env python3
"""Brings samples to the socket of a job whose data is a stream (examples/stream.yaml).

usage: send.py SOCKET [--count N] [--rate SAMPLES_PER_SECOND]

It may be stopped and started again at any time: the job's reader says with which sample to go on. What it has not said to
be safe is kept, and sent again where a connection breaks. It ends when the reader says that it takes no more.
"""

import argparse
import collections
import math
import select
import socket
import struct
import sys
import time

MAGIC = b'MSTRSTM1'
SAMPLE, END = b'\1', b'\2'
DONE = 2**64 - 1  # an answer: the job takes no more, and all that it uses is safe
MOST_KEPT = 10000  # samples that are not safe yet; then it waits
CONNECT_AGAIN = 0.2  # seconds


class Sender:
    """The conversation with a reader. `wait` is how long it may be away, in seconds."""

    def __init__(self, path, sample_bytes, wait):
        self.path, self.sample_bytes, self.wait = path, sample_bytes, wait
        self.kept = collections.deque()  # samples that are not safe, oldest first
        self.safe = 0  # so many are
        self.done = False  # the reader takes no more
        self.connection = None
        self.connect()
        self.safe = self.asked  # whatever came before us is not ours to keep

    def connect(self):
        until = time.monotonic() + self.wait
        while True:
            try:
                if self.connection:
                    self.connection.close()
                self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                self.connection.connect(self.path)
                greeting = self.read(24)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise TimeoutError(f'nobody listens on {self.path}: {error}') from error
                time.sleep(CONNECT_AGAIN)
        magic, self.asked, sample_bytes = struct.unpack('<8sQQ', greeting)
        if magic != MAGIC or sample_bytes != self.sample_bytes:
            sys.exit(f'{self.path}: the job has samples of {sample_bytes} bytes, and ours have {self.sample_bytes}')

    def read(self, count):
        data = b''
        while len(data) < count:
            part = self.connection.recv(count - len(data))
            if not part:
                raise ConnectionError('the reader has closed the connection')
            data += part
        return data

    def hear(self, wait):
        """What is said to be safe by now."""
        while not self.done and select.select([self.connection], [], [], wait)[0]:
            self.learn(struct.unpack('<Q', self.read(8))[0])
            wait = 0

    def learn(self, positions):
        if positions == DONE:
            self.done = True
            self.kept.clear()
            return
        while self.safe < positions and self.kept:
            self.kept.popleft()
            self.safe += 1

    def again(self):
        """After a broken connection: what the reader has not got."""
        self.connect()
        self.learn(self.asked)
        if self.asked != self.safe:
            sys.exit(f'{self.path}: sample {self.asked} is asked for, and we have those from {self.safe} on')
        for sample in self.kept:
            self.connection.sendall(SAMPLE + sample)

    def send(self, sample):
        self.kept.append(sample)
        try:
            self.connection.sendall(SAMPLE + sample)
            self.hear(0)
            while len(self.kept) >= MOST_KEPT and not self.done:
                self.hear(1)
        except OSError:
            self.again_until_it_works()

    def again_until_it_works(self):
        while True:
            try:
                return self.again()
            except TimeoutError:
                raise
            except OSError:
                pass

    def end(self):
        """Says that there is no more, until the reader has noted that, or does not come again."""
        while not self.done:
            try:
                self.connection.sendall(END)
                while not self.done:
                    self.hear(1)
            except OSError:
                try:
                    self.again_until_it_works()
                except TimeoutError:
                    return


def sample_at(position):
    """Eight readings, and what the job is to make of them."""
    readings = [math.sin(0.1 * position * (i + 1)) for i in range(8)]
    return struct.pack('<9f', *readings, readings[0] * readings[1] + 0.5 * readings[7])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('socket')
    parser.add_argument('--count', type=int, default=5000, help='samples of the whole stream')
    parser.add_argument('--rate', type=float, default=500, help='samples in a second; 0: as fast as they are taken')
    parser.add_argument('--wait', type=float, default=60, help='seconds to wait for a reader')
    given = parser.parse_args()
    try:
        sender = Sender(given.socket, len(sample_at(0)), given.wait)
        for position in range(sender.safe, given.count):
            sender.send(sample_at(position))
            if sender.done:
                return print(f'the job takes no more: all that it uses of the first {position + 1} samples is safe')
            if given.rate > 0:
                time.sleep(1 / given.rate)
    except TimeoutError as error:
        sys.exit(str(error))
    sender.wait = min(given.wait, 5)
    sender.end()
    if not sender.done:
        # A reader that died just after all was noted does not come again to say so.
        sys.exit('the reader has gone, and has not said that the end is noted. It is if `muster status` says that the '
                 f'stream has ended with {given.count} samples; else start this again when the job goes on')
    print(f'all {given.count} samples are safe')


main()
