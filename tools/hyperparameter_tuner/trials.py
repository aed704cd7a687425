"""The trial table: the only truth that samplers and pruners see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.gates.study_check import front, keeps_bounds, place
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.config.search import ObjectiveSection

RUNNING, COMPLETED, PRUNED, FAILED = "running", "completed", "pruned", "failed"


@dataclass(frozen=True)
class TrialRecord:
    """One row of the table, without the database."""

    number: int
    parameters: dict[str, Any]
    state: str = RUNNING
    value: float | None = None
    intermediate: dict[int, float] = field(default_factory=dict)
    """Epoch to the objective's value, up to the epoch at which the trial was pruned."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Optuna's system attributes, and `cause` of a failed trial."""
    run: str | None = None
    further: dict[str, float] = field(default_factory=dict)
    """Further objectives' values, at the epoch of `value`."""

    def words(self) -> str:
        """Return the parameters in a line, numbers to four digits."""
        shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in self.parameters.items()}
        return ", ".join(f"{key} {value}" for key, value in shown.items())


def trials_of(session: Session, study_id: str) -> list[TrialRecord]:
    """Return the study's trials by number."""
    rows = session.scalars(select(Trial).where(Trial.study == study_id).order_by(Trial.number))
    return [
        TrialRecord(
            number=row.number,
            parameters=dict(row.parameters),
            state=row.state,
            value=row.value,
            intermediate={int(epoch): float(value) for epoch, value in row.intermediate.items()},
            further={metric: float(value) for metric, value in row.further.items()},
            attributes=dict(row.attributes),
            run=row.run,
        )
        for row in rows
    ]


def trial_row(session: Session, study_id: str, number: int) -> Trial:
    """Return one row for writing."""
    return session.scalars(select(Trial).where(Trial.study == study_id, Trial.number == number)).one()


def best_trial(
    trials: Sequence[TrialRecord], direction: str, objectives: Sequence[ObjectiveSection] = ()
) -> TrialRecord | None:
    """Return the completed trial with the best value of those that keep the bounds; of equal ones the earliest.

    Of one value the further objectives decide, in their order.
    """
    completed = [trial for trial in trials if trial.state == COMPLETED and trial.value is not None]
    completed = [trial for trial in completed if keeps_bounds(trial.further, objectives)]

    def key(trial: TrialRecord) -> tuple[tuple[float, ...], int]:
        return place(trial.value or 0.0, trial.further, direction, objectives), trial.number

    return min(completed, key=key, default=None)


def pareto_front(
    trials: Sequence[TrialRecord], direction: str, objectives: Sequence[ObjectiveSection]
) -> list[TrialRecord]:
    """Return the completed trials that no other dominates, by the goal's value, best first; bounds leave none out."""
    completed = {trial.number: trial for trial in trials if trial.state == COMPLETED and trial.value is not None}
    points = {
        number: [trial.value or 0.0, *(trial.further[one.metric] for one in objectives)]
        for number, trial in completed.items()
        if all(one.metric in trial.further for one in objectives)
    }
    return [completed[number] for number in front(points, [direction, *(one.direction for one in objectives)])]


# Waves: trials that run side by side, none of which knows what another of them found (TUNE-3, TUNE-7).
#
# Trial k's suggestion and its pruning depend on the study's seed, on k and on the results of earlier waves alone. So a
# study gives the same trials whatever is killed, however it is split, and whether a wave's trials ran at once or one
# after the other.

T = TypeVar("T")
CAUSE, RUNG = "cause", "completed_rung_"
"""Attributes of a trial that tell of its results: why it failed, and its value at a rung (Optuna's prefix)."""


def wave_of(number: int, width: int) -> range:
    """Return the numbers of the wave that trial `number` belongs to."""
    start = number - number % width
    return range(start, start + width)


def seen_by(number: int, width: int, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the table as trial `number` sees it: the trials before it, those of its own wave as under way."""
    start = wave_of(number, width).start
    return [trial if trial.number < start else begun(trial) for trial in trials if trial.number < number]


def begun(trial: TrialRecord) -> TrialRecord:
    """Return the trial as it was suggested: its parameters are known, its results are not."""
    asked = {key: value for key, value in trial.attributes.items() if key != CAUSE and not key.startswith(RUNG)}
    return replace(trial, state=RUNNING, value=None, intermediate={}, further={}, attributes=asked)


def side_by_side(width: int, tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do the tasks, at most `width` at once, and return their results in order.

    A task that raises keeps no other from its end; of several errors the first in order is raised.
    """
    if width == 1 or len(tasks) == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(width, thread_name_prefix="trial") as pool:
        begun = [pool.submit(task) for task in tasks]
        wait(begun)
    return [each.result() for each in begun]
