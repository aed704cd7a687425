"""The trial table: the only truth that samplers and pruners see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from trainwright.tools.workspace.tables import Trial

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

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
            attributes=dict(row.attributes),
            run=row.run,
        )
        for row in rows
    ]


def trial_row(session: Session, study_id: str, number: int) -> Trial:
    """Return one row for writing."""
    return session.scalars(select(Trial).where(Trial.study == study_id, Trial.number == number)).one()


def best_trial(trials: list[TrialRecord], direction: str) -> TrialRecord | None:
    """Return the completed trial with the best value; of equal ones the earliest."""
    completed = [trial for trial in trials if trial.state == COMPLETED and trial.value is not None]
    sign = -1.0 if direction == "maximize" else 1.0
    return min(completed, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)
