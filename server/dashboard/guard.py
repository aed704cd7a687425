"""Guard of the page: who may read it. Everything else is refused before any of the workspace is read."""

from __future__ import annotations

import secrets
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
METHODS = {"GET", "HEAD"}
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
REFUSED = (
    "This page is for who has its address: the whole of it, token included, is what `trainwright dashboard` printed "
    "or open_dashboard answered.\n"
)


class Access(NamedTuple):
    """Port and secret of one server."""

    port: int
    token: str

    @property
    def address(self) -> str:
        """The address that opens the page."""
        return f"http://{HOSTS[0]}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Name of the cookie: browsers share them between the ports of a host."""
        return f"trainwright_{self.port}"


class Guard:
    """ASGI middleware: host, origin, method and token are checked, and every answer gets its headers."""

    def __init__(self, app: ASGIApp, access: Access, policy: str) -> None:
        self._app = app
        self._access = access
        self._headers = {**HEADERS, "Content-Security-Policy": policy}
        self._hosts = {f"{name}:{access.port}" for name in HOSTS}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        answer = self._refusal(scope) or self._entry(scope)
        await (answer or self._app)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:  # a foreign name that resolves to this machine
            return PlainTextResponse("There is no such host here.\n", status_code=421)
        if scope["method"] not in METHODS:
            return PlainTextResponse("This page is read only.\n", 405, {"Allow": ", ".join(sorted(METHODS))})
        origin = headers.get("origin")
        foreign = origin is not None and origin.removeprefix("http://") not in self._hosts
        if foreign or (scope["path"] != "/" and headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}):
            return PlainTextResponse("Pages of other sites may not read this.\n", status_code=403)
        return None

    def _entry(self, scope: Scope) -> Response | None:
        """Return the way in: the token becomes a cookie and leaves the address; None for who has the cookie."""
        given = QueryParams(scope["query_string"]).get("token")
        if given is not None and scope["path"] == "/" and self._fits(given):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self._access.cookie, self._access.token, httponly=True, samesite="lax")
            return answer
        if self._fits(self._cookie(scope)):
            return None
        return PlainTextResponse(REFUSED, status_code=401)

    def _fits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self._access.token.encode())

    def _cookie(self, scope: Scope) -> str:
        cookie: SimpleCookie = SimpleCookie()
        try:
            cookie.load(Headers(scope=scope).get("cookie", ""))
        except CookieError:
            return ""
        found = cookie.get(self._access.cookie)
        return found.value if found is not None else ""
