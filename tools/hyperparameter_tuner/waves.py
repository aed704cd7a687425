"""Waves: trials that run side by side, none of which knows what another of them found (TUNE-3, TUNE-7).

Trial k's suggestion and its pruning depend on the study's seed, on k and on the results of earlier waves alone. So a
study gives the same trials whatever is killed, however it is split, and whether a wave's trials ran at once or one
after the other.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from trainwright.tools.hyperparameter_tuner.trials import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

T = TypeVar("T")
CAUSE, RUNG = "cause", "completed_rung_"
"""Attributes of a trial that tell of its results: why it failed, and its value at a rung (Optuna's prefix)."""


def wave_of(number: int, width: int) -> range:
    """Return the numbers of the wave that trial `number` belongs to."""
    start = number - number % width
    return range(start, start + width)


def seen_by(number: int, width: int, trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Return the table as trial `number` sees it: the trials before it, those of its own wave as under way."""
    start = wave_of(number, width).start
    return [trial if trial.number < start else begun(trial) for trial in trials if trial.number < number]


def begun(trial: TrialRecord) -> TrialRecord:
    """Return the trial as it was suggested: its parameters are known, its results are not."""
    asked = {key: value for key, value in trial.attributes.items() if key != CAUSE and not key.startswith(RUNG)}
    return replace(trial, state=RUNNING, value=None, intermediate={}, further={}, attributes=asked)


def side_by_side(width: int, tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do the tasks, at most `width` at once, and return their results in order.

    A task that raises keeps no other from its end; of several errors the first in order is raised.
    """
    if width == 1 or len(tasks) == 1:
        return [task() for task in tasks]
    with ThreadPoolExecutor(width, thread_name_prefix="trial") as pool:
        begun = [pool.submit(task) for task in tasks]
        wait(begun)
    return [each.result() for each in begun]
