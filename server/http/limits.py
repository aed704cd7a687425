"""Limits of each token: requests in a time, requests at once, sessions; and an end to what a revoked token has open."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.types import INTERNAL_ERROR, ErrorData, JSONRPCError
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trainwright.server.http.tokens import Holder, Tokens

REQUESTS_PER_SECOND = 50.0
MAX_AT_ONCE = 200
"""Requests that may come at once after a pause: what the bucket holds."""
MAX_OPEN = 64
"""Requests of one token that are being answered, streams among them."""
LOOK_SECONDS = 1.0


class Bucket:
    """Token bucket of one client: it fills with time, and each request takes one out."""

    def __init__(self) -> None:
        self._left, self._seen = float(MAX_AT_ONCE), time.monotonic()
        self.open = 0
        self.sessions = Sessions()

    def wait_seconds(self) -> float:
        """Take one out; return 0, or how long to wait where there is none."""
        now = time.monotonic()
        self._left = min(MAX_AT_ONCE, self._left + (now - self._seen) * REQUESTS_PER_SECOND)
        self._seen = now
        if self._left < 1:
            return (1 - self._left) / REQUESTS_PER_SECOND
        self._left -= 1
        return 0.0


class Limits:
    """ASGI middleware behind the one that reads the token."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens
        self._buckets: dict[str, Bucket] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with 429 and the seconds to wait."""
        holder = getattr(scope.get("user"), "access_token", None)
        if scope["type"] != "http" or holder is None:
            await self._app(scope, receive, send)
            return
        bucket = self._bucket(holder.token)
        if bucket.open >= MAX_OPEN:
            await _refusal(429, f"{MAX_OPEN} requests of this token are open. Close some.", 1)(scope, receive, send)
        elif wait := bucket.wait_seconds():
            rule = f"This token has had its {REQUESTS_PER_SECOND:g} requests a second. Wait, and ask again."
            await _refusal(429, rule, math.ceil(wait))(scope, receive, send)
        else:
            bucket.open += 1
            try:
                with bucket.sessions.at_work(scope):
                    await self._while_it_lives(holder, scope, receive, send)
            finally:
                bucket.open -= 1

    def _bucket(self, digest: str) -> Bucket:
        """Return a token's bucket. A new one's first request is when those of tokens that are over are forgotten."""
        if digest not in self._buckets:
            for other, bucket in list(self._buckets.items()):
                if not bucket.open and self._tokens.living(other) is None:
                    del self._buckets[other]
            self._buckets[digest] = Bucket()
        return self._buckets[digest]

    async def _while_it_lives(self, holder: Holder, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request; a stream or a wait ends with the token that opened it. Runs go on."""
        started, sessions = False, self._buckets[holder.token].sessions

        async def sent(message: Message) -> None:
            nonlocal started
            started = True
            if message["type"] == "http.response.start":
                await sessions.answered(self._app, scope, message)
            await send(message)

        async with anyio.create_task_group() as group:
            group.start_soon(self._end_with, holder.token, group.cancel_scope)
            await self._app(scope, receive, sent)
            group.cancel_scope.cancel()
        if not started:
            await _refusal(401, "This token was revoked or has expired.")(scope, receive, send)

    async def _end_with(self, digest: str, request: anyio.CancelScope) -> None:
        while self._tokens.living(digest) is not None:
            await anyio.sleep(LOOK_SECONDS)
        request.cancel()


def _refusal(status: int, message: str, retry_seconds: int | None = None) -> Response:
    """Return an answer that clients of MCP read: the words are in its JSON-RPC error."""
    error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=INTERNAL_ERROR, message=message))
    headers: dict[str, Any] = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
    return Response(error.model_dump_json(by_alias=True), status, headers, "application/json")


# Sessions of older clients, which stay open between requests: of each token so many, at no other token's cost.

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
