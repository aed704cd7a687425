"""Checkpoints: listed, pruned, exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.context import workspace_of
from trainwright.server.markdown import counted
from trainwright.server.surface.arguments import IdempotencyKey, NewestRun, Project, RunId, WaitSeconds, run_of
from trainwright.server.surface.runs import started

if TYPE_CHECKING:
    from trainwright.tools.training_orchestrator import RunView
    from trainwright.tools.workspace import Workspace


@agent_tool("tools.checkpoint_manager:CheckpointList", title="List checkpoints", read_only=True)
def list_checkpoints(
    context: Context[Any, Any],
    run_id: NewestRun = None,
    verify: Annotated[bool, Field(description="Also compare every file with its digest")] = False,
) -> CallToolResult:
    """The checkpoints of a run with step, epoch, size, digest and whether they are best or last. With verify, names
    every file that was changed or is missing."""
    from trainwright.tools import checkpoint_manager

    workspace = workspace_of(context)
    answer = checkpoint_manager.list_checkpoints(workspace, run_of(workspace, run_id), verify=verify)
    checked = f"; {len(answer.problems)} problems" if verify else ""
    return reply(
        answer,
        f"Run {answer.run_id}: {counted(len(answer.checkpoints), 'checkpoint')}{checked}.",
        omit={"run_id"},
    )


@agent_tool("tools.training_orchestrator:RunView", title="Export the final model")
async def export_model(
    context: Context[Any, Any],
    project: Project,
    run_id: Annotated[RunId | None, Field(description="Default: the final run")] = None,
    idempotency_key: IdempotencyKey = None,
    wait_seconds: WaitSeconds = 0.0,
) -> CallToolResult:
    """Export the final run's best checkpoint to safetensors and ONNX, compare ONNX with the model, and evaluate the
    test split, in the background. Refuses outside finalization and runs that are not completed."""
    from trainwright.tools import checkpoint_manager

    def order(workspace: Workspace) -> RunView:
        run = run_of(workspace, run_id, project) if run_id else None
        return checkpoint_manager.export_model(workspace, project, run_id=run, idempotency_key=idempotency_key)

    return await started(context, order, wait_seconds)


@agent_tool("tools.checkpoint_manager:PruneAnswer", title="Give disk back", destructive=True, idempotent=True)
def prune_checkpoints(
    context: Context[Any, Any],
    project: Project,
    *,
    keep_last: Annotated[int, Field(ge=0, description="Of each run")] = 0,
    keep_best: Annotated[int, Field(ge=0)] = 0,
    keep_every_n_epochs: Annotated[int | None, Field(ge=1)] = None,
    budget_bytes: Annotated[int | None, Field(ge=0, description="Delete only down to this size")] = None,
    confirm: Annotated[str | None, Field(description="The plan to carry out, from the call without it")] = None,
) -> CallToolResult:
    """Delete weights of trials and superseded runs; without confirm it shows the plan. Best, last, released and
    what a gate depends on are never offered; records and digests stay, and verify still passes."""
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
        omit={"checkpoints", "freed_bytes"},
    )
