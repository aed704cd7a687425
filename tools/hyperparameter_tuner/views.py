"""Views of a study: its trials, its best value, and the time that it still takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.searches import MAX_TIMED, middle_seconds, room_for
from trainwright.tools.gpus.assign import claims_of, waiters
from trainwright.tools.hyperparameter_tuner.ablation.publishing import ablation_view
from trainwright.tools.hyperparameter_tuner.ends import ended_by, seconds_allowed
from trainwright.tools.hyperparameter_tuner.process import ensure_conductor
from trainwright.tools.hyperparameter_tuner.start_points import NOTHING_BETTER, ORIGIN, PRESENT, better_before
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    PRUNED,
    RUNNING,
    TrialRecord,
    best_trial,
    pareto_front,
    trials_of,
)
from trainwright.tools.launchers import read_launch
from trainwright.tools.training_orchestrator import followed_next
from trainwright.tools.training_orchestrator.wait import pause
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.tools.workspace.tables import Run, Study, now
from trainwright.trainer.base.errors import StorageError
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunKind, RunState

# Time that a study still takes, by the wall-clock times of runs that have ended, starts of processes included.

PRUNED_SHARE = 0.6
"""Share of a complete run that a trial takes on average under pruning, before any trial was measured."""


def estimated_seconds(session: Session, study: Study, *, is_last: bool = False) -> float | None:
    """Return the seconds that are left: waves of trials, and repetitions of the best and the baseline.

    A trial by the middle time of the study's newest ended runs, and before there is one by the baseline's, shortened
    roughly for pruning; a repetition, which nothing prunes, by its completed runs alone, or the baseline's. What the
    wave under way has taken so far is left out. None where nothing was measured.

    Args:
        is_last: whether no more trials are asked for.
    """
    own = list(session.scalars(select(Run).where(Run.study == study.id).order_by(Run.created_at)))
    completed = [run for run in own if run.ended_at is not None and run.state == RunState.COMPLETED]
    timed = [run for run in own if run.ended_at is not None and run.state in {RunState.COMPLETED, RunState.STOPPED}]
    whole = middle_seconds(completed[-MAX_TIMED:] or _baselines(session, study))
    of_trial = middle_seconds(timed[-MAX_TIMED:])
    if of_trial is None and whole is not None:
        of_trial = whole * (PRUNED_SHARE if _prunes(study) else 1.0)
    if of_trial is None:
        return None
    trials, repetitions = _waves_left(session, study, own, is_last=is_last)
    repetition = of_trial if whole is None else whole
    living = [run.created_at for run in own if run.ended_at is None]
    under_way = _elapsed(living, of_trial if trials else repetition)
    planned = max(trials * of_trial + repetitions * repetition - under_way, 0.0)
    allowed = seconds_allowed(session, study)
    return round(planned if allowed is None else min(planned, allowed), 1)


def _prunes(study: Study) -> bool:
    return not study.is_ablation and SearchSection.model_validate(study.search).pruning.name != "none"


def _waves_left(session: Session, study: Study, own: Sequence[Run], *, is_last: bool) -> tuple[int, int]:
    """Return the trials and the repetitions that follow one another, those under way as whole ones."""
    trials = trials_of(session, study.id)
    done = sum(trial.state != RUNNING for trial in trials)
    if study.is_ablation:
        return math.ceil((int(study.search["trials"]) - done) / int(study.search["width"])), 0
    search = SearchSection.model_validate(study.search)
    of_trials = {trial.run for trial in trials}
    repeated = sum(run.ended_at is not None and run.id not in of_trials for run in own)
    repetitions = max(2 * search.confirmation_repeats - repeated, 0)
    more = 0 if is_last else search.trials - done
    return math.ceil(more / search.width), math.ceil(repetitions / search.width)


def _baselines(session: Session, study: Study) -> list[Run]:
    query = select(Run).where(Run.project == study.project, Run.kind == RunKind.BASELINE, Run.ended_at.is_not(None))
    same = query.where(Run.base_config_digest == study.base_config_digest, Run.state == RunState.COMPLETED)
    return list(session.scalars(same.order_by(Run.created_at)))


def _elapsed(living: Sequence[datetime], seconds: float) -> float:
    """Return what the youngest run under way has taken, at most what a run takes."""
    if not living:
        return 0.0
    youngest = max(living)
    present = now() if youngest.tzinfo is not None else now().replace(tzinfo=None)
    return min(max((present - youngest).total_seconds(), 0.0), seconds)


MAX_OTHERS = 3
MAX_OF_FRONT = 8
"""Trials of the front in an answer; `plot_metrics` draws, and the report lists, all of them."""


BESIDE = {
    "metric", "direction", "best_trial", "best_value", "best_parameters", "baseline_runs", "best_runs", "differences",
    "look", "certified",
}  # fmt: skip
"""Of a confirmation: what the study's own fields say, and what follows from the others."""


