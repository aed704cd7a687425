"""Suggestion of the next trial: a pure function of the search and the trial table (TUNE-1, TUNE-3).

A method lives for one suggestion and is seeded by (search seed, number of trials), so a study that was killed
anywhere goes on with the very trials it would have made. (A sampler carried along, or one seeded alike at each start,
repeats itself or diverges after a restart.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import trainwright
from trainwright.tools.hyperparameter_tuner.domain import Domain
from trainwright.tools.hyperparameter_tuner.methods import IN_SEQUENCE, METHODS
from trainwright.tools.hyperparameter_tuner.methods.question import STARTUP_TRIALS, Question
from trainwright.tools.hyperparameter_tuner.start_points import ORIGIN, start_points
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection

__all__ = ["STARTUP_TRIALS", "made_by", "suggest"]
REDRAWS, REDRAWS_OF_A_PROCESS = 20, 4
"""Suggestions that may break a constraint before parameters are drawn at random; of a Gaussian process each costs."""
RANDOM_REDRAWS = 2000
MADE_WITH = ("optuna", "numpy", "scipy", "torch", "cmaes")
"""Packages whose arithmetic the methods are."""


def suggest(
    search: SearchSection,
    direction: str,
    trials: Sequence[TrialRecord],
    *,
    base_values: Mapping[str, Any] | None = None,
    known: Sequence[TrialRecord] = (),
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (dotted key to value, attributes to keep with it) of trial number `len(trials)`.

    Args:
        trials: all before it, as it sees them (`waves.seen_by`).
        base_values: the configuration that trials change: constraints may read it, and the first trials come of it.
        known: trials of earlier studies, which the method learns from.

    Raises:
        ConfigurationError: no parameters were found that meet the constraints.
    """
    domain = Domain(search, base_values or {})
    starts = start_points(search, domain)
    number = len(trials)
    if number < len(starts):
        return starts[number].parameters, {ORIGIN: starts[number].origin}
    redraws = REDRAWS_OF_A_PROCESS if search.method == "gaussian_process" else REDRAWS
    rejected: list[dict[str, Any]] = []
    for attempt in range(redraws + RANDOM_REDRAWS):
        method = search.method if attempt < redraws else "random"
        seed = _seed(search, number, attempt)
        question = Question(search, domain, direction, trials, known, starts, seed, rejected)
        try:
            parameters, attributes = METHODS[method](question)
        except LookupError as error:
            raise _none_left(search, number, str(error)) from None
        if method in IN_SEQUENCE or domain.meets(parameters):
            return parameters, attributes
        rejected.append(parameters)
    raise _none_left(search, number, f"none of {RANDOM_REDRAWS} drawn at random meets the constraints")


def made_by() -> dict[str, str]:
    """Return the versions on which suggestions and prunings depend, as a study's start records them."""
    found = {"trainwright": trainwright.__version__}
    for name in MADE_WITH:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _seed(search: SearchSection, number: int, attempt: int) -> int:
    parts = [search.seed, number, attempt] if attempt else [search.seed, number]
    return int(digest_json(parts).split(":")[1][:8], 16)


def _none_left(search: SearchSection, number: int, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"No parameters were found for trial {number}: {why} ({'; '.join(search.constraints) or 'no constraints'}).",
        remedy="start_tuning with a wider space, or with fewer constraints; its trials so far are taken over.",
        document="phases/04_optimization/workflow.md",
    )
