"""Progress of a run or study in one line, for a client that waits: state, steps, newest values, a curve, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunDirectory, RunStatus

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 12
"""Bars of a curve."""


class Progress(NamedTuple):
    """Progress of a run or study."""

    done: float
    total: float | None
    message: str


class RunSight:
    """What a client hears of a run while it waits; each look reads the status and a few values."""

    def __init__(self, workspace: Workspace, run_id: str) -> None:
        """Look at nothing yet."""
        self._workspace, self._run_id = workspace, run_id
        self._found: tuple[RunDirectory, str] | None = None
        self._began: tuple[int, float] | None = None
        """The first step seen, and when."""

    def __call__(self) -> Progress:
        """Return the run's progress now. Raises TrainwrightError."""
        directory, metric = self._found = self._found or self._find()
        status = directory.status()
        of = f" of {status.total_steps}" if status.total_steps else ""
        parts = [f"{status.state.value} {status.stage}".strip(), f"step {status.step}{of}", *_values(directory, metric)]
        if left := self._left(status):
            parts.append(f"about {left} left")
        return Progress(status.step, status.total_steps, ", ".join(parts))

    def _find(self) -> tuple[RunDirectory, str]:
        from trainwright.tools.workspace.records import get_project, get_run

        with self._workspace.snapshot() as session:
            run = get_run(session, self._run_id)
            metric = str(get_project(session, run.project).goal["metric"])
        return self._workspace.run_directory(run.project, run.id), metric

    def _left(self, status: RunStatus) -> str:
        """Return the time that the steps left take, by those that were seen; all of them, if nothing ends it early."""
        began = self._began = self._began or (status.step, time.monotonic())
        done = status.step - began[0]
        if done <= 0 or not status.total_steps or status.step >= status.total_steps:
            return ""
        return duration((status.total_steps - status.step) * (time.monotonic() - began[1]) / done)


def _values(directory: RunDirectory, metric: str) -> list[str]:
    """Return the newest training loss, and the goal's metric with its curve over the epochs."""
    store, parts = directory.metrics(), []
    with store.reading():
        if (loss := store.last("train/loss")) is not None:
            parts.append(f"loss {loss.value:.4g}")
        key = f"validation/{metric}"
        if (newest := store.last(key)) is not None:
            curve = sparkline([mean for _, mean, _, _ in store.buckets(key, WIDTH)])
            parts.append(f"{metric} {newest.value:.4g} {curve}".strip())
    return parts


class StudySight:
    """What a client hears of a study while it waits: the trials that have ended, the best, and the time left."""

    def __init__(self, workspace: Workspace, study_id: str) -> None:
        """Look at nothing yet."""
        self._workspace, self._study_id = workspace, study_id

    def __call__(self) -> Progress:
        """Return the study's progress now. Raises TrainwrightError."""
        from trainwright.tools.hyperparameter_tuner.trials import RUNNING, trials_of
        from trainwright.tools.hyperparameter_tuner.views import estimated_seconds
        from trainwright.tools.workspace.records import get_study

        with self._workspace.snapshot() as session:
            study, trials = get_study(session, self._study_id), trials_of(session, self._study_id)
            left = estimated_seconds(session, study)
        done, total = sum(trial.state != RUNNING for trial in trials), study.search.get("trials")
        parts = [study.state, f"trial {done} of {total}"]
        values = [trial.value for trial in trials if trial.value is not None]
        if values:
            best = (min if study.objective["direction"] == "minimize" else max)(values)
            parts.append(f"best {study.objective['metric']} {best:.4g} {sparkline(values[-WIDTH:])}".strip())
        if left:
            parts.append(f"about {duration(left)} left")
        return Progress(done, total, ", ".join(parts))


def sight(workspace: Workspace, name: str) -> RunSight | StudySight:
    """Return what a client hears of a run or study, by its long id."""
    return (StudySight if is_study(workspace, name) else RunSight)(workspace, name)


def is_study(workspace: Workspace, name: str) -> bool:
    """Return whether a long id is that of a study."""
    from trainwright.tools.workspace.tables import Study

    with workspace.snapshot() as session:
        return session.get(Study, name) is not None


def sparkline(values: Sequence[float]) -> str:
    """Return values as bars between their lowest and highest; one alone shows nothing, and one that is NaN a gap."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, width = min(finite), (max(finite) - min(finite)) or 1.0
    bars = {value: BARS[round((value - low) / width * (len(BARS) - 1))] for value in finite}
    return "".join(bars.get(value, " ") for value in values)


def duration(seconds: float) -> str:
    """Return a time in its larger unit: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
