"""Connections: so many at most, none of them silent for long, and no error of one that ends the server.

Whoever reaches the port opens connections without a token, so these limits come before every other one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import resource
import socket
import time
from collections.abc import Collection
from contextlib import suppress
from operator import itemgetter
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger("trainwright")
MAX_CONNECTIONS = 512
SHARE_OF_FILES = 2
"""The process opens files beside its connections: one in so many of what it may open is a connection."""
MAX_TAKEN_AT_ONCE = 64
"""Before the loop closes those that were ended for them."""
MAX_WAITING = 1024
"""To be taken: the kernel's queue, which costs no files. Beyond it a client tries again after a second, then three."""
SILENT_SECONDS = 10.0
"""That a connection may go without a request that is being answered."""
STALLED_SECONDS = 60.0
"""That a client may leave an answer untaken."""
LOOKS = 4
"""In the time after which a connection ends."""
SAY_AGAIN_SECONDS = 60.0


def most_connections() -> int:
    """Return how many connections may be open: fewer where the process may open few files."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, files // SHARE_OF_FILES))


class Connection(H11Protocol):
    """A connection that ends where nothing happens on it: progress streams and long answers are being answered."""

    number = -1
    """Of its file."""
    moved_at = 0.0
    """When it was opened, or something last ended: an answer, or a part of one that waited for the client."""
    _look_later: asyncio.TimerHandle | None = None
    _seen: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self.number = transport.get_extra_info("socket").fileno()
        self.moved_at = time.monotonic()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._look_later is not None:
            self._look_later.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Note it."""
        self.moved_at = time.monotonic()
        super().on_response_complete()

    def resume_writing(self) -> None:
        """Note that the client took what waited for it."""
        self.moved_at = time.monotonic()
        super().resume_writing()

    @property
    def is_at_work(self) -> bool:
        """Whether a request is being answered. An answer that its client does not take is no work."""
        cycle: Any = self.cycle  # of which uvicorn does not say that there may be none
        return cycle is not None and not cycle.response_complete and not self.flow.write_paused

    def _look(self) -> None:
        """End it if nothing has happened for too long."""
        now, state = time.monotonic(), (self.cycle, self.is_at_work)
        if state != self._seen or self.is_at_work:
            self._seen, self.moved_at = state, now
        patience = STALLED_SECONDS if self.transport.get_write_buffer_size() else SILENT_SECONDS
        if now - self.moved_at >= patience:
            self.transport.abort()
        else:
            self._look_later = self.loop.call_later(patience / LOOKS, self._look)


class Listener(socket.socket):
    """A socket that listens and, with so many connections open, ends one for each new one.

    It counts what it accepts, so connections that never end their TLS handshake, of which no protocol hears, count.
    """

    def __init__(self, listening: socket.socket) -> None:
        """Take over a socket that listens."""
        super().__init__(fileno=listening.detach())
        self.most = most_connections()
        self.connections: Collection[Any] = ()
        """The server's own, which know what they are doing."""
        self._accepted: dict[socket.socket, float] = {}

    def listen(self, _: int = 0) -> None:
        """Listen with a queue of its own: asyncio has one number for its length and for how many it takes at once."""
        super().listen(MAX_WAITING)

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a new connection. Raises ConnectionAbortedError where all others are at work: it is closed."""
        connection, address = super().accept()
        self._accepted = {one: since for one, since in self._accepted.items() if one.fileno() >= 0}
        if len(self._accepted) >= self.most and not self._one_ended():
            connection.close()
            raise ConnectionAbortedError(errno.ECONNABORTED, "too many connections are at work")
        self._accepted[connection] = time.monotonic()
        return connection, address

    def _one_ended(self) -> bool:
        """End the one on which nothing has happened for longest; return False where all are at work."""
        moved = {one.number: math.inf if one.is_at_work else one.moved_at for one in self.connections}
        since, first = min(
            ((moved.get(one.fileno(), since), one) for one, since in self._accepted.items()), key=itemgetter(0)
        )
        if since == math.inf:
            return False
        del self._accepted[first]
        with suppress(OSError):  # its client was faster
            first.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes it
        return True


class Server(uvicorn.Server):
    """A server whose loop outlives an error that cannot even be logged."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        # Handlers of rich import this when the first error comes, and where no file can be opened that is one more.
        import rich.traceback  # noqa: F401

        asyncio.get_running_loop().set_exception_handler(_Told())
        await super().startup(sockets)


class _Told:
    """What the loop does with an error that nobody awaits."""

    def __init__(self) -> None:
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        with suppress(Exception):  # raised here, it would end the loop, and the server with it
            if not isinstance(error, OSError) or error.errno not in {errno.EMFILE, errno.ENFILE}:
                loop.default_exception_handler(context)
            elif (now := time.monotonic()) >= self._silent_until:  # asyncio says it for each try, hundreds a minute
                self._silent_until = now + SAY_AGAIN_SECONDS
                logger.error("No connection can be taken: %s. Let the server open more files, `ulimit -n`.", error)


def settings(application: Any, **more: Any) -> uvicorn.Config:
    """Return uvicorn's settings with these limits."""
    at_once = min(MAX_TAKEN_AT_ONCE, max(1, most_connections() // 4))
    # Another loop would accept by itself, and a WebSocket would be no Connection.
    return uvicorn.Config(application, http=Connection, ws="none", loop="asyncio", backlog=at_once, **more)
