"""Routes of the page: each translates one address into one view model."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from trainwright.server import documents
from trainwright.server.dashboard.guard import Access, Guard
from trainwright.tools import dashboard
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError, TrainwrightError

STATUS = {NotFoundError: 404, ConfigurationError: 400}
MAX_DIGITS = 15
Endpoint = Callable[[Request], Awaitable[Response]]


def build_application(workspace: Workspace, access: Access, is_closing: Callable[[], bool]) -> ASGIApp:
    """Return the page's server over an open workspace.

    Args:
        is_closing: whether open streams have to end.
    """
    views: dict[str, Callable[[Workspace, Request], BaseModel]] = {
        "/api/overview": lambda opened, _: dashboard.overview(opened),
        "/api/projects/{project}": lambda opened, request: dashboard.project_page(opened, _name(request, "project")),
        "/api/projects/{project}/ledger": _ledger,
        "/api/runs/{run}": lambda opened, request: dashboard.run_page(opened, _name(request, "run")),
        "/api/runs/{run}/curves": _curves,
        "/api/studies/{study}": lambda opened, request: dashboard.study_page(opened, _name(request, "study")),
        "/api/comparison": lambda opened, request: dashboard.comparison_page(opened, _listed(request, "runs")),
    }
    streams = Streams(workspace, is_closing)
    routes: dict[str, Endpoint] = {path: _answering(partial(view, workspace)) for path, view in views.items()}
    routes |= {"/": _home, "/api/documents/{path:path}": _document}
    routes |= {"/api/events": streams.workspace, "/api/runs/{run}/events": streams.run}
    application = Starlette(
        routes=[Route(path, endpoint) for path, endpoint in routes.items()],
        exception_handlers={TrainwrightError: _worded},
    )
    return Guard(application, access, bundle().policy)


class Streams:
    """Event streams: a browser that reconnects sends the id of the last event that it has."""

    def __init__(self, workspace: Workspace, is_closing: Callable[[], bool]) -> None:
        self._workspace, self._is_closing = workspace, is_closing

    async def workspace(self, request: Request) -> Response:
        """Stream what is new in the workspace since the ledger's entry `after`."""
        last = request.headers.get("last-event-id", "")
        after = _whole(last, "Last-Event-ID")
        after = _number(request, "after") if after is None else after
        changes = dashboard.WorkspaceChanges(self._workspace, after or 0)
        return _stream(events(changes.look, lambda new: str(new.sequence), self._is_closing))

    async def run(self, request: Request) -> Response:
        """Stream what is new about a run since the cursor `after`. Raises NotFoundError."""
        cursor = request.headers.get("last-event-id") or request.query_params.get("after", "")
        make = partial(dashboard.RunChanges, self._workspace, _name(request, "run"), _listed(request, "keys"), cursor)
        changes = await run_in_threadpool(make)
        return _stream(events(changes.look, lambda _: changes.cursor, self._is_closing))


async def _home(_: Request) -> Response:
    return HTMLResponse(bundle().html)


async def _document(request: Request) -> Response:
    path = documents.resolve(_name(request, "path"))
    return JSONResponse({"path": path, "text": await run_in_threadpool(documents.read_text, path)})


def _ledger(workspace: Workspace, request: Request) -> BaseModel:
    return dashboard.ledger_page(workspace, _name(request, "project"), _number(request, "before"))


def _curves(workspace: Workspace, request: Request) -> BaseModel:
    points = _number(request, "points")
    more = {} if points is None else {"points": points}
    return dashboard.curves(workspace, _name(request, "run"), _listed(request, "keys"), **more)


def _answering(read: Callable[[Request], BaseModel]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        answer = await run_in_threadpool(read, request)
        return Response(answer.model_dump_json(), media_type="application/json")

    return endpoint


def _name(request: Request, part: str) -> str:
    return str(request.path_params[part])


def _listed(request: Request, name: str) -> list[str]:
    return [each for each in request.query_params.get(name, "").split(",") if each]


def _number(request: Request, name: str) -> int | None:
    return _whole(request.query_params.get(name, ""), name)


def _whole(text: str, name: str) -> int | None:
    """Return a whole number; None of any other text. Raises ConfigurationError for more digits than one may have."""
    if not text.isdecimal():
        return None
    if len(text) > MAX_DIGITS:
        raise ConfigurationError(
            f"{name} has {len(text)} digits; it may have {MAX_DIGITS}.", remedy="Leave it out to begin anew."
        )
    return int(text)


def _stream(lines: AsyncIterator[str]) -> Response:
    return StreamingResponse(lines, media_type="text/event-stream")


async def _worded(_: Request, error: Exception) -> Response:
    """Answer a failure with its message and remedy, never with a traceback."""
    assert isinstance(error, TrainwrightError)  # noqa: S101 - registered for these alone
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"message": error.message, "remedy": error.remedy}, status_code=status)