class BestTrial(Frozen):
    """The best completed trial."""

    number: int
    value: float
    parameters: dict[str, Any]
    run_id: str | None
    note: str | None = None
    """Where it is the project's present configuration: that the search has found nothing better."""


class FrontTrial(Frozen):
    """A trial of the Pareto front."""

    number: int
    values: dict[str, float]
    """The goal's metric, then the further objectives."""


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
    gpus: dict[int, str] | None = None
    """Trials under way by the GPUs that they were given; absent where the machine shows none."""
    waiting: str | None = None
    """Set while runs of the study wait for a GPU."""
    best: BestTrial | None = None
    others: list[str] | None = None
    """The next best completed trials, at most MAX_OTHERS; tuning_results.md has all."""
    earlier_best: str | None = None
    """The trial of an earlier study that is better, once this one has ended."""
    front: list[FrontTrial] | None = None
    """Of several objectives: the trials that no other dominates, by the goal's value, at most MAX_OF_FRONT."""
    front_size: int | None = None
    confirmation: dict[str, Any] | None = None
    """{seeds, baseline: [values], best: [values], improvement_mean, _low and _high, validated, …}."""
    failure: dict[str, Any] | None = None
    ended_by: dict[str, Any] | None = None
    """Why it asks for no more trials before its last one: a limit of its own or a rule, with the figures."""
    ablation: dict[str, Any] | None = None
    """Of an ablation study: {design, seeds, conclusion, best, effects: [{effect, mean, low, high, p_holm, …}], …}."""
    estimated_seconds: float | None = None
    """Time that is left: waves of trials and repetitions times the measured seconds of a run, less for pruning."""

    @property
    def is_ended(self) -> bool:
        """Whether nothing about the study changes any more unless it is started again."""
        return self.state not in ACTIVE

    def unsaid(self) -> dict[str, Any]:
        """Counts that are nought, the next best trials before the end, and what stands beside it in the answer."""
        without: dict[str, Any] = {name: True for name in ("completed", "pruned", "failed") if not getattr(self, name)}
        without |= {} if self.running is None else {"running_trial": True, "running_run": True}
        without |= {} if self.is_ended else {"others": True}
        return without | ({} if self.confirmation is None else {"confirmation": BESIDE})


def view_study(workspace: Workspace, study_id: str, *, estimate: bool = False) -> StudyView:
    """Describe a study from its tables. Raises NotFoundError.

    Args:
        estimate: whether to say how long it still takes.
    """
    with workspace.session() as session:
        study, trials = get_study(session, study_id), trials_of(session, study_id)
        ablation = ablation_view(session, workspace, study) if study.is_ablation else None
        early = ended_by(session, study)
        left = estimated_seconds(session, study, is_last=early is not None) if estimate else None
        earlier = None if study.is_ablation or study.state in ACTIVE else _earlier(session, workspace, study, trials)
    view = _view(workspace, study, trials)
    view.ablation, view.ended_by, view.earlier_best = ablation, early, earlier
    view.gpus, view.waiting = _gpus(workspace, study, trials), _waiting(workspace, study)
    if estimate and not view.is_ended:
        view.estimated_seconds = left
    return view


def _view(workspace: Workspace, study: Study, trials: list[TrialRecord]) -> StudyView:
    counts = {state: sum(trial.state == state for trial in trials) for state in (COMPLETED, PRUNED, FAILED)}
    objectives = [] if study.is_ablation else SearchSection.model_validate(study.search).objectives
    best = None if study.is_ablation else best_trial(trials, study.objective["direction"], objectives)
    front = pareto_front(trials, study.objective["direction"], objectives) if objectives else None
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
        others=None if best is None else _others(trials, best, study.objective["direction"]),
        front=None if front is None else [_of_front(trial, study.objective["metric"]) for trial in spaced(front)],
        front_size=None if front is None else len(front),
        confirmation=study.confirmation,
        failure=study.failure,
        next=_next(workspace, study),
    )


