"""Page of a search: its trials, and how the best value came about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from trainwright.tools.hyperparameter_tuner.trials import best_trial, trials_of
from trainwright.tools.workspace.records import get_study

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace


class TrialLine(BaseModel):
    """One trial."""

    number: int
    state: str
    value: float | None
    best_so_far: float | None
    """The best value of the completed trials up to this one."""
    parameters: dict[str, Any]
    run_id: str | None


class StudyPage(BaseModel):
    """Everything about one search."""

    study_id: str
    project: str
    state: str
    metric: str
    direction: str
    trials_total: int
    best: int | None
    """Number of the best completed trial."""
    trials: list[TrialLine]
    confirmation: dict[str, Any] | None
    failure: dict[str, Any] | None


def study_page(workspace: Workspace, study_id: str) -> StudyPage:
    """Return the page of a study, from its tables. Raises NotFoundError."""
    with workspace.snapshot() as session:
        study, trials = get_study(session, study_id), trials_of(session, study_id)
    direction = study.objective["direction"]
    best = None if study.is_ablation else best_trial(trials, direction)  # its values are of several seeds
    lines = []
    for place, trial in enumerate(trials, start=1):
        so_far = None if study.is_ablation else best_trial(trials[:place], direction)
        line = {"number": trial.number, "state": trial.state, "value": trial.value, "parameters": trial.parameters}
        lines.append(TrialLine(**line, best_so_far=so_far and so_far.value, run_id=trial.run))
    return StudyPage(
        study_id=study.id,
        project=study.project,
        state=study.state,
        metric=study.objective["metric"],
        direction=direction,
        trials_total=study.search["trials"],
        best=best.number if best is not None else None,
        trials=lines,
        confirmation=study.confirmation,
        failure=study.failure,
    )
