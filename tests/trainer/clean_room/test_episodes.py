"""Intervals of means over episodes hold the true mean about as often as they say, few as they may be."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.trainer.clean_room.episodes import interval_of, spread_of
from trainwright.trainer.clean_room.intervals import wilson

pytestmark = pytest.mark.requirement("GATE-6")


@pytest.mark.parametrize("count", [5, 12, 29, 30, 200])
def test_the_true_mean_lies_inside_as_often_as_it_should(count: int) -> None:
    draws = np.random.default_rng(count)
    ends = [found for _ in range(400) if (found := spread_of(draws.normal(3.0, 2.0, count))) is not None]
    assert np.mean([low <= 3.0 <= high for low, high in ends]) == pytest.approx(0.95, abs=0.03)


def test_two_values_have_wilsons_interval_between_them() -> None:
    won = np.repeat([1.0, 0.0], [18, 2])
    assert interval_of(won) == pytest.approx(wilson(0.9, 20))
    low, high = wilson(0.9, 20)
    assert interval_of(200 * won - 100) == pytest.approx((200 * low - 100, 200 * high - 100))


def test_a_perfect_share_lies_inside_of_its_interval() -> None:
    for count in range(2, 200):
        low, high = wilson(1.0, count)
        assert low < 1.0 == high
        assert wilson(0.0, count)[0] == 0.0


def test_few_equal_differences_tell_two_programs_apart_no_more_than_few_equal_episodes_do() -> None:
    assert spread_of(np.full(5, 1.0)) is None
    assert spread_of(np.zeros(5)) == (0.0, 0.0), "a program beside itself"
    assert spread_of(np.full(40, 1.0)) == (1.0, 1.0)


def test_where_all_gave_the_same_number_nothing_is_known_of_the_range() -> None:
    assert interval_of(np.full(50, 200.0)) is None
    low, high = interval_of(np.ones(50)) or (0.0, 0.0)
    assert (round(low, 2), high) == (0.93, 1.0), "won each time, of a game that can be lost"
