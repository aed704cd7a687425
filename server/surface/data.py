"""Data: validated without training."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.bounded_wait import PLAIN_SECONDS, waited
from trainwright.server.context import workspace_of
from trainwright.server.files import links
from trainwright.server.progress import Progress
from trainwright.server.surface.arguments import Project, WaitSeconds

if TYPE_CHECKING:
    from trainwright.tools.data import ValidationAnswer


@agent_tool("tools.data:ValidationAnswer", title="Validate the data", idempotent=True)
async def validate_data(
    context: Context[Any, Any],
    project: Project,
    suggest: Annotated[bool, Field(description="Also the text of an expectations file")] = False,
    wait_seconds: WaitSeconds = PLAIN_SECONDS,
) -> CallToolResult:
    """Check the configured data without training, against data.expectations or the default set: verdicts with rows
    and remedies, the worst first."""
    from trainwright.tools.data import look_at, request_validation

    workspace = await anyio.to_thread.run_sync(workspace_of, context)
    requested = partial(request_validation, workspace, project, suggest=suggest)
    request = await anyio.to_thread.run_sync(requested)
    began = time.monotonic()

    def look(should_stop: Callable[[], bool]) -> ValidationAnswer:
        return look_at(request, wait_seconds, suggest=suggest, should_stop=should_stop)

    answer = await waited(context, look, lambda: Progress(time.monotonic() - began, wait_seconds, "validating"))
    shown = links(workspace, project, [answer.report] if answer.report else [])
    return reply(answer, _headline(answer), *shown, omit={"project", "state", "rows", "checks", "errors", "warnings"})


def _headline(answer: ValidationAnswer) -> str:
    if answer.state != "done":
        return f"The validation of {answer.project}'s data is {answer.state}."
    counted = f"{answer.checks} checks of {answer.rows} rows: {answer.errors} errors, {answer.warnings} warnings"
    outcome = "A run would stop." if answer.errors else "Nothing stops a run."
    return f"The validation of {answer.project}'s data is done: {counted}. {outcome}"