# Stream of server-sent events: looks again and again, and sends what is new with the place it reaches to.

News = TypeVar("News", bound="BaseModel")

LOOK_SECONDS = 1.0
STEP_SECONDS = 0.2
"""A server that stops waits at most this long for a stream."""
ALIVE_SECONDS = 15.0
"""After so long without news, a comment shows that the connection stands."""


async def events(
    look: Callable[[], News | None], place: Callable[[News], str], is_closing: Callable[[], bool]
) -> AsyncIterator[str]:
    """Give events as text: `id` is the place, from which a browser that reconnects continues.

    Args:
        look: returns what is new since it was called last; called in a thread.
    """
    yield "retry: 2000\n\n"
    sent_at = time.monotonic()
    while not is_closing():
        try:
            new = await anyio.to_thread.run_sync(look)
        except TrainwrightError as error:
            yield f"event: problem\ndata: {error.message.splitlines()[0]}\n\n"
            return
        if new is not None:
            yield f"id: {place(new)}\ndata: {new.model_dump_json(exclude_none=True)}\n\n"
            sent_at = time.monotonic()
        elif time.monotonic() - sent_at > ALIVE_SECONDS:
            yield ": alive\n\n"
            sent_at = time.monotonic()
        for _ in range(round(LOOK_SECONDS / STEP_SECONDS)):
            if is_closing():
                return
            await anyio.sleep(STEP_SECONDS)


# Bundle of the page: one HTML file with its styles and scripts inside, and the policy that lets only these run.

FOLDER = Path(__file__).parent / "page"
STYLES = ("uPlot.min.css", "page.css")
SHARED = ("uPlot.iife.min.js", "elements.js", "charts.js", "run.js")
SCRIPTS = (*SHARED, "pages.js", "main.js")
"""In this order: a later one uses the earlier ones."""
APP_SCRIPTS = (*SHARED, "app.js")
BLANKS = re.compile(r"\s*([{};,])\s*|(?<=[a-z]): ")
"""Blanks in a style that mean nothing: those around signs, and behind a property's name."""
OPEN_LINE = re.compile(r"([{(\[,;])\n")
"""End of a line that needs none."""
SIGN = re.compile(r" (=>|===|!==|&&|\|\||\?\??|:|>=|<=|\*) ")
"""Signs that stand in no text of the page."""
DECLARED = re.compile(r"\b((?:const|let) \w+|this\.\w+) = ")
BRANCH = re.compile(r"\b(if|for|while) \((?=[\w!\[(])")


class Bundle(NamedTuple):
    """The page, and its content security policy."""

    html: str
    policy: str


@cache
def bundle() -> Bundle:
    """Return the page as it is served."""
    style, script = _style(), _joined(SCRIPTS)
    html = _filled("page.html", style, script)
    policy = (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Bundle(html, policy)


@cache
def app_html() -> str:
    """Return the view of one run as a host of MCP Apps shows it: the same parts, fed by the host's messages."""
    return _filled("app.html", _style(), _joined(APP_SCRIPTS))


def _filled(name: str, style: str, script: str) -> str:
    html = (FOLDER / name).read_text(encoding="utf-8")
    return html.replace("/* styles */", style).replace("/* scripts */", script)


def _style() -> str:
    return BLANKS.sub(lambda found: found[1] or ":", _joined(STYLES))


def _joined(names: tuple[str, ...]) -> str:
    return "\n".join(map(_read, names))


def _read(name: str) -> str:
    """Return a file as it is sent: ours without indents, lines of comment and the blanks around some signs."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    if name.startswith("uPlot"):
        return text
    lines = [line.strip() for line in text.splitlines()]
    text = OPEN_LINE.sub(r"\1", "\n".join(line for line in lines if line and not line.startswith("// ")))
    return BRANCH.sub(r"\1(", DECLARED.sub(r"\1=", SIGN.sub(r"\1", text))).replace(") {", "){")


def _source(text: str) -> str:
    """Return how a policy names an inline style or script: by the digest of its text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
