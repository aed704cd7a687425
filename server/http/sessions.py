"""Sessions of older clients, which stay open between requests: of each token so many, at no other token's cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.datastructures import Headers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Scope

MAX_OF_A_TOKEN = 64
"""No fewer than the requests that a token may have open, so that one is at rest whenever another is opened."""
KEPT = (b"host", b"origin")
"""Headers of the request that opened a session which the one that ends another needs, to pass where it passed."""


class Sessions:
    """Sessions of one token, the one that was used longest ago first; one that ended elsewhere leaves in its turn."""

    def __init__(self) -> None:
        self._used: dict[str, None] = {}
        self._at_work: Counter[str] = Counter()

    @contextmanager
    def at_work(self, scope: Scope) -> Iterator[None]:
        """Keep the session that a request names: one with a stream or an answer under way is not at rest."""
        name = _named(scope) or ""
        self._at_work[name] += 1
        try:
            if name in self._used:
                self._use(name)
            yield
        finally:
            self._at_work -= Counter([name])  # and forgets it at nought

    async def answered(self, app: ASGIApp, scope: Scope, start: Message) -> None:
        """Note that a session was opened or ended, and end the one at rest for longest where there are too many."""
        name = Headers(raw=start["headers"]).get(MCP_SESSION_ID_HEADER)
        if scope["method"] == "DELETE" and start["status"] < 300:
            self._used.pop(_named(scope) or "", None)
        elif name is not None and _named(scope) is None and start["status"] < 400:
            self._use(name)
            while len(self._used) > MAX_OF_A_TOKEN:
                first = next((one for one in self._used if not self._at_work[one]), name)
                del self._used[first]
                await _end(app, scope, first)

    def _use(self, name: str) -> None:
        self._used.pop(name, None)
        self._used[name] = None


def _named(scope: Scope) -> str | None:
    return Headers(scope=scope).get(MCP_SESSION_ID_HEADER)


async def _end(app: ASGIApp, scope: Scope, name: str) -> None:
    """End a session as its client would, with the same token."""
    kept = [(key, value) for key, value in scope["headers"] if key in KEPT]
    session = (MCP_SESSION_ID_HEADER.encode(), name.encode())

    async def nothing() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def unheard(_: Message) -> None:
        """A session that has ended by itself is answered with 404, which is as well."""

    with anyio.CancelScope(shield=True):
        await app({**scope, "method": "DELETE", "headers": [*kept, session]}, nothing, unheard)
