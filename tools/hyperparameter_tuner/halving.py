"""Brackets of trials that are halved together: each goes to a rung's epoch, and the best go on from there (TUNE-2).

A bracket is the wave of its trials: they are suggested by earlier brackets alone, so how many run side by side changes
nothing. At a rung all of them have stopped with a checkpoint. Those that are promoted are resumed from it exactly, so
no epoch is trained twice. A decision is one transaction: a conductor that was killed finds it made, or makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.trial_run import WAITS, carry_out
from trainwright.tools.hyperparameter_tuner.trials import (
    PRUNED,
    RUNNING,
    TrialRecord,
    side_by_side,
    trial_row,
    trials_of,
    wave_of,
)
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection, apply_changes, parse_config

PASSED = "rungs_passed"
"""Attribute of a trial: at how many rungs it was promoted."""


def rungs(search: SearchSection, bracket: int, epochs: int) -> list[int]:
    """Return the epochs after which a bracket is halved: each `reduction_factor` times the one before.

    There is one as long as so many trials are left: of fewer none would be pruned.

    Args:
        bracket: its place among the study's brackets. Of Hyperband's, each begins one rung later than the one before,
            up to one without any, and then they begin again.
        epochs: the most that a trial of it runs.
    """
    found: list[int] = []
    epoch, left, factor = max(1, search.pruning.warmup_epochs), search.wave, search.pruning.reduction_factor
    while epoch < epochs and left >= factor:
        found.append(epoch)
        epoch, left = epoch * factor, left // factor
    return found[bracket % (len(found) + 1) :] if search.pruning.name == "hyperband" else found


def promoted(waiting: Sequence[TrialRecord], direction: str, reduction_factor: int) -> set[int]:
    """Return the numbers of the trials that go on: one in `reduction_factor`, by their best epoch so far."""
    sign = -1.0 if direction == "maximize" else 1.0

    def place(trial: TrialRecord) -> tuple[float, int]:
        value = best_value(trial.intermediate, direction)
        return (math.inf if value is None else sign * value), trial.number

    ranked = sorted(waiting, key=place)
    return {trial.number for trial in ranked[: max(1, len(ranked) // reduction_factor)]}


def carry_out_bracket(workspace: Workspace, study_id: str, number: int) -> None:
    """Bring the bracket that trial `number` belongs to to its end, from wherever it is. Raises as `carry_out` does."""
    with workspace.session() as session:
        study = get_study(session, study_id)
    search = SearchSection.model_validate(study.search)
    wave = wave_of(number, search.wave)
    epochs = max(_epochs(study, trial) for trial in _trials(workspace, study_id, wave))
    for level, epoch in enumerate([*rungs(search, wave.start // search.wave, epochs), None]):
        here = [trial for trial in _trials(workspace, study_id, wave) if _is_at(trial, level)]
        due = [trial for trial in here if epoch is None or trial.attributes.get(WAITS) != epoch]
        side_by_side(search.width, [partial(carry_out, workspace, study_id, trial, until_epoch=epoch) for trial in due])
        if epoch is not None:
            _decide(workspace, study, wave, level)


def _decide(workspace: Workspace, study: Study, wave: range, level: int) -> None:
    """Promote or prune the trials that wait at a rung; none wait where that was done already."""
    factor = SearchSection.model_validate(study.search).pruning.reduction_factor
    with workspace.session() as session:
        waiting = [trial for trial in trials_of(session, study.id) if trial.number in wave and _is_at(trial, level)]
        going_on = promoted(waiting, study.objective["direction"], factor)
        for trial in waiting:
            row = trial_row(session, study.id, trial.number)
            row.attributes = row.attributes | {PASSED: level + (trial.number in going_on)}
            if trial.number not in going_on:
                row.state = PRUNED


def _is_at(trial: TrialRecord, level: int) -> bool:
    return trial.state == RUNNING and trial.attributes.get(PASSED, 0) == level


def _trials(workspace: Workspace, study_id: str, wave: range) -> list[TrialRecord]:
    with workspace.session() as session:
        return [trial for trial in trials_of(session, study_id) if trial.number in wave]


def _epochs(study: Study, trial: TrialRecord) -> int:
    try:
        return parse_config(apply_changes(study.base_values, trial.parameters)).training.epochs
    except ConfigurationError:  # an impossible combination, which fails when it is carried out
        return 1
