"""Servers under test: the product's, and one that the same factory makes with the suite's fixtures, both over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from fixtures import build_with_fixtures
from relay import relayed

from trainwright.server.app import build_server
from trainwright.server.http.serving import HttpServer, Reach
from trainwright.server.http.tokens import Tokens
from trainwright.server.stdio import StdioServer

SERVERS: dict[str, Callable[..., StdioServer]] = {"real": build_server, "fixtures": build_with_fixtures}
STOP_SECONDS = 20.0


@contextmanager
def served(name: str, workspace: Path) -> Iterator[str]:
    """Serve one of the servers over a new workspace; yield an address at which no token is asked for."""
    token = Tokens(workspace).new("suite", "own", days=1)
    server = HttpServer(workspace, Reach(), build=SERVERS[name])
    address = urlsplit(server.address)
    thread = threading.Thread(target=server.run, name="server", daemon=True)
    thread.start()
    try:
        with relayed(address.port or 0, token) as port:
            yield f"http://{address.hostname}:{port}{address.path}"
    finally:
        server.stop()
        thread.join(STOP_SECONDS)
