"""Retraining a run to compare it with itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool
from trainwright.server.surface.arguments import IdempotencyKey, Project, RunId, WaitSeconds
from trainwright.server.surface.naming import run_of
from trainwright.server.surface.runs import started

if TYPE_CHECKING:
    from trainwright.tools.training_orchestrator import RunView
    from trainwright.tools.workspace import Workspace


@agent_tool("tools.training_orchestrator:RunView", title="Verify reproducibility")
async def verify_reproducibility(
    context: Context[Any, Any],
    project: Project,
    run_id: Annotated[RunId | None, Field(description="Default: the final run, or else the baseline")] = None,
    *,
    steps: Annotated[int | None, Field(ge=1, description="Repeat so many first steps alone, bit for bit")] = None,
    idempotency_key: IdempotencyKey = None,
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Train a run again with the same configuration and seed, in the background, and compare the weights tensor by
    tensor; names the likely causes of a difference. A few `steps` show that a changed package or file does not matter:
    then stale gates stand again. Refuses runs that are not completed."""
    from trainwright.tools.training_orchestrator import replay_run

    def order(workspace: Workspace) -> RunView:
        run = run_of(workspace, run_id, project) if run_id else None
        return replay_run(workspace, project, run_id=run, idempotency_key=idempotency_key, steps=steps)

    return await started(context, order, wait_seconds)
