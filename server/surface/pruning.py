"""Giving disk back."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.context import workspace_of
from trainwright.server.format import counted
from trainwright.server.surface.arguments import Project


@agent_tool("tools.checkpoint_manager:PruneAnswer", title="Give disk back", destructive=True, idempotent=True)
def prune_checkpoints(
    context: Context[Any, Any],
    project: Project,
    *,
    keep_last: Annotated[int, Field(ge=0, description="Of each run")] = 0,
    keep_best: Annotated[int, Field(ge=0)] = 0,
    keep_every_n_epochs: Annotated[int | None, Field(ge=1)] = None,
    budget_bytes: Annotated[int | None, Field(ge=0, description="Delete no further than down to this")] = None,
    confirm: Annotated[str | None, Field(description="The plan to carry out, as the call without it showed")] = None,
) -> CallToolResult:
    """Delete weights of trials and superseded runs; without confirm it only shows the plan. Best, last, released and
    what a gate depends on are never offered; records and digests stay, and verify stays whole."""
    from trainwright.tools import checkpoint_manager
    from trainwright.tools.workspace import RetentionPolicy

    workspace = workspace_of(context)
    wanted = RetentionPolicy(
        keep_last=keep_last, keep_best=keep_best, keep_every_n_epochs=keep_every_n_epochs, budget_bytes=budget_bytes
    )
    policy = wanted.at_least(workspace.settings.retention)
    answer = checkpoint_manager.prune(workspace, project, policy, confirm=confirm)
    what = f"weights of {counted(answer.checkpoints, 'checkpoint')}, {answer.freed_bytes} bytes"
    return reply(
        answer,
        f"{'Deleted' if answer.deleted else 'Dry run, nothing is deleted yet'}: {what}.",
        said={"checkpoints", "freed_bytes"},
    )
