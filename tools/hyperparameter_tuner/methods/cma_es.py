"""CMA-ES: a normal distribution over the numbers of a space, moved towards the better half of each generation.

The distribution is told of the table's generations anew for every suggestion, so that nothing but the table is kept: no
pickled optimizer, as Optuna's sampler leaves one in its trials. Choices are drawn at random.

Source: Hansen, "The CMA Evolution Strategy: A Tutorial", 2016; whole numbers with margin, Hamano et al., GECCO 2022;
from earlier results, Nomura et al., AAAI 2021; all as implemented in cmaes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwright.tools.gates.study_check import best_value
from trainwright.tools.hyperparameter_tuner.domain import at, share_of
from trainwright.tools.hyperparameter_tuner.methods.question import ENDED, Question
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.search import Choices, Numbers, size_of

GENERATION, POINT = "cma_generation", "cma_point"
"""Attributes of a trial: the generation that it was drawn in, and its place in the unit cube before rounding."""
SIGMA = 1 / 6
"""Of a range's width: three of them reach from the middle to its ends."""


def require_cmaes() -> Any:
    """Return the package. Raises ConfigurationError where it is missing."""
    try:
        import cmaes
    except ImportError:
        raise ConfigurationError(
            "search.method cma_es needs the package cmaes, which is not installed.",
            remedy="pip install 'cmaes>=0.13,<1', or search with method gaussian_process or tpe.",
        ) from None
    return cmaes


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a point of the newest generation's distribution.

    Raises:
        ConfigurationError: the package is missing.
    """
    space = question.search.space
    numbers = {key: range_ for key, range_ in sorted(space.items()) if not isinstance(range_, Choices)}
    optimizer, generation = _after(question, numbers)
    place, told = optimizer.ask()
    generator = random.Random(question.seed)
    drawn = {key: at(range_, generator.random()) for key, range_ in sorted(space.items()) if key not in numbers}
    drawn |= {key: _value(range_, float(x)) for (key, range_), x in zip(numbers.items(), place, strict=True)}
    return question.domain.kept(drawn), {GENERATION: generation, POINT: [float(x) for x in told]}


def _after(question: Question, numbers: dict[str, Numbers]) -> tuple[Any, int]:
    """Return the distribution after the table's whole generations, and the number of the present one."""
    optimizer = _first(question, numbers)
    ended = [trial for trial in question.trials if trial.state in ENDED and GENERATION in trial.attributes]
    generation = 0
    while True:
        whole = [trial for trial in ended if trial.attributes[GENERATION] == generation][: optimizer.population_size]
        if len(whole) < optimizer.population_size:
            return optimizer, generation
        points = [np.array(trial.attributes[POINT]) for trial in _ranked(whole, question.direction)]
        optimizer.tell([(point, float(rank)) for rank, point in enumerate(points)])
        generation += 1


def _first(question: Question, numbers: dict[str, Numbers]) -> Any:
    """Return the first generation's distribution: over the middle of the space, or where earlier studies were good."""
    cmaes = require_cmaes()
    size = len(numbers)
    wave = question.search.wave
    mean, sigma, covariance = np.full(size, 0.5), SIGMA, None
    if question.known:
        ranked = enumerate(_ranked(question.known, question.direction))
        solutions = [(np.array([_place(numbers[key], trial.parameters.get(key)) for key in numbers]), float(rank))
                     for rank, trial in ranked]  # fmt: skip
        mean, sigma, covariance = cmaes.get_warm_start_mgd(solutions, gamma=max(0.1, 1 / len(solutions)))
    return cmaes.CMAwM(
        mean=mean,
        sigma=sigma,
        cov=covariance,
        bounds=np.tile([0.0, 1.0], (size, 1)),
        steps=np.array([1 / (count - 1) if (count := _count(range_)) else 0.0 for range_ in numbers.values()]),
        n_max_resampling=10 * size,
        seed=question.seed,
        population_size=wave * math.ceil((4 + math.floor(3 * math.log(size))) / wave),  # whole waves: none is in vain
    )


def _ranked(trials: Sequence[TrialRecord], direction: str) -> list[TrialRecord]:
    """Return the trials from best to worst: completed ones, then pruned ones by their best epoch, then failed ones."""
    sign = -1.0 if direction == "maximize" else 1.0

    def place(trial: TrialRecord) -> tuple[int, float, int]:
        value = trial.value if trial.state == COMPLETED else best_value(trial.intermediate, direction)
        state = {COMPLETED: 0, PRUNED: 1}.get(trial.state, 2)
        return state, math.inf if value is None else sign * value, trial.number

    return sorted(trials, key=place)


def _count(range_: Numbers) -> int | None:
    """Return how many evenly spread values a range has; None for one that is continuous, or on a log scale."""
    return size_of(range_) if range_.step is not None or (range_.type == "int" and not range_.log) else None


def _value(range_: Numbers, place: float) -> Any:
    count = _count(range_)
    if count is None:
        return at(range_, min(max(place, 0.0), 1.0))
    return at(range_, (round(place * (count - 1)) + 0.5) / count)


def _place(range_: Numbers, value: Any) -> float:
    if value is None:
        return 0.5
    count = _count(range_)
    return share_of(range_, value) if count is None else (share_of(range_, value) * count - 0.5) / (count - 1)
