"""Checkpoints and export."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.desk import workspace_of
from trainwright.server.strict import agent_tool, reply
from trainwright.server.surface.arguments import IdempotencyKey, Project, RunId
from trainwright.server.surface.runs import told
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
    checked = f"; {len(answer.problems)} problems" if verify else ""
    return reply(
        answer, f"Run {answer.run_id}: {counted(len(answer.checkpoints), 'checkpoint')}{checked}.", said={"run_id"}
    )


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
    return told(view)
