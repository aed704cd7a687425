"""Jobs in memory as tasks: a backend beside the product's runs, for the extension that both answer through.

Nothing runs: what a job is now follows from when it began, how long it takes and whether it was cancelled.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
from content import said
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.server import require_client_extension
from mcp.types import INTERNAL_ERROR, CallToolResult, InputRequiredResult
from rounds import accepted, form, needed

from trainwright.server.agent_tool import StrictTool, agent_tool
from trainwright.server.bounded_wait import is_at_once
from trainwright.server.tasks import TASKS, Task
from trainwright.trainer.base.errors import NotFoundError

SECONDS = 1.0
"""That jobs take where the call does not say."""


@dataclass
class Job:
    """One job."""

    name: str
    seconds: float
    result: dict[str, Any]
    """Its answer, or the protocol's error if it fails."""
    fails: bool = False
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    cancelled: datetime | None = None

    def task(self) -> Task:
        """Return it as a task."""
        ends = self.began + timedelta(seconds=self.seconds)
        now = datetime.now(UTC)
        if self.cancelled is not None:
            return Task(self.name, "cancelled", "cancelled", self.began, self.cancelled)
        if now < ends:
            return Task(self.name, "working", "working", self.began, now)
        return Task(self.name, "failed" if self.fails else "completed", "ended", self.began, ends, self.result)


class Jobs:
    """The jobs of one server."""

    tools: Collection[str] = frozenset({"slow_compute", "failing_job", "protocol_error_job", "test_tool_with_task"})

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._numbers = itertools.count(1)

    def begin(self, seconds: float, result: dict[str, Any] | CallToolResult, *, fails: bool = False) -> CallToolResult:
        """Begin a job, and return the answer of the call that began it."""
        name = f"job-{next(self._numbers)}"
        found = result if isinstance(result, dict) else result.model_dump(mode="json", by_alias=True, exclude_none=True)
        self._jobs[name] = Job(name, seconds, found, fails)
        return said(f"{name} has begun.", job=name)

    async def begun(self, result: CallToolResult, context: ServerRequestContext[Any, Any]) -> Task | None:  # noqa: ARG002
        """Return the job that a call has begun, if any."""
        name = (result.structured_content or {}).get("job")
        return None if name is None else self._jobs[name].task()

    async def look(self, name: str, context: ServerRequestContext[Any, Any]) -> Task:  # noqa: ARG002
        """Return a job. Raises NotFoundError."""
        if name not in self._jobs:
            raise NotFoundError(f"There is no job {name[:80]!r}.", remedy="Begin one: slow_compute.")
        return self._jobs[name].task()

    async def cancel(self, name: str, context: ServerRequestContext[Any, Any]) -> None:  # noqa: ARG002
        """Cancel a job."""
        self._jobs[name].cancelled = datetime.now(UTC)


def job_tools(jobs: Jobs) -> list[StrictTool]:
    """Return the tools that begin jobs."""

    @agent_tool(title="Compute", read_only=True, structured=False)
    async def slow_compute(seconds: float, label: str = "") -> CallToolResult:
        """Compute for some seconds."""
        answer = said(f"{label} took {seconds:g} seconds")
        if is_at_once():
            return jobs.begin(seconds, answer)
        await anyio.sleep(seconds)
        return answer

    @agent_tool(title="Fail", read_only=True, structured=False)
    def failing_job(context: Context[Any, Any]) -> CallToolResult:
        """Begin a job whose tool fails; clients without tasks are refused."""
        require_client_extension(context.request_context, TASKS)
        return jobs.begin(SECONDS, said("The job failed.").model_copy(update={"is_error": True}))

    @agent_tool(title="Break", read_only=True, structured=False)
    def protocol_error_job(context: Context[Any, Any]) -> CallToolResult:
        """Begin a job that ends with an error of the protocol; clients without tasks are refused."""
        require_client_extension(context.request_context, TASKS)
        return jobs.begin(SECONDS, {"code": INTERNAL_ERROR, "message": "The job broke."}, fails=True)

    @agent_tool(title="Ask and begin", read_only=True, structured=False)
    def test_tool_with_task(context: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
        """Ask for a name, then begin a job that greets; clients without tasks are refused."""
        require_client_extension(context.request_context, TASKS)
        found = accepted(context, "user_name")
        if found is None:
            return needed({"user_name": form("What is your name?", name="string")})
        return jobs.begin(SECONDS, said(f"Hello, {found['name']}!"))

    return [slow_compute, failing_job, protocol_error_job, test_tool_with_task]
