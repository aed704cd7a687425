"""Relay in front of a server: puts a token into every request, since the suite has no way to send one.

Names of the relay's own port are replaced by the server's, so that its check of hosts and origins judges each request
as it would without a relay. Answers pass unchanged.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LOOPBACK = "127.0.0.1"
CHUNK_BYTES = 2**16
TOKEN, ADDRESSES, LENGTH, CODING = b"authorization", {b"host", b"origin"}, b"content-length", b"transfer-encoding"


@contextmanager
def relayed(port: int, token: str) -> Iterator[int]:
    """Pass requests on to a port of this machine with the token in them; yield the port that takes them."""
    with _Relay(port, token) as relay:
        thread = threading.Thread(target=relay.serve_forever, name="relay", daemon=True)
        thread.start()
        try:
            yield relay.server_address[1]
        finally:
            relay.shutdown()
            thread.join()


class _Relay(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    """A stream that the suite has left open would be waited for."""
    request_queue_size = 64

    def __init__(self, port: int, token: str) -> None:
        super().__init__((LOOPBACK, 0), _Connection)
        self.port, self.token = port, token


class _Connection(socketserver.StreamRequestHandler):
    """One connection of the suite, and one to the server for it."""

    server: _Relay

    def handle(self) -> None:
        """Pass on requests until the suite closes the connection."""
        with socket.create_connection((LOOPBACK, self.server.port)) as upstream:
            answers = threading.Thread(target=self._answer, args=(upstream,), daemon=True)
            answers.start()
            with suppress(OSError):  # either side may close at any moment
                while head := self._head():
                    lines, length = head
                    upstream.sendall(b"".join(lines) + b"\r\n" + self.rfile.read(length))
            with suppress(OSError):
                upstream.shutdown(socket.SHUT_RDWR)
            answers.join()

    def _answer(self, upstream: socket.socket) -> None:
        with suppress(OSError):
            while data := upstream.recv(CHUNK_BYTES):
                self.wfile.write(data)
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _head(self) -> tuple[list[bytes], int] | None:
        """Return the lines of a request's head as the server is to read them, and the bytes of its body.

        Raises:
            OSError: the body's length is not stated, so where the next request begins cannot be known.
        """
        first = self.rfile.readline()
        if not first:
            return None
        lines, length = [first], 0
        while (line := self.rfile.readline()) not in {b"\r\n", b""}:
            name, _, value = line.partition(b":")
            if name.lower() in ADDRESSES:
                lines.append(line.replace(b":%d" % self.server.server_address[1], b":%d" % self.server.port))
            elif name.lower() != TOKEN:
                lines.append(line)
            if name.lower() == LENGTH:
                length = int(value)
            elif name.lower() == CODING:
                raise OSError("the body comes in chunks")
        return [*lines, b"Authorization: Bearer %s\r\n" % self.server.token.encode()], length
