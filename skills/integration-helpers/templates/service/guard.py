"""Guard before the routes: key, rate, size of the body, and how long each request took."""

from __future__ import annotations

import hmac
import time
from typing import Any

from limits import parse
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import FixedWindowRateLimiter
from prometheus_client import Counter, Histogram
from settings import Settings
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN, LIMITED = {"/health", "/ready"}, {"/predict"}
"""Paths that need no key (all others do, `/openapi.json` and `/metrics` too: they name columns and categories of the
training data), and those whose rate is limited."""
KNOWN = {*OPEN, "/predict", "/model", "/metrics", "/docs", "/openapi.json"}
REQUESTS = Counter("http_requests", "Answered requests", ["path", "status"])
SECONDS = Histogram(
    "http_request_seconds", "From the request's first byte to the answer's last", ["path"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0),
)  # fmt: skip


def problem(status: int, text: str, *, field: str | None = None, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the answer to a request that is refused: `{"errors": [{"field", "problem"}]}`."""
    return JSONResponse({"errors": [{"field": field, "problem": text}]}, status_code=status, headers=headers)


class Guard:
    """ASGI application around another, which gets only requests that pass.

    Args:
        app: what is guarded.
        settings: key, rate and size.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.limiter = FixedWindowRateLimiter(MemoryStorage())
        self.rate = parse(settings.rate) if settings.rate else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            refusal = await self._refusal(scope)
            await (refusal or self.app)(scope, self._bounded(receive), noted)
        finally:
            path = scope["path"] if scope["path"] in KNOWN else "other"
            REQUESTS.labels(path, status).inc()
            SECONDS.labels(path).observe(time.perf_counter() - started)

    async def _refusal(self, scope: Scope) -> JSONResponse | None:
        path, headers = scope["path"], dict(scope["headers"])
        if path not in OPEN and self.settings.key:
            given = headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if not hmac.compare_digest(given, self.settings.key.encode()):
                return problem(401, "a key is needed: Authorization: Bearer …", headers={"WWW-Authenticate": "Bearer"})
        if path in LIMITED and self.rate is not None:
            client = (scope.get("client") or ("unknown",))[0]
            if not await self.limiter.hit(self.rate, client):
                resets = (await self.limiter.get_window_stats(self.rate, client)).reset_time
                wait = max(1, round(resets - time.time()))
                return problem(429, f"more than {self.settings.rate}", headers={"Retry-After": str(wait)})
        size = headers.get(b"content-length", b"0")
        if size.isdigit() and int(size) > self.settings.most_bytes:
            return problem(413, self._too_large())
        return None

    def _too_large(self) -> str:
        return f"the body has more than {self.settings.most_bytes:,} bytes"

    def _bounded(self, receive: Receive) -> Receive:
        """Return `receive` that ends a body which is longer than it said."""
        read = 0

        async def bounded() -> Any:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.settings.most_bytes:
                raise HTTPException(413, self._too_large())
            return message

        return bounded
