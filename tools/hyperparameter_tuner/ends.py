"""Ends of a study before its last trial: at a limit of its own, or where more trials promise less than the noise.

Both are decided between two waves alone, when nothing is under way, and stand in the ledger with their figures. The
second is a function of the trial table and of the baseline's repetitions, so that the study stays one of its seed.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import seed_spread
from trainwright.tools.gates.searches import seconds_a_trial
from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.confirmation import baseline_values
from trainwright.tools.hyperparameter_tuner.trials import FAILED, RUNNING, TrialRecord, trials_of
from trainwright.tools.ledger.events import RunResumed, RunStarted, StudyChanged, read_body
from trainwright.tools.limits import Amounts
from trainwright.tools.limits.reservation import expected_gpus
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study, runs_of
from trainwright.tools.workspace.tables import LedgerEntry, Study
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.base.time_units import HOUR
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunKind, RunState

MIN_TRIALS = 10
"""Trials with a value before what more of them promise is estimated."""


def end_early(workspace: Workspace, study_id: str) -> bool:
    """Return whether the study asks for no more trials, and record why with the figures when that is decided here.

    Raises:
        LimitReachedError: a limit of its own does not leave the first wave and the repetitions.
        GateRefusedError, UserCodeError: the baseline's repetitions, by which the noise is measured, cannot be made.
    """
    with workspace.session() as session:
        study = get_study(session, study_id)
        trials = trials_of(session, study_id)
        search = SearchSection.model_validate(study.search)
        if study.state not in ACTIVE or ended_by(session, study):
            return True
        if len(trials) >= search.trials or any(trial.state == RUNNING for trial in trials):
            return False
        reached = _limit_reached(session, workspace, study, search, trials)
    if reached is not None and not trials:
        raise LimitReachedError(
            f"{reached['message']} Not one trial was started.",
            remedy=f"start_tuning(project='{study.project}', search=…) with a larger {reached['limit']}, or fewer "
            "confirmation_repeats; another limit is another search.",
            details=reached,
        )
    found = reached or _below_noise(workspace, study, search, trials)
    if found is None:
        return False
    with workspace.session() as session:
        if get_study(session, study_id).state not in ACTIVE:
            return True
        ledger.record(session, study.project, StudyChanged(study_id=study_id, state="running", ended_by=found))
    return True


def ended_by(session: Session, study: Study) -> dict[str, Any] | None:
    """Return why the study ended before its last trial, by the ledger; None: it did not."""
    bodies = (body for _, body in ledger.entries(session, study.project, StudyChanged.name))
    return next((body["ended_by"] for body in bodies if body["study_id"] == study.id and body.get("ended_by")), None)


def _limit_reached(
    session: Session, workspace: Workspace, study: Study, search: SearchSection, trials: Sequence[TrialRecord]
) -> dict[str, Any] | None:
    """Return the limit that does not leave the next wave and the repetitions.

    A trial is reserved as the longest so far, for the next may be as slow; a repetition as the middle of whole runs.
    """
    limits = search.stop_after
    if limits is None:
        return None
    used, longest, usual = _use(session, workspace, study)
    trials_next = min(search.wave, search.trials - len(trials))
    waves, repeats = math.ceil(trials_next / search.width), 2 * search.confirmation_repeats
    turns = math.ceil(repeats / search.width)
    seconds = longest.wall_clock_seconds * waves + usual.wall_clock_seconds * turns
    lines = {
        "wall_clock_hours": (_study_seconds(session, study) / HOUR, seconds / HOUR),
        "gpu_hours": (used.gpu_hours, longest.gpu_hours * trials_next + usual.gpu_hours * repeats),
        "money": (used.money, longest.money * trials_next + usual.money * repeats),
    }
    for name, (spent, reserved) in lines.items():
        allowed = getattr(limits, name)
        if allowed is not None and spent + reserved > allowed:
            figures = {"used": spent, "reserved": reserved, "allowed": allowed, "trials": len(trials)}
            return {
                "limit": f"search.stop_after.{name}",
                **figures,
                "message": f"search.stop_after.{name} = {allowed:.6g} leaves no further wave after {len(trials)} "
                f"trials: {spent:.4g} used, and {reserved:.4g} reserved for the wave and the repetitions.",
            }
    return None


def _use(session: Session, workspace: Workspace, study: Study) -> tuple[Amounts, Amounts, Amounts]:
    """Return what the study's runs have used, and of one run the most of each amount and the middle of whole ones.

    Before any has ended, both are the baseline's.
    """
    own = {run.id for run in runs_of(session, study.project) if run.study == study.id}
    seals = ledger.ProjectFacts(session, study.project).seals
    ended = sorted(own & seals.keys())
    each = [Amounts.model_validate(seals[run_id].used) for run_id in ended]
    whole = [one for one, run_id in zip(each, ended, strict=True) if seals[run_id].state == RunState.COMPLETED]
    total = Amounts()
    for one in each:
        total += one
    if not each:
        evidence = Evidence(session, workspace, study.project)
        seconds = seconds_a_trial(evidence) or 0.0
        gpus = expected_gpus(evidence.config, RunKind.TRIAL, workspace.settings)
        one = Amounts.of_work(seconds, gpus, workspace.settings.price_per_gpu_hour)
        return total, one, one
    names = Amounts.model_fields
    most = Amounts(**{name: max(getattr(one, name) for one in each) for name in names})
    middle = {name: statistics.median([getattr(one, name) for one in whole or [most]]) for name in names}
    return total, most, Amounts(**middle)


def seconds_allowed(session: Session, study: Study) -> float | None:
    """Return the seconds that the study's own limit leaves it; None without one."""
    limits = None if study.is_ablation else SearchSection.model_validate(study.search).stop_after
    if limits is None or limits.wall_clock_hours is None:
        return None
    return max(limits.wall_clock_hours * HOUR - _study_seconds(session, study), 0.0)


