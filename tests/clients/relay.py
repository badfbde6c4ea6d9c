"""Listeners between a client and a cluster: that lose answers, answer too slowly, or are somebody else."""

import contextlib
import socket
import ssl
import threading


class Listener:
    """Serves each connection on a thread of its own, until it is closed."""

    def __init__(self):
        self._socket = socket.create_server(('127.0.0.1', 0))
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.url = f'https://127.0.0.1:{self._socket.getsockname()[1]}'
        self.connections = 0

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection, self.connections))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection, number):
        connection.settimeout(30)
        with connection:
            with contextlib.suppress(OSError):  # the other side may go at any time
                self.serve(connection, number)

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join()


class LosesAnswers(Listener):
    """Passes requests on, and cuts the first connections off where an answer comes; `lost` counts these."""

    def __init__(self, address, losses=1):
        host, port = address.rsplit(':', 1)
        self._to, self._losses, self.lost = (host, int(port)), losses, 0
        super().__init__()

    def serve(self, connection, number):
        with socket.create_connection(self._to, timeout=30) as there:
            said = {'greeted': False, 'asked': False}
            back = threading.Thread(target=self._pass_back, args=(there, connection, number, said))
            back.start()
            try:
                while data := connection.recv(1 << 16):
                    said['asked'] = said['greeted']
                    there.sendall(data)
            finally:
                with contextlib.suppress(OSError):
                    there.shutdown(socket.SHUT_WR)
                back.join()

    # Of TLS 1.3 without tickets: what comes after the client has answered to the greeting is the answer.
    def _pass_back(self, there, connection, number, said):
        with contextlib.suppress(OSError):
            while data := there.recv(1 << 16):
                if number <= self._losses and said['asked']:
                    self.lost += 1
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                said['greeted'] = True
                connection.sendall(data)


class Identified(Listener):
    """Has the certificate and the key in that folder."""

    def __init__(self, identity):
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(identity / 'certificate.pem', identity / 'key.pem')
        super().__init__()

    def serve(self, connection, number):
        with self._context.wrap_socket(connection, server_side=True) as line:
            self.speak(line, number)


class SomebodyElse(Identified):
    """Shows a certificate that is not the coordinator's, and keeps what it is told."""

    def __init__(self, identity):
        self.told = b''
        super().__init__(identity)

    def speak(self, line, number):
        self.told += line.recv(1 << 16)


class Answers(Identified):
    """Has the coordinator's own certificate, and gives each connection the next of `answers`, as bytes, and ends it."""

    def __init__(self, identity, *answers):
        self._answers = answers
        super().__init__(identity)

    def speak(self, line, number):
        line.recv(1 << 16)
        line.sendall(self._answers[min(number, len(self._answers)) - 1])


class IsFull(Listener):
    """Ends the handshake as a coordinator that has all connections that it may have: an alert, internal_error."""

    def serve(self, connection, number):
        connection.recv(1 << 16)
        connection.sendall(bytes((21, 3, 3, 0, 2, 2, 80)))


class Drips(Identified):
    """Has the coordinator's own certificate, and answers with a byte now and then, which is never all.

    `left` counts the clients that had enough of it; the others were let go after half a minute.
    """

    def __init__(self, identity, begins):
        self._begins, self.left = begins, 0
        super().__init__(identity)

    def speak(self, line, number):
        line.recv(1 << 16)
        try:
            line.sendall(self._begins)
            line.settimeout(0.05)
            for _ in range(600):
                line.sendall(b'x')
                with contextlib.suppress(TimeoutError):
                    if not line.recv(1):
                        break
            else:
                return
        except OSError:
            pass
        self.left += 1


class SpeaksPlainText(Listener):
    """Another service at that port."""

    def __init__(self):
        self.told = b''
        super().__init__()

    def serve(self, connection, number):
        self.told += connection.recv(1 << 16)
        connection.sendall(b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n')