def _gpus(workspace: Workspace, study: Study, trials: list[TrialRecord]) -> dict[int, str] | None:
    found = {}
    for trial in trials:
        if trial.state == RUNNING and trial.run is not None:
            launch = read_launch(workspace.run_directory(study.project, trial.run).path)
            if launch is not None and launch.gpus:
                found[trial.number] = "; ".join(map(str, launch.gpus))
    return found or None


def _waiting(workspace: Workspace, study: Study) -> str | None:
    count = sum(waiter.study == study.id for waiter in waiters(workspace)) if study.state in ACTIVE else 0
    if not count:
        return None
    with workspace.snapshot() as session:
        held = ", ".join(sorted(claim.run for claim in claims_of(session, workspace)))
    return f"{count} run(s) wait for a GPU; on the GPUs are {held or 'other programs'}"


def _others(trials: list[TrialRecord], best: TrialRecord, direction: str) -> list[str] | None:
    sign = -1.0 if direction == "maximize" else 1.0
    rest = [one for one in trials if one.state == COMPLETED and one.value is not None and one.number != best.number]
    rest.sort(key=lambda one: (sign * (one.value or 0.0), one.number))
    return [f"trial {one.number}: {one.value:.6g} by {one.words()}" for one in rest[:MAX_OTHERS]] or None


def _earlier(session: Session, workspace: Workspace, study: Study, trials: list[TrialRecord]) -> str | None:
    objectives = SearchSection.model_validate(study.search).objectives
    found = better_before(session, workspace, study, best_trial(trials, study.objective["direction"], objectives))
    return None if found is None else found.told()


def _best(trial: TrialRecord | None) -> BestTrial | None:
    if trial is None or trial.value is None:
        return None
    note = NOTHING_BETTER if trial.attributes.get(ORIGIN) == PRESENT else None
    return BestTrial(number=trial.number, value=trial.value, parameters=trial.parameters, run_id=trial.run, note=note)


def _of_front(trial: TrialRecord, metric: str) -> FrontTrial:
    return FrontTrial(number=trial.number, values={metric: trial.value or 0.0, **trial.further})


def spaced(front: list[TrialRecord]) -> list[TrialRecord]:
    """Return both ends of the front and trials spread between them."""
    last, most = len(front) - 1, MAX_OF_FRONT - 1
    return front if last <= most else [front[round(place * last / most)] for place in range(most + 1)]


def _next(workspace: Workspace, study: Study) -> NextCall | None:
    if study.state in ACTIVE:
        arguments = {"study_id": study.id, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why=f"the study is {study.state}")
    room = room_for(workspace, study.project, study.failure, int(study.search.get("width", 1)))
    if study.state == "stopped" and room is not None:  # on a full disk nothing else of the project goes on either
        return room
    return followed_next(workspace, study.project)


# Following a study, and bringing its conductor back when it died.

POLL_SECONDS = 0.5


def study_status(
    workspace: Workspace,
    study_id: str,
    wait_seconds: float = 0.0,
    *,
    should_stop: Callable[[], bool] = lambda: False,
) -> StudyView:
    """Return the study when it has ended, at the latest after the wait. Raises NotFoundError.

    On a full disk no conductor can be started: the answer then comes at once, with the failure and what makes room.
    """
    began = time.monotonic()
    deadline = began + max(wait_seconds, 0.0)
    while True:
        view = view_study(workspace, study_id)
        if view.is_ended:
            return view
        try:
            ensure_conductor(workspace, view.project, study_id)
        except StorageError as error:
            return _without_room(view_study(workspace, study_id, estimate=True), error)
        if should_stop() or time.monotonic() >= deadline:
            return view_study(workspace, study_id, estimate=True)
        pause(began, deadline, POLL_SECONDS)


def _without_room(view: StudyView, error: StorageError) -> StudyView:
    """Return the view of a study that waits for room on the disk: it goes on with the next look after there is some."""
    room = NextCall(tool="prune_checkpoints", arguments={"project": view.project}, why="the disk is full")
    failure = StorageError(
        f"The study's process is gone and cannot be started again: {error.message}",
        remedy="Free some MiB on the workspace's disk; prune_checkpoints then shows which weights can go. Nothing is "
        f"lost: tuning_status(study_id='{view.study_id}') goes on with the study.",
        details={"next": room.model_dump(include={"tool", "arguments"})},
    )
    return view.model_copy(update={"failure": failure.as_dict(), "next": room})
