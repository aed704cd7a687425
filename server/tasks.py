"""Tasks, an extension of the protocol: a call that starts work answers with a handle, and is asked about later.

Only clients that declare the extension are answered so; for all others calls wait as long as they ask to. What a
handle names lives elsewhere, see `Backend`.

Source: SEP-2663, `io.modelcontextprotocol/tasks`, of the revision 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver.server import require_client_extension
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import HEADER_MISMATCH, INVALID_PARAMS, CallToolRequestParams, CallToolResult, RequestParams
from pydantic import Field

from trainwright.server.bounded_wait import at_once
from trainwright.server.errors import explain
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

TASKS = "io.modelcontextprotocol/tasks"
SINCE = frozenset({"2026-07-28"})
POLL_MILLISECONDS = 2000


class Task(NamedTuple):
    """What is known of a task now."""

    name: str
    status: Literal["working", "completed", "failed", "cancelled"]
    message: str
    began: datetime
    changed: datetime
    result: dict[str, Any] | None = None
    """Of a completed one what its call would have answered after a wait; of a failed one the protocol's error."""

    def told(self, kind: Literal["task", "complete"]) -> dict[str, Any]:
        """Return it as the protocol writes it: as the answer to the call that began it, or to a question about it."""
        found: dict[str, Any] = {
            "resultType": kind,
            "taskId": self.name,
            "status": self.status,
            "statusMessage": self.message,
            "createdAt": _written(self.began),
            "lastUpdatedAt": _written(self.changed),
            "ttlMs": None,  # as long as the workspace
            "pollIntervalMs": POLL_MILLISECONDS,
        }
        if self.result is not None:
            found["error" if self.status == "failed" else "result"] = self.result
        return found


class Backend(Protocol):
    """Where tasks live."""

    tools: Collection[str]
    """Those whose calls may begin one."""

    async def begun(self, result: CallToolResult, context: ServerRequestContext[Any, Any]) -> Task | None:
        """Return the task that a call has begun; None: its answer is all there is."""

    async def look(self, name: str, context: ServerRequestContext[Any, Any]) -> Task:
        """Return a task. Raises TrainwrightError where the caller has none of that name."""

    async def cancel(self, name: str, context: ServerRequestContext[Any, Any]) -> None:
        """Ask that a task end; one that has ended is left as it is. Raises TrainwrightError."""


class TaskParams(RequestParams):
    """Parameters of a request about a task."""

    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Parameters of answers to a task's questions."""

    input_responses: dict[str, Any] = Field(alias="inputResponses", default_factory=dict)


class Tasks(Extension):
    """The extension, over one backend."""

    identifier = TASKS

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def methods(self) -> Sequence[MethodBinding]:
        """Return the three methods."""
        return [
            MethodBinding("tasks/get", TaskParams, self._get, SINCE),
            MethodBinding("tasks/update", UpdateParams, self._update, SINCE),
            MethodBinding("tasks/cancel", TaskParams, self._cancel, SINCE),
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Answer with a task where the call has begun one and its client knows what that is."""
        if params.name not in self._backend.tools or not _knows(ctx):
            return await call_next(ctx)
        with at_once():
            result = await call_next(ctx)
        if not isinstance(result, CallToolResult) or result.is_error:
            return result
        task = await self._backend.begun(result, ctx)
        return result if task is None else task.told("task")

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        return (await self._found(ctx, params)).told("complete")

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        """Acknowledge: no task of ours asks anything, and answers that nobody asked for are ignored."""
        await self._found(ctx, params)
        return {"resultType": "complete"}

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        if (await self._found(ctx, params)).status == "working":
            await self._backend.cancel(params.task_id, ctx)
        return {"resultType": "complete"}

    async def _found(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> Task:
        """Return the task. Raises MCPError."""
        _require_routed(ctx, params)
        require_client_extension(ctx, TASKS)
        try:
            return await self._backend.look(params.task_id, ctx)
        except TrainwrightError as error:
            raise MCPError(code=INVALID_PARAMS, message=explain(error), data=error.as_dict()) from None


def _require_routed(context: ServerRequestContext[Any, Any], params: TaskParams) -> None:
    """Refuse a request over HTTP whose header names another task, or none: proxies route by it. Raises MCPError."""
    headers = getattr(context.request, "headers", None)
    if headers is not None and decode_header_value(headers.get(MCP_NAME_HEADER)) != params.task_id:
        raise MCPError(
            code=HEADER_MISMATCH, message=f"The header {MCP_NAME_HEADER} does not name the task of the request."
        )


def _knows(context: ServerRequestContext[Any, Any]) -> bool:
    declared = context.session.client_capabilities
    return declared is not None and TASKS in (declared.extensions or {})


def _written(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
