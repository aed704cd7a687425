"""Door that every message passes, on both transports: whose it is, what it may ask for, and a line in the audit log."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST
from pydantic import BaseModel

from trainwright.server.access import (
    LOCAL,
    Access,
    entered,
    permitted_uri,
    present_access,
    project_in,
    require_operating,
)
from trainwright.server.context import AppContext
from trainwright.server.errors import explain
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

AUDITED = {
    "tools/call", "resources/read", "resources/subscribe", "subscriptions/listen", "completion/complete", "prompts/get",
    "tasks/get", "tasks/update", "tasks/cancel",
}  # fmt: skip
CHANGING = re.compile(r"tasks/(?!get$)")
"""Methods beside tools/call that change something; a tool's call is refused where its annotations are known."""
PROJECT = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class Door:
    """The server's outermost middleware."""

    def __init__(self, app: AppContext, *, read_only: bool) -> None:
        self._app = app
        self._read_only = read_only
        self._audit = Audit(app.path)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Handle a message with its caller's access. Raises MCPError for what the caller may not ask for."""
        if ctx.request is None:  # stdio, or in memory: whoever started the server
            with entered(LOCAL, read_only=self._read_only):
                await self._permit(ctx)
                return await call_next(ctx)
        with entered(_access_of(ctx.request), read_only=self._read_only):
            if ctx.method not in AUDITED:
                await self._permit(ctx)
                return await call_next(ctx)
            with self._audit.line(ctx.method, ctx.params or {}) as line:
                await self._permit(ctx)
                result = await call_next(ctx)
                line.answered(result)
                return result

    async def _permit(self, context: ServerRequestContext[Any, Any]) -> None:
        uris = _uris(context.method, context.params or {})
        try:
            if CHANGING.match(context.method):
                require_operating(context.method)
            if uris and present_access().projects:
                await anyio.to_thread.run_sync(self._permit_uris, uris)
        except TrainwrightError as error:
            raise MCPError(code=INVALID_REQUEST, message=explain(error), data=error.as_dict()) from None

    def _permit_uris(self, uris: list[str]) -> None:
        workspace = self._app.workspace()
        for uri in uris:
            permitted_uri(uri, workspace)


def _access_of(request: Any) -> Access:
    """Return the access of the token that came with an HTTP request. Raises MCPError without one: nothing is open."""
    from trainwright.server.http.tokens import Holder

    holder = getattr(request.scope.get("user"), "access_token", None)
    if not isinstance(holder, Holder):
        raise MCPError(
            code=INVALID_REQUEST, message="This request carries no token: make one, `trainwright tokens new`."
        )
    return holder.kept.access


def _uris(method: str, params: Mapping[str, Any]) -> list[str]:
    """Return the resources that a message names."""
    if method.startswith("resources/") and isinstance(params.get("uri"), str):
        return [params["uri"]]
    if method == "subscriptions/listen":
        wanted = (params.get("notifications") or {}).get("resourceSubscriptions") or []
        return [uri for uri in wanted if isinstance(uri, str)]
    return []


# The audit log: who called what, when and with what outcome; of the arguments only the project.


class Audit:
    """The file `logs/http.jsonl` of a workspace."""

    def __init__(self, workspace: Path) -> None:
        self._path = workspace / "logs" / "http.jsonl"

    def line(self, method: str, params: Mapping[str, Any]) -> Line:
        """Return a context in which one call is handled; its end writes the line."""
        return Line(self._path, method, params)


class Line:
    """One call's line."""

    def __init__(self, path: Path, method: str, params: Mapping[str, Any]) -> None:
        self._path, self._method, self._params = path, method, params
        self._began = time.monotonic()
        self._outcome = "failed"
        self._facts: Mapping[str, Any] = {}

    def __enter__(self) -> Line:
        """Begin."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the line, whatever the end was."""
        if kind is not None:
            ends = {MCPError: "refused", Exception: "failed", BaseException: "cancelled"}
            self._outcome = next(outcome for end, outcome in ends.items() if issubclass(kind, end))
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "token": present_access().token,
            "method": self._method,
            "tool": self._tool(),
            "project": self._project(),
            "outcome": self._outcome,
            "milliseconds": round((time.monotonic() - self._began) * 1000),
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(json.dumps(entry) + "\n")

    def answered(self, result: HandlerResult) -> None:
        """Note what the call was answered."""
        told = result.model_dump(by_alias=True) if isinstance(result, BaseModel) else result or {}
        self._outcome = "refused" if told.get("isError") else "answered"
        self._facts = told.get("structuredContent") or {}

    def _tool(self) -> str | None:
        from trainwright.server.surface import TOOLS

        name = self._params.get("name")
        return name if any(tool.name == name for tool in TOOLS) else None

    def _project(self) -> str | None:
        """Return the project that the call or its answer names, if it is one's name."""
        from trainwright.server.agent_tool import projects_in

        task = str(self._params.get("taskId") or "")
        facts = {"project": self._facts.get("project"), "run_id": task.partition("#")[0]}
        given = {"arguments": self._params.get("arguments") or {}, "facts": facts}
        found = {*projects_in(given), *(project_in(uri) for uri in _uris(self._method, self._params))}
        named = sorted(name for name in found if name and PROJECT.fullmatch(name))
        return ",".join(named) or None
