"""A study without its processes: the product's own decisions, in its own order, on curves that were trained before.

Suggestions, prunings, rungs and promotions are `suggest`, `pruned_epoch`, `rungs` and `promoted` themselves. What is
played here is what the conductor does between them; `real.py` holds a whole study of the product against it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.halving import promoted, rungs
from trainwright.tools.hyperparameter_tuner.memory_study import pruned_epoch
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, RUNNING, TrialRecord, seen_by, wave_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trainwright.trainer.config import SearchSection

Curve: TypeAlias = "Callable[[Mapping[str, Any]], dict[int, float]]"
"""A trial's changes to its values by epoch, from the first to the last."""


def replay(search: SearchSection, direction: str, base: Mapping[str, Any], curve: Curve) -> list[TrialRecord]:
    """Return the trial table of a whole study."""
    trials: list[TrialRecord] = []
    while (start := len(trials)) < search.trials:
        for number in range(start, min(wave_of(start, search.wave).stop, search.trials)):
            seen = seen_by(number, search.wave, trials)
            parameters, attributes = suggest(search, direction, seen, base_values=base)
            trials.append(TrialRecord(number=number, parameters=parameters, attributes=attributes))
        decide = _apart if search.pruning.bracket is None else _together
        trials[start:] = decide(search, direction, trials, start, curve)
    return trials


def _apart(
    search: SearchSection, direction: str, trials: list[TrialRecord], start: int, curve: Curve
) -> list[TrialRecord]:
    """Return the wave's trials, each judged alone against earlier waves."""
    ended = []
    for trial in trials[start:]:
        values, seen = curve(trial.parameters), seen_by(trial.number, search.wave, trials)
        at, attributes = pruned_epoch(search, direction, seen, trial, values, epochs=max(values))
        ended.append(replace(_ended(trial, values, direction, at), attributes=attributes))
    return ended


def _together(
    search: SearchSection, direction: str, trials: list[TrialRecord], start: int, curve: Curve
) -> list[TrialRecord]:
    """Return the wave's trials, halved at the rungs of its bracket."""
    wave = {trial.number: trial for trial in trials[start:]}
    curves = {number: curve(trial.parameters) for number, trial in wave.items()}
    for epoch in rungs(search, start // search.wave, max(map(max, curves.values()))):
        here = [
            replace(trial, intermediate={at: value for at, value in curves[number].items() if at <= epoch})
            for number, trial in wave.items()
            if trial.state == RUNNING
        ]
        going_on = promoted(here, direction, search.pruning.reduction_factor)
        wave |= {t.number: replace(t, state=RUNNING if t.number in going_on else PRUNED) for t in here}
    return [
        trial if trial.state == PRUNED else _ended(trial, curves[number], direction, None)
        for number, trial in wave.items()
    ]


def _ended(trial: TrialRecord, values: dict[int, float], direction: str, pruned_at: int | None) -> TrialRecord:
    if pruned_at is not None:
        kept = {epoch: value for epoch, value in values.items() if epoch <= pruned_at}
        return replace(trial, state=PRUNED, intermediate=kept)
    return replace(trial, state=COMPLETED, intermediate=values, value=best_value(values, direction))
