"""Page of a search: its trials, how the best value came about, which parameters mattered, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic import BaseModel

from trainwright.tools.hyperparameter_tuner.analysis import Importance, Subject, subject_of
from trainwright.tools.hyperparameter_tuner.ends import ended_by
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.hyperparameter_tuner.views import estimated_seconds
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.records import ACTIVE, get_study
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.config.search import ObjectiveSection

MAX_NAMED = 8
"""Trials of a front that are named; more are marked in the table alone."""


class TrialLine(BaseModel):
    """One trial."""

    number: int
    label: str
    """The number, and whether it is the best and on the Pareto front."""
    state: str
    value: float | None
    """Its value of the goal's metric; of one that was pruned, failed or is under way that of its best epoch so far."""
    best_so_far: float | None
    """The best value of the completed trials up to this one."""
    further: dict[str, float] = {}
    """Its further objectives by metric, once it has completed."""
    parameters: dict[str, Any]
    run_id: str | None


class ParameterShare(BaseModel):
    """How much of the objective's variation one searched key explains, from 0 to 1."""

    key: str
    ped_anova: float | None
    fanova: float | None


class StudyPage(BaseModel):
    """Everything about one search."""

    study_id: str
    handle: str
    """Its short name: `digits/study-1`."""
    project: str
    state: str
    metric: str
    direction: str
    trials_total: int
    best: int | None
    """Number of the best completed trial; with bounds, of those that keep them."""
    goal: str
    """The objectives in words, with the bounds that the best trial keeps."""
    further: list[str] = []
    """Metrics of the objectives beside the first."""
    front: str | None = None
    """Which trials no other dominates; None where the metric is the only objective."""
    trials: list[TrialLine]
    importance: list[ParameterShare] = []
    """The most important key first; empty where the trials do not tell."""
    importance_note: str = ""
    """Why a share, or all of them, is missing."""
    estimated_seconds: float | None = None
    """Time that is left; None where nothing was measured, or nothing is left to do."""
    ended_by: str | None = None
    """Why it asked for no more trials before its last one."""
    confirmation: dict[str, Any] | None
    failure: dict[str, Any] | None


def study_page(workspace: Workspace, study_id: str) -> StudyPage:
    """Return the page of a study, from its tables. Raises NotFoundError."""
    with workspace.snapshot() as session:
        study, trials = get_study(session, study_id), trials_of(session, study_id)
        early, name = ended_by(session, study), handles(session, [study.id]).get(study.id, study.id)
        is_active = study.state in ACTIVE
        left = estimated_seconds(session, study, is_last=early is not None) if is_active else None
        subject = None if study.is_ablation else subject_of(session, study)
    found = Importance() if subject is None else importance_in(subject)
    shares = [
        ParameterShare(key=key, ped_anova=found.ped_anova.get(key), fanova=found.fanova.get(key))
        for key in found.ranked
    ]
    further = [] if subject is None else subject.search.objectives
    best = None if subject is None else subject.best  # an ablation study's values are of several seeds
    return StudyPage(
        study_id=study.id,
        handle=name,
        project=study.project,
        state=study.state,
        metric=study.objective["metric"],
        direction=study.objective["direction"],
        trials_total=study.search["trials"],
        best=best.number if best is not None else None,
        goal=_goal(study.objective, further),
        further=[one.metric for one in further],
        front=_front(subject) if subject is not None and subject.front else None,
        trials=_lines(trials, subject),
        importance=shares,
        importance_note=found.note,
        estimated_seconds=left,
        ended_by=early["message"] if early is not None else None,
        confirmation=study.confirmation,
        failure=study.failure,
    )


def _goal(objective: dict[str, Any], further: Sequence[ObjectiveSection]) -> str:
    words = [f"{one.direction} {one.metric}" + (f" ({one.bounds})" if one.bounds else "") for one in further]
    return "; ".join([f"{objective['direction']} {objective['metric']}", *words])


def _front(subject: Subject) -> str:
    numbers = [str(trial.number) for trial in subject.front]
    if len(numbers) > MAX_NAMED:
        return f"{len(numbers)} trials, marked in the table"
    return f"trials {', '.join(numbers)}"


def _label(trial: TrialRecord, subject: Subject | None) -> str:
    if subject is None:
        return str(trial.number)
    marks = {
        "best": subject.best is not None and trial.number == subject.best.number,
        "front": any(trial.number == one.number for one in subject.front),
    }
    named = ", ".join(mark for mark, holds in marks.items() if holds)
    return f"{trial.number} ({named})" if named else str(trial.number)


def _lines(trials: Sequence[TrialRecord], subject: Subject | None) -> list[TrialLine]:
    lines = []
    best_so_far = [None] * len(trials) if subject is None else subject.best_so_far
    for trial, so_far in zip(trials, best_so_far, strict=True):
        lines.append(
            TrialLine(
                number=trial.number,
                label=_label(trial, subject),
                state=trial.state,
                value=trial.value if subject is None else subject.value(trial),
                best_so_far=so_far and so_far.value,
                further=trial.further,
                parameters=trial.parameters,
                run_id=trial.run,
            )
        )
    return lines


# Importance of a study's parameters, computed once for each state of its completed trials: a page asks every time.

MAX_KEPT = 32
"""Tables whose importance is remembered."""


@dataclass(frozen=True)
class _Table:
    """What importance is computed of; two with one digest are one."""

    digest: str
    subject: Subject = field(compare=False)


def importance_in(subject: Subject) -> Importance:
    """Return the importance of a study's parameters; of a table that was seen before without computing anything."""
    table = [[one.number, one.parameters, one.value] for one in subject.completed]
    space = {key: range_.model_dump(mode="json") for key, range_ in subject.space.items()}
    return remembered(_Table(digest_json([subject.direction, space, table]), subject))


@lru_cache(maxsize=MAX_KEPT)
def remembered(table: _Table) -> Importance:
    """Return a table's importance, computed at its first look."""
    return table.subject.importance
