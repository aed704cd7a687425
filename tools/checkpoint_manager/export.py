"""Exporting a run's best checkpoint, in a worker like any other run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.training_orchestrator import RunView, start_run
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace


def export_model(
    workspace: Workspace, project: str, *, run_id: str | None = None, idempotency_key: str | None = None
) -> RunView:
    """Export a completed run: safetensors, ONNX compared with the model, and the test split's metrics.

    Args:
        run_id: the run to export; the final run by default.

    Raises:
        GateRefusedError, LimitReachedError: no permit.
        ConflictError: there is no completed run to export.
    """
    return start_run(workspace, project, RunKind.EXPORT, source_run=run_id, idempotency_key=idempotency_key)
