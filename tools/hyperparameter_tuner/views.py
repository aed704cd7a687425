"""Views of a study: its trials, its best value, and the time that it still takes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.searches import seconds_a_trial
from trainwright.tools.hyperparameter_tuner.ablation.view import ablation_view
from trainwright.tools.hyperparameter_tuner.ends import ended_by
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    PRUNED,
    RUNNING,
    TrialRecord,
    best_trial,
    trials_of,
)
from trainwright.tools.training_orchestrator import followed_next
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import SearchSection

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Study


PRUNED_SHARE = 0.6
"""Share of a complete run that a trial takes on average under pruning, before any trial was measured."""


def estimated_seconds(workspace: Workspace, study: Study, trials_done: int, *, is_last: bool = False) -> float | None:
    """Return the seconds of training that are left: waves of trials, and repetitions of the best and the baseline.

    By the mean time of the newest sealed trials, and before there is one by the baseline's, shortened roughly for
    pruning. None where nothing was measured.

    Args:
        is_last: whether no more trials are asked for.
    """
    try:
        with workspace.session() as session:
            seconds = seconds_a_trial(Evidence(session, workspace, study.project))
    except TrainwrightError:  # an edited record is reported where the study is evaluated
        return None
    if seconds is None:
        return None
    if study.is_ablation:
        waves = math.ceil((int(study.search["trials"]) - trials_done) / int(study.search["width"]))
        return round(seconds * waves, 1)
    search = SearchSection.model_validate(study.search)
    pruned = PRUNED_SHARE if search.pruning.name != "none" and not trials_done else 1.0
    repetitions = 2 * search.confirmation_repeats
    more = 0 if is_last else search.trials - trials_done
    left = math.ceil(more / search.width) * pruned + math.ceil(repetitions / search.width)
    return round(seconds * left, 1)


class BestTrial(BaseModel):
    """The best completed trial."""

    model_config = ConfigDict(frozen=True)

    number: int
    value: float
    parameters: dict[str, Any]
    run_id: str | None


class StudyView(Answer):
    """The status of a study."""

    study_id: str
    project: str
    state: str
    """running, confirming, completed, failed, stopped."""
    metric: str
    direction: str
    trials_total: int
    trials_done: int
    completed: int = 0
    pruned: int = 0
    failed: int = 0
    running_trial: int | None = None
    running_run: str | None = None
    running: dict[int, str | None] | None = None
    """Every trial under way with its run, where several run side by side."""
    best: BestTrial | None = None
    confirmation: dict[str, Any] | None = None
    """{seeds, baseline: [values], best: [values], improvement_mean, _low and _high, validated, …}."""
    failure: dict[str, Any] | None = None
    ended_by: dict[str, Any] | None = None
    """Why it asks for no more trials before its last one: a limit of its own or a rule, with the figures."""
    ablation: dict[str, Any] | None = None
    """Of an ablation study: {design, seeds, conclusion, effects: [{effect, mean, low, high, p_holm, verdict}], …}."""
    estimated_seconds: float | None = None
    """Training time that is left: waves of trials and repetitions times measured seconds a run, less for pruning."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing about the study changes any more unless it is started again."""
        return self.state not in ACTIVE

    def unsaid(self) -> dict[str, Any]:
        """Counts that are nought."""
        return {name: True for name in ("completed", "pruned", "failed") if not getattr(self, name)}


def view_study(workspace: Workspace, study_id: str, *, estimate: bool = False) -> StudyView:
    """Describe a study from its tables. Raises NotFoundError.

    Args:
        estimate: whether to say how long it still takes, which reads the project's records.
    """
    with workspace.session() as session:
        study, trials = get_study(session, study_id), trials_of(session, study_id)
        ablation = ablation_view(session, workspace, study) if study.is_ablation else None
        early = ended_by(session, study)
    view = _view(workspace, study, trials)
    view.ablation, view.ended_by = ablation, early
    if estimate and not view.is_ended:
        view.estimated_seconds = estimated_seconds(workspace, study, view.trials_done, is_last=early is not None)
    return view


def _view(workspace: Workspace, study: Study, trials: list[TrialRecord]) -> StudyView:
    counts = {state: sum(trial.state == state for trial in trials) for state in (COMPLETED, PRUNED, FAILED)}
    best = None if study.is_ablation else best_trial(trials, study.objective["direction"])
    at_work = {trial.number: trial.run for trial in trials if trial.state == RUNNING}
    running = min(at_work, default=None)
    return StudyView(
        study_id=study.id,
        project=study.project,
        state=study.state,
        metric=study.objective["metric"],
        direction=study.objective["direction"],
        trials_total=study.search["trials"],
        trials_done=sum(counts.values()),
        **counts,
        running_trial=running,
        running_run=None if running is None else at_work[running],
        running=at_work if len(at_work) > 1 else None,
        best=_best(best),
        confirmation=study.confirmation,
        failure=study.failure,
        next=_next(workspace, study),
    )


def _best(trial: TrialRecord | None) -> BestTrial | None:
    if trial is None or trial.value is None:
        return None
    return BestTrial(number=trial.number, value=trial.value, parameters=trial.parameters, run_id=trial.run)


def _next(workspace: Workspace, study: Study) -> NextCall | None:
    if study.state in ACTIVE:
        arguments = {"study_id": study.id, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why=f"the study is {study.state}")
    return followed_next(workspace, study.project)
