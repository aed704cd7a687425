"""Retraining a run to compare it with itself."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.desk import workspace_of
from trainwright.server.strict import agent_tool
from trainwright.server.surface.arguments import IdempotencyKey, Project, RunId
from trainwright.server.surface.runs import told


@agent_tool("tools.training_orchestrator:RunView", title="Verify reproducibility")
def verify_reproducibility(
    context: Context[Any, Any],
    project: Project,
    run_id: Annotated[RunId | None, Field(description="Default: the final run, or else the baseline")] = None,
    idempotency_key: IdempotencyKey = None,
) -> CallToolResult:
    """Train a run again with the same configuration and seed, in the background, and compare the weights tensor by
    tensor; names the likely causes of a difference. Refuses runs that are not completed."""
    from trainwright.tools.training_orchestrator import start_run
    from trainwright.trainer.run import RunKind

    view = start_run(workspace_of(context), project, RunKind.REPLAY, source_run=run_id, idempotency_key=idempotency_key)
    return told(view)
