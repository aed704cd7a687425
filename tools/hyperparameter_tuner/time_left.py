"""Time that a study still takes, by the wall-clock times of runs that have ended, starts of processes included."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sqlalchemy import select

from trainwright.tools.gates.searches import MOST_TIMED, middle_seconds
from trainwright.tools.hyperparameter_tuner.earlier_runs import digests_of
from trainwright.tools.hyperparameter_tuner.ends import seconds_allowed
from trainwright.tools.hyperparameter_tuner.trials import RUNNING, trials_of
from trainwright.tools.workspace.tables import Run, now
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace.tables import Study

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
    whole = middle_seconds(completed[-MOST_TIMED:] or _baselines(session, study))
    of_trial = middle_seconds(timed[-MOST_TIMED:])
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
    same = query.where(Run.base_config_digest.in_(digests_of(session, study)), Run.state == RunState.COMPLETED)
    return list(session.scalars(same.order_by(Run.created_at)))


def _elapsed(living: Sequence[datetime], seconds: float) -> float:
    """Return what the youngest run under way has taken, at most what a run takes."""
    if not living:
        return 0.0
    youngest = max(living)
    present = now() if youngest.tzinfo is not None else now().replace(tzinfo=None)
    return min(max((present - youngest).total_seconds(), 0.0), seconds)
