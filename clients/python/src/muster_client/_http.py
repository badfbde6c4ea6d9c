"""One request and its answer over HTTPS, asked again while that makes sense."""

from __future__ import annotations

import http.client
import random
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ._trust import Place, Trust
from .errors import ApiError, ConnectionLost, MusterError, TimedOut, UntrustedServer, Unavailable, error_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_MOST_BYTES = 64 << 20  # of one answer
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between two attempts

# What a lost connection may raise; UntrustedServer is none of them.
LOST = (OSError, http.client.HTTPException)


class Deadline:
    """A moment after which nothing is waited for any more."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def patience(self) -> float:
        """What a socket may wait for now; raises TimeoutError where that is nothing."""
        left = self.left()
        if left <= 0:
            raise TimeoutError(f"it took longer than {self._seconds:g} seconds")
        return left

    def check(self, what: str) -> None:
        if self.left() <= 0:
            raise TimedOut(f"{what}: the {self._seconds:g} seconds that were given are over")


class Attempts:
    """Pauses between attempts that grow, and an end to them: `retry_for` seconds after the last success."""

    def __init__(self, retry_for: float) -> None:
        self._retry_for = retry_for
        self.succeeded()

    def succeeded(self) -> None:
        self._failures = 0
        self._end = Deadline(self._retry_for)

    def failed(self, why: Exception, deadline: Deadline | None = None) -> None:
        """Pauses before the next attempt; raises where there is none."""
        left = self._end.left()
        if left <= 0:
            if isinstance(why, MusterError):
                raise why
            how_long = f"{self._retry_for:g} seconds"
            raise ConnectionLost(f"the coordinator could not be reached for {how_long}: {why}") from why
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._failures) * random.uniform(0.5, 1)
        self._failures = min(self._failures + 1, 10)
        time.sleep(min(pause, left, deadline.left() if deadline else pause))


class _Line(ssl.SSLSocket):
    """Each wait on it is bounded by what is left of one deadline, so that it does not help to send a byte at a time."""

    deadline: Deadline | None = None

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        self._bound()
        return super().recv_into(buffer, nbytes, flags)

    def send(self, data: ReadableBuffer, flags: int = 0) -> int:
        self._bound()
        return super().send(data, flags)

    def _bound(self) -> None:
        if self.deadline is not None:
            self.settimeout(self.deadline.patience())


def _reach(host: str, port: int, deadline: Deadline) -> socket.socket:
    """A connection to one of its addresses; a dead one leaves time for those behind it."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure: OSError = OSError(f"{host} has no address")
    for number, (family, kind, protocol, _, address) in enumerate(addresses):
        line = None
        try:
            line = socket.socket(family, kind, protocol)  # of a family that may be switched off here
            line.settimeout(deadline.patience() / (len(addresses) - number))
            line.connect(address)
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return line
        except OSError as why:
            if line is not None:
                line.close()
            failure = why
    raise failure


class _Connection(http.client.HTTPSConnection):
    """Tells nothing before the other side has proven who it is."""

    def __init__(self, place: Place, context: ssl.SSLContext, deadline: Deadline) -> None:
        super().__init__(place.host, place.port, context=context)
        self._trust: Trust = place.trust
        self._tls = context
        self._deadline = deadline

    def connect(self) -> None:
        line = _reach(self.host, self.port, self._deadline)
        try:
            line.settimeout(self._deadline.patience())  # of the whole handshake
            self.sock = self._tls.wrap_socket(line, server_hostname=self.host)
        except ssl.SSLCertVerificationError as why:
            raise UntrustedServer(f"{self.host}:{self.port} shows a certificate that proves nothing here: "
                                  f"{why.verify_message}; is ca the authority of that cluster?") from why
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise  # it ended meanwhile
        except ssl.SSLError as why:
            if why.reason == "TLSV1_ALERT_INTERNAL_ERROR":
                raise ConnectionRefusedError(f"{self.host}:{self.port} has all connections that it may have") from why
            raise UntrustedServer(f"{self.host}:{self.port} does not speak TLS as a coordinator does ({why.reason}); "
                                  "is it the address of --http?") from why
        finally:
            line.close()  # which does nothing once it was wrapped
        assert isinstance(self.sock, _Line)
        self.sock.deadline = self._deadline
        try:
            self._trust.check(self.sock)
        except UntrustedServer:
            self.close()
            raise


class Answer:
    """What comes; it lives as long as its connection."""

    def __init__(self, response: http.client.HTTPResponse, line: _Line) -> None:
        self._response = response
        self._line = line

    def read_all(self) -> bytes:
        """Of an answer that is no stream. Raises one of LOST where it was cut short, which read() does not say."""
        # http.client takes headers that were cut off for all of them.
        if self._response.length is None and not self._response.chunked:
            raise http.client.IncompleteRead(b"")
        content = self._response.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise MusterError(f"an answer is larger than {_MOST_BYTES} bytes")
        if self._response.length:
            raise http.client.IncompleteRead(content, self._response.length)
        return content

    def readline(self, most: int, timeout: float) -> bytes:
        """Empty at the end. Raises TimeoutError where the line has not come after so many seconds."""
        self._line.deadline = Deadline(timeout)
        return self._response.readline(most)


class Asker:
    """Makes requests of one user. Any number of threads may use it: each request has a connection of its own."""

    def __init__(self, place: Place, timeout: float, retry_for: float) -> None:
        self._place = place
        self._context = place.trust.context()
        self._context.sslsocket_class = _Line
        self._timeout = timeout
        self.retry_for = retry_for

    def ask(self, method: str, path: str, body: bytes | None = None, *, is_gone_fine: bool = False,
            deadline: Deadline | None = None, may_wait: float = 0) -> bytes:
        """The body of the answer. A request whose answer was lost is made again, so all requests must bear that.

        `may_wait`: for how many seconds the coordinator itself may wait for something to answer.

        `is_gone_fine`: where an earlier attempt may have been carried out, there being none any more is no error.
        """
        attempts = Attempts(self.retry_for)
        has_lost_one = False
        while True:
            if deadline is not None:
                deadline.check(f"{method} {path}")
            longest = self._timeout + may_wait
            timeout = longest if deadline is None else min(longest, deadline.left())
            try:
                with self.open(method, path, body, timeout=timeout) as answer:
                    return answer.read_all()
            except Unavailable as why:
                if deadline is not None:
                    deadline.check(f"{method} {path}")
                attempts.failed(why, deadline)
            except ApiError as why:
                if is_gone_fine and has_lost_one and why.code == "not_found":
                    return b""
                raise
            except LOST as why:
                has_lost_one = True
                if deadline is not None:
                    deadline.check(f"{method} {path}")
                attempts.failed(why, deadline)

    @contextmanager
    def open(self, method: str, path: str, body: bytes | None = None, *, timeout: float,
             headers: Mapping[str, str] | None = None) -> Iterator[Answer]:
        """One attempt; the answer is no error. `timeout` is for all of it, until Answer.readline gives another."""
        sent = {"Accept": "application/json, text/plain, text/event-stream", **(headers or {})}
        if self._place.token is not None:
            sent["Authorization"] = f"Bearer {self._place.token}"
        if body is not None:
            sent["Content-Type"] = "application/json"
        connection = _Connection(self._place, self._context, Deadline(timeout))
        try:
            connection.request(method, path, body, sent)
            line = connection.sock  # which the connection forgets where it ends with the answer
            assert isinstance(line, _Line)
            response = connection.getresponse()
            answer = Answer(response, line)
            if response.status >= 300:
                raise error_of(response.status, answer.read_all())
            yield answer
        finally:
            connection.close()