def _study_seconds(session: Session, study: Study) -> float:
    """Return for how long at least one of the study's runs was under way, by the ledger.

    So neither a pause counts nor a night in which the machine was off: each attempt of a run counts from its entry for
    as long as the run's sealed working time lasts.
    """
    own = {run.id for run in runs_of(session, study.project) if run.study == study.id}
    query = select(LedgerEntry.time, LedgerEntry.body).where(
        LedgerEntry.project == study.project, LedgerEntry.kind.in_((RunStarted.name, RunResumed.name))
    )
    begun: dict[str, list[float]] = {run_id: [] for run_id in own}
    for time, text in session.execute(query.order_by(LedgerEntry.sequence)):
        body = read_body(text) or {}
        if body.get("run_id") in own:
            begun[body["run_id"]].append(datetime.fromisoformat(time).timestamp())
    seals = ledger.ProjectFacts(session, study.project).seals
    worked = {run_id: Amounts.model_validate(seals[run_id].used).wall_clock_seconds for run_id in own & seals.keys()}
    return united_seconds([span for run_id in worked for span in _attempts(begun[run_id], worked[run_id])])


def _attempts(starts: Sequence[float], worked_seconds: float) -> Iterator[tuple[float, float]]:
    """Give the (begin, end) of a run's attempts: an earlier one lasted at most until the next began.

    None of a run whose entries were damaged, which `verify` names.
    """
    left = worked_seconds
    for begin, following in zip(starts, [*starts[1:], math.inf], strict=False):
        lasted = min(left, following - begin)
        left -= lasted
        yield begin, begin + lasted


def united_seconds(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds that at least one of these spans (begin, end) covers."""
    covered, until = 0.0, -math.inf
    for begin, end in sorted(spans):
        covered += max(0.0, end - max(begin, until))
        until = max(until, end)
    return covered


def _below_noise(
    workspace: Workspace, study: Study, search: SearchSection, trials: Sequence[TrialRecord]
) -> dict[str, Any] | None:
    """Return the figures where the trials that are left are expected to gain less than another seed does."""
    if not search.stop_below_noise:
        return None
    found = [best_value(trial.intermediate, study.objective["direction"]) for trial in trials if trial.state != FAILED]
    sign = 1.0 if study.objective["direction"] == "maximize" else -1.0
    values = [sign * value for value in found if value is not None]
    if len(values) < MIN_TRIALS:
        return None
    left = search.trials - len(trials)
    gain = expected_gain(values, left)
    baseline, samples = baseline_values(workspace, study)
    noise = seed_spread(baseline, samples)
    if gain >= noise:
        return None
    return {
        "rule": "search.stop_below_noise",
        "expected_gain": gain, "seed_noise": noise, "baseline": baseline, "trials": len(trials), "left": left,
        "message": f"After {len(trials)} trials the {left} left are expected to gain {gain:.4g}, less than the "
        f"baseline's spread over {len(baseline)} seeds ({noise:.4g}).",
    }  # fmt: skip


def expected_gain(values: Sequence[float], left: int) -> float:
    """Return by how much `left` further trials are expected to raise the best value.

    By what the last trials brought when the study grew in the same proportion: the larger of what they did bring in
    their order, and what they bring on average over all orders. Since records become rarer as a search goes on, both
    are more than is to be expected, unless a search has just found a better region; then the order tells.

    Args:
        values: of the trials so far, in their order; larger is better. At least one.
    """
    count = len(values)
    part = max(1, count * count // (count + left))
    best = max(values)
    chosen = math.comb(count, part)
    ranked = sorted(values)
    # Of all subsets of this size, those whose best is the i-th smallest value take the rest from the i before it.
    average = math.fsum(ranked[i] * (math.comb(i, part - 1) / chosen) for i in range(part - 1, count))
    return max(best - average, best - max(values[:part]))
