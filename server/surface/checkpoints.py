"""Checkpoints and export."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.desk import workspace_of
from trainwright.server.strict import agent_tool, reply
from trainwright.server.surface.arguments import IdempotencyKey, Project, RunId
from trainwright.server.surface.runs import headline
from trainwright.server.wording import counted


@agent_tool("tools.checkpoint_manager:CheckpointList", title="List checkpoints", read_only=True)
def list_checkpoints(
    context: Context[Any, Any],
    run_id: RunId,
    verify: Annotated[bool, Field(description="Also compare every file with its digest")] = False,
) -> CallToolResult:
    """The checkpoints of a run with step, epoch, size, digest and whether they are best or last. With verify, names
    every file that was changed or is missing."""
    from trainwright.tools import checkpoint_manager

    answer = checkpoint_manager.list_checkpoints(workspace_of(context), run_id, verify=verify)
    found = f"Run {run_id} has {len(answer.checkpoints)} checkpoints"
    return reply(answer, f"{found}; {len(answer.problems)} problems." if verify else f"{found}.")


@agent_tool("tools.training_orchestrator:RunView", title="Export the final model")
def export_model(
    context: Context[Any, Any],
    project: Project,
    run_id: Annotated[RunId | None, Field(description="Default: the final run")] = None,
    idempotency_key: IdempotencyKey = None,
) -> CallToolResult:
    """Export the final run's best checkpoint to safetensors and ONNX, compare ONNX with the model, and evaluate the
    test split, in the background. Refuses outside finalization and runs that are not completed."""
    from trainwright.tools import checkpoint_manager

    view = checkpoint_manager.export_model(
        workspace_of(context), project, run_id=run_id, idempotency_key=idempotency_key
    )
    return reply(view, headline(view))


@agent_tool("tools.checkpoint_manager:PruneAnswer", title="Give disk back", destructive=True, idempotent=True)
def prune_checkpoints(
    context: Context[Any, Any],
    project: Project,
    *,
    keep_last: Annotated[int, Field(ge=0, description="Newest checkpoints of each run to keep")] = 0,
    keep_best: Annotated[int, Field(ge=0, description="Best checkpoints of each run to keep")] = 0,
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
    what = f"weights of {counted(answer.checkpoints, 'checkpoint')}, {mebibytes(answer.freed_bytes)}"
    return reply(answer, f"{'Deleted' if answer.deleted else 'Dry run, nothing is deleted yet'}: {what}.")


def mebibytes(size: int) -> str:
    """Return bytes as mebibytes with one decimal."""
    return f"{size / 2**20:.1f} MiB"
