"""The verdict on an experiment: a pure function of paired differences, held to simulations and to its own bound."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from trainwright.tools.hyperparameter_tuner.experiments.verdict import (
    ALPHA,
    DISCARDED,
    KEPT,
    LEAST_KEPT,
    UNDECIDED,
    looks_up_to,
    spent_at,
    verdict_of,
)

MOST = 8
EIGHT = looks_up_to(MOST)


def judged(draw: random.Random, effect: float) -> tuple[str, int]:
    """Return the verdict on an effect in deviations of a seed, and the seeds that it took."""
    differences: list[float] = []
    for number in EIGHT:
        while len(differences) < number:
            differences.append(effect + draw.gauss(0, 1) - draw.gauss(0, 1))
        if (verdict := verdict_of(differences, EIGHT)) is not None:
            return verdict, number
    raise AssertionError("the last look decides")


@pytest.mark.requirement("TUNE-5")
def test_of_changes_that_do_nothing_at_most_one_in_twenty_is_kept_and_gains_are_kept_as_promised() -> None:
    draw = random.Random(3)
    shares = {}
    for effect, trials in ((0.0, 800), (1.0, 250), (2.0, 250), (4.0, 100)):
        counted = Counter(judged(draw, effect)[0] for _ in range(trials))
        shares[effect] = counted[KEPT] / trials
    assert shares[0.0] <= 0.066, "5 %, and two standard errors of 800 draws"
    assert shares[1.0] >= 0.45
    assert shares[2.0] >= 0.9
    assert shares[4.0] >= 0.99


@pytest.mark.requirement("TUNE-5")
@pytest.mark.parametrize("most", [3, 5, 8, 20])
def test_all_looks_together_spend_the_level_and_no_more(most: int) -> None:
    looks = looks_up_to(most)
    spent = [spent_at(one, looks) for one in looks if one >= LEAST_KEPT]
    assert sum(spent) == pytest.approx(ALPHA)
    assert min(spent) > 0
    assert looks[-1] == most
    assert spent_at(most, (most,)) == pytest.approx(ALPHA), "a single look has all of it"


@pytest.mark.requirement("TUNE-5")
def test_few_seeds_discard_what_is_worse_and_keep_nothing() -> None:
    assert verdict_of([-0.1, -0.2], EIGHT) == DISCARDED
    assert verdict_of([9.0, 9.1], EIGHT) is None, "two seeds keep nothing"
    assert verdict_of([0.1, -0.2], EIGHT) is None
    assert verdict_of([0.1, -0.2, 0.05], EIGHT) == DISCARDED
    assert verdict_of([0.1, 0.1, 0.1], (2, 3)) == KEPT
    assert verdict_of([0.01, 0.01, 0.01], (2, 3), step=0.1) == UNDECIDED, (
        "values that agree show how coarse the metric is"
    )
