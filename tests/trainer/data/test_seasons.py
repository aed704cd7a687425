"""The season that a naive forecast repeats: of the rows' spacing, unless the train rows show another clearly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainwright.trainer.base.time_units import DAY, HOUR, MINUTE
from trainwright.trainer.data.seasons import Season, season_of, step_of, usual_seasons

ROWS = 2000
HOURS = np.arange(ROWS)
ONE = np.zeros(ROWS)
Array = np.ndarray[Any, Any]


def noise(seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1, ROWS)


def found(values: Array, step: float | None, horizon: int = 24) -> Season | None:
    return season_of(values[:, None], ONE[: len(values)], step, horizon)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (15 * MINUTE, [96, 672]), (HOUR, [24, 168]), (DAY, [7, 365]), (7 * DAY, [52]), (31 * DAY, [12]),
        (92 * DAY, [4]), (365 * DAY, []), (5 * HOUR, []), (None, []),
    ],
)  # fmt: skip
def test_clocks_and_calendars_give_rows_their_seasons(step: float | None, rows: list[int]) -> None:
    assert [one.rows for one in usual_seasons(step)] == rows


def test_the_usual_step_of_dates_is_their_median_within_a_piece_and_numbers_have_none() -> None:
    times = np.array(["2024-01-31", "2024-02-29", "2024-03-31", "2025-01-31"], dtype="datetime64[us]")
    assert step_of(times, np.array([0, 0, 0, 1])) == 30 * DAY
    assert step_of(times.astype(np.float64), np.zeros(4)) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_walk_of_hours_is_held_to_its_day_though_nearer_values_err_less(seed: int) -> None:
    season = found(np.cumsum(noise(seed)), HOUR)
    assert season == Season(24, "a day")
    assert found(np.cumsum(noise(seed)), None) is None, "numbers that show no season have none"


def test_a_week_replaces_the_day_where_it_errs_less_on_the_train_rows() -> None:
    weekends = np.where(HOURS // 24 % 7 > 4, 0.2, 1.0)
    season = found(10 * np.sin(2 * np.pi * HOURS / 24) * weekends + noise(), HOUR)
    assert season == Season(168, "a week, which errs less on the train rows than a day")


@pytest.mark.parametrize(("period", "step"), [(10, HOUR), (5, None), (5, 365 * DAY)])
def test_a_season_that_the_rows_show_clearly_replaces_the_usual_one(period: int, step: float | None) -> None:
    values = 8.0 * (HOURS % period < period // 2) + noise()
    assert found(values, step) == Season(period, "the season that the train rows show")


def test_a_half_of_the_day_is_no_clearer_than_the_day() -> None:
    assert found(10 * np.sin(2 * np.pi * HOURS / 12) + noise(), HOUR) == Season(24, "a day")


def test_a_series_that_is_too_short_for_two_seasons_has_none() -> None:
    assert found(noise()[:30], HOUR) is None
    assert found(noise()[:100], DAY, horizon=7) == Season(7, "a week")
