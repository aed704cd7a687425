"""Page of one run: its state and progress, alerts with their documents, marks on its curves, checkpoints."""

from __future__ import annotations

import math
from typing import Any

from pydantic import BaseModel

from trainwright.tools.alerts import history
from trainwright.tools.training_orchestrator.observation import observe
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.views import describe_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_handles
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.checkpoints import index
from trainwright.trainer.config import flatten
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evidence import Resolved

MAX_MARKS = 40
MAX_CHECKPOINTS = 200
"""The newest, beside the best."""
SHOWN = ("validation/loss", "train/epoch_loss", "train/loss")
"""The first of them that a run has recorded stands in its line."""


class RunProgress(BaseModel):
    """How far a run is, in a line."""

    run_id: str
    project: str
    kind: str
    label: str | None
    study: str | None
    state: str
    stage: str
    attempt: int
    step: int
    total_steps: int | None
    epoch: int
    total_epochs: int | None
    started_at: float
    heartbeat_at: float
    loss: float | str | None
    """The newest validation loss, else the training loss; 'nan' and 'inf' as text."""


class Mark(BaseModel):
    """A moment on a run's curves."""

    step: int
    kind: str
    """best, resumed, alert or stop."""
    text: str


class CheckpointLine(BaseModel):
    """One checkpoint of a run."""

    name: str
    step: int
    epoch: int
    tags: list[str]
    bytes: int
    digest: str


class RunPage(BaseModel):
    """Everything about one run but its curves."""

    handle: str
    view: dict[str, Any]
    """The run's view as run_status gives it in full."""
    study: str | None
    earlier_alerts: list[str]
    """A sentence on each alert that came back, was cleared, or was fixed by a later run."""
    keys: list[str]
    """Recorded series."""
    marks: list[Mark]
    checkpoints: list[CheckpointLine]
    config: dict[str, Any]
    """Dotted keys with their resolved values."""


def run_page(workspace: Workspace, run_id: str) -> RunPage:
    """Return the page of a run. Raises NotFoundError."""
    with workspace.snapshot() as session:
        run = get_run(session, run_id)
        names = {long: handle for handle, long in run_handles(session).items()}
    directory = workspace.run_directory(run.project, run.id)
    view = describe_run(workspace, run, with_alerts=True)
    return RunPage(
        handle=names.get(run_id, run_id),
        view=view.shown(full=True),
        study=run.study,
        earlier_alerts=history(workspace, run_id),
        keys=_keys(directory),
        marks=_marks(directory, view),
        checkpoints=_checkpoints(directory),
        config=_config(directory),
    )


def run_progress(workspace: Workspace, run_id: str) -> RunProgress:
    """Return how far a run is. Raises NotFoundError."""
    with workspace.snapshot() as session:
        run = get_run(session, run_id)
    return progress_of(workspace, run)


def progress_of(workspace: Workspace, run: Run) -> RunProgress:
    """Return how far a run is by its directory; nothing is filed. A damaged one shows as failed."""
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    status = seen.status
    return RunProgress(
        run_id=run.id,
        project=run.project,
        kind=run.kind,
        label=run.label,
        study=run.study,
        state=seen.state.value,
        stage="" if seen.state.is_ended else status.stage,
        attempt=max(status.attempt, seen.launch.attempt),
        step=status.step,
        total_steps=status.total_steps,
        epoch=status.epoch,
        total_epochs=status.total_epochs,
        started_at=status.started_at,
        heartbeat_at=status.heartbeat_at,
        loss=_loss(directory),
    )


def shown_number(value: float) -> float | str:
    """Return a number as JSON has it: 'nan', 'inf' and '-inf' as text."""
    return value if math.isfinite(value) else str(value)


def _loss(directory: RunDirectory) -> float | str | None:
    try:
        store = directory.metrics()
        with store.reading():
            point = next((point for key in SHOWN if (point := store.last(key)) is not None), None)
    except TrainwrightError:
        return None
    return None if point is None else shown_number(point.value)


def _keys(directory: RunDirectory) -> list[str]:
    try:
        return directory.metrics().keys()
    except TrainwrightError:
        return []


def _marks(directory: RunDirectory, view: RunView) -> list[Mark]:
    events = directory.events()
    marks = [
        Mark(step=int(event.data["step"]), kind="resumed", text=f"resumed from {event.data.get('from_checkpoint')}")
        for event in events
        if event.kind == "resumed" and isinstance(event.data.get("step"), int)
    ]
    best = view.best or {}
    if isinstance(best.get("step"), int):
        marks.append(Mark(step=best["step"], kind="best", text=f"best epoch {best.get('epoch')}"))
    marks += [Mark(step=alert.step, kind="alert", text=alert.title) for alert in view.alerts]
    return marks[-MAX_MARKS:]


def _checkpoints(directory: RunDirectory) -> list[CheckpointLine]:
    try:
        records = index.list_checkpoints(directory)
    except TrainwrightError:
        return []
    shown = [one for place, one in enumerate(records) if place >= len(records) - MAX_CHECKPOINTS or "best" in one.tags]
    return [CheckpointLine(**record.model_dump(exclude={"path"})) for record in shown]


def _config(directory: RunDirectory) -> dict[str, Any]:
    try:
        resolved = directory.part(Resolved)
        config = directory.specification().config
    except TrainwrightError:
        return {}
    found = flatten(config.model_dump(mode="json", exclude_none=True))
    return found | {key: f"{found[key]} (not used)" for key in resolved.ignored_keys or [] if key in found}
