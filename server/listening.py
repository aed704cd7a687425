"""Socket that listens: taken before the server is made, so that its address is known, and its refusal is a sentence."""

from __future__ import annotations

import socket

from trainwright.trainer.base.errors import ConflictError

BACKLOG = 128
"""Whoever opens the address before the server has begun waits."""


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there; port 0 takes any that is free. Raises ConflictError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConflictError(
            f"Port {port} of {host} cannot be taken: {error.strerror}.",
            remedy="Name another one with --port, or 0 for any that is free; --host is an address of this machine.",
        ) from error
