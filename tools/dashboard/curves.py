"""Curves of a run: every series in few buckets that keep its spikes, and then only what is new.

SQLite groups a series where it lies: reading a million points into memory to thin them out there (tsdownsample) takes
several times as long as the grouping.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from trainwright.tools.dashboard.run_page import RunProgress, run_progress, shown_number
from trainwright.tools.training_monitor import RunComparison, compare_runs
from trainwright.tools.training_monitor.record import OF_THE_LOSS
from trainwright.tools.training_orchestrator.observation import observe
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_handles
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import MetricStore, RunDirectory

POINTS = 600
MAX_POINTS = 2000
MAX_KEYS = 40
MAX_NEW = 2000
"""New points of one series that are sent one by one; more are read again in buckets."""
MAX_NON_FINITE = 50
GLANCED = ("train/loss", "train/epoch_loss", "train/gradient_norm", "train/learning_rate")
MAX_GLANCED, GLANCE_POINTS = 10, 150


class Curve(BaseModel):
    """One series in buckets over equal spans of steps, as columns."""

    steps: list[int]
    """Last step of each bucket."""
    means: list[float]
    lows: list[float]
    highs: list[float]
    non_finite: list[int] = []
    """Steps at which the value was NaN or infinite, the first of them."""


class Curves(BaseModel):
    """Some series of one run, and the place from which on there is more."""

    curves: dict[str, Curve]
    cursor: str
    """`ATTEMPT:STEP,STEP,…`: the last step of each series in the order of the keys asked for."""


class NewPoints(BaseModel):
    """What was recorded since a cursor."""

    points: dict[str, list[tuple[int, float | str]]]
    """(step, value) by key; 'nan' and 'inf' as text."""
    cursor: str
    restart: bool = False
    """Whether the curves must be read again: the run was resumed at an earlier step, or too much is new."""


class RunGlance(BaseModel):
    """A run in the frame of an agent's client: how far it is, and its main curves."""

    progress: RunProgress
    curves: Curves


def run_glance(workspace: Workspace, run_id: str) -> RunGlance:
    """Return a run's progress and main curves, in few points. Raises NotFoundError, IntegrityError."""
    progress = run_progress(workspace, run_id)
    keys = workspace.run_directory(progress.project, run_id).metrics().keys()
    shown = [key for key in keys if key in GLANCED or key.startswith("validation/")]
    return RunGlance(progress=progress, curves=curves(workspace, run_id, shown[:MAX_GLANCED], GLANCE_POINTS))


def curves(workspace: Workspace, run_id: str, keys: Sequence[str], points: int = POINTS) -> Curves:
    """Return series of a run, each in at most `points` buckets. Raises NotFoundError, IntegrityError."""
    directory, attempt = _opened(workspace, run_id)
    store, found, ends = directory.metrics(), {}, []
    with store.reading():
        for key in keys[:MAX_KEYS]:
            found[key] = _curve(store, key, min(max(points, 2), MAX_POINTS))
            last = store.last(key)
            ends.append(last.step if last is not None else -1)
    return Curves(curves=found, cursor=_cursor(attempt, ends))


def curves_since(workspace: Workspace, run_id: str, keys: Sequence[str], cursor: str) -> NewPoints | None:
    """Return what is new since the cursor; None where nothing is. Raises NotFoundError, IntegrityError."""
    keys = keys[:MAX_KEYS]
    directory, attempt = _opened(workspace, run_id)
    place = _place(cursor, len(keys))
    if place is None or place[0] != attempt:
        return NewPoints(points={}, cursor=_cursor(attempt, [-1] * len(keys)), restart=True)
    store, new, ends = directory.metrics(), {}, []
    with store.reading():
        for key, after in zip(keys, place[1], strict=True):
            last = store.last(key)
            end = last.step if last is not None else -1
            ends.append(end)
            if end < after or (end > after and store.count_after(key, after) > MAX_NEW):
                return NewPoints(points={}, cursor=_cursor(attempt, [-1] * len(keys)), restart=True)
            if end > after:
                new[key] = [(p.step, shown_number(p.value)) for p in store.series(key, after_step=after)]
    return NewPoints(points=new, cursor=_cursor(attempt, ends)) if new else None


def _opened(workspace: Workspace, run_id: str) -> tuple[RunDirectory, int]:
    with workspace.snapshot() as session:
        run = get_run(session, run_id)
    directory = workspace.run_directory(run.project, run.id)
    return directory, observe(directory).status.attempt


def _curve(store: MetricStore, key: str, points: int) -> Curve:
    buckets = store.buckets(key, points)
    steps, means, lows, highs = (list(column) for column in zip(*buckets, strict=True)) if buckets else ([], [], [], [])
    bad = [point.step for point in store.non_finite(key)[:MAX_NON_FINITE]]
    return Curve(steps=steps, means=means, lows=lows, highs=highs, non_finite=bad)


def _cursor(attempt: int, ends: Sequence[int]) -> str:
    return f"{attempt}:{','.join(map(str, ends))}"


def _place(cursor: str, keys: int) -> tuple[int, list[int]] | None:
    """Return attempt and steps of a cursor; None of a text that is none, or of other keys."""
    attempt, _, ends = cursor.partition(":")
    try:
        place = int(attempt), [int(end) for end in ends.split(",")] if ends else []
    except ValueError:
        return None
    return place if len(place[1]) == keys else None


# Comparison of runs on the page: their results beside each other, and what differed between them.

MAX_RUNS = 8


class ComparisonPage(BaseModel):
    """Several runs side by side."""

    comparison: RunComparison
    handles: dict[str, str]
    """By run id."""
    keys: list[str]
    """Series that each of them has recorded; without the losses where these are of several scales."""


def comparison_page(workspace: Workspace, run_ids: Sequence[str]) -> ComparisonPage:
    """Return the comparison of two to eight runs. Raises NotFoundError, ConfigurationError, IntegrityError."""
    wanted = list(dict.fromkeys(run_ids))
    if not 2 <= len(wanted) <= MAX_RUNS:
        raise ConfigurationError(
            f"{len(wanted)} runs cannot be compared.", remedy=f"Choose 2 to {MAX_RUNS} runs of a project's table."
        )
    with workspace.snapshot() as session:
        rows = [get_run(session, run_id) for run_id in wanted]
        names = {long: handle for handle, long in run_handles(session).items()}
    directories = [workspace.run_directory(row.project, row.id) for row in rows]
    keys = [set(directory.metrics().keys()) for directory in directories]
    compared = compare_runs(directories)
    unlike = frozenset() if compared.losses_compared else OF_THE_LOSS
    return ComparisonPage(
        comparison=compared,
        handles={run_id: names.get(run_id, run_id) for run_id in wanted},
        keys=sorted(set.intersection(*keys) - unlike),
    )
