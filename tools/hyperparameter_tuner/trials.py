"""Trials: the sampler's next suggestion, and the rows of those that were made.

The sampler lives for one suggestion and is seeded by (search seed, number of trials), so a study that was killed
anywhere goes on with the very trials it would have made. (A sampler carried along, or one seeded alike at each start,
repeats itself or diverges after a restart.)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from trainwright.tools.hyperparameter_tuner.memory_study import decoded, distributions, memory_study
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.canonical import digest_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import optuna
    from sqlalchemy.orm import Session

    from trainwright.trainer.config import SearchSection


def suggest(
    search: SearchSection, direction: str, trials: Sequence[TrialRecord]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (dotted key to value, Optuna's system attributes) of trial number `len(trials)`."""
    sampler = _sampler(search, len(trials))
    study = memory_study(search.space, direction, trials, sampler=sampler)
    asked = study.ask(distributions(search.space))
    attributes = study.trials[-1].system_attrs
    return decoded(search.space, asked.params), dict(attributes)


def startup_trials(search: SearchSection) -> int:
    """Return how many trials TPE draws at random before it models: a third of the study, between 4 and 10."""
    return max(4, min(10, search.trials // 3))


def _sampler(search: SearchSection, number: int) -> optuna.samplers.BaseSampler:
    import optuna

    seed = int(digest_json([search.seed, number]).split(":")[1][:8], 16)
    if search.method == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup_trials(search))


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
