"""Checkpoints of a run: listed with their digests, and the best one exported."""

from __future__ import annotations

from pydantic import BaseModel, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.training_orchestrator import RunView, start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.checkpoints import index
from trainwright.trainer.run import RunDirectory, RunKind

MAX_LISTED = 40


class CheckpointView(BaseModel):
    """One checkpoint."""

    name: str
    step: int
    epoch: int
    """Epochs completed when it was written."""
    tags: list[str]
    """Of best, last and periodic."""
    bytes: int
    digest: str
    metrics: dict[str, float | str] = Field(default_factory=dict)
    """Validation metrics recorded at its step; none inside an epoch."""
    whole: bool | None = None
    """Whether every file matches its digest; None when that was not requested."""


class CheckpointList(Answer):
    """A run's checkpoints in order of step; beyond 40 the untagged ones in the middle are left out."""

    run_id: str
    checkpoints: list[CheckpointView]
    left_out: int = 0
    problems: list[str] = Field(default_factory=list)
    """One sentence for every file that is missing or was changed."""


def list_checkpoints(workspace: Workspace, run_id: str, *, verify: bool = False) -> CheckpointList:
    """List a run's checkpoints; with `verify`, compare every file with its digest.

    Raises:
        NotFoundError: there is no such run.
        IntegrityError: the run's metrics cannot be read.
    """
    with workspace.session() as session:
        run = get_run(session, run_id)
    directory = workspace.run_directory(run.project, run.id)
    records = index.list_checkpoints(directory)
    found = {record.name: index.verify_checkpoint(record.path) for record in records} if verify else {}
    views = [_view(directory, record, found.get(record.name) if verify else None) for record in records]
    named = {record.name for record in records}
    problems = [f"{name}: {problem}" for name, list_ in found.items() for problem in list_]
    problems += [
        f"{path.name}: manifest.json is missing or damaged"
        for path in index.checkpoint_folders(directory.checkpoints)
        if path.name not in named
    ]
    shown = views if len(views) <= MAX_LISTED else _shortened(views)
    call = NextCall(tool="run_status", arguments={"run_id": run_id}, why="the run's state and best epoch")
    return CheckpointList(
        run_id=run_id, checkpoints=shown, left_out=len(views) - len(shown), problems=problems, next=call
    )


def _view(directory: RunDirectory, record: index.CheckpointRecord, problems: list[str] | None) -> CheckpointView:
    return CheckpointView(
        **record.model_dump(exclude={"path"}),
        metrics=_metrics_at(directory, record.step),
        whole=None if problems is None else not problems,
    )


def _metrics_at(directory: RunDirectory, step: int) -> dict[str, float | str]:
    epochs = [event.data for event in directory.events("epoch") if event.data.get("step") == step]
    return dict(epochs[-1].get("validation") or {}) if epochs else {}


def _shortened(views: list[CheckpointView]) -> list[CheckpointView]:
    tagged = {view.name for view in views if {"best", "last"} & set(view.tags)}
    newest = {view.name for view in views[-(MAX_LISTED - len(tagged)) :]}
    return [view for view in views if view.name in tagged | newest]


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
