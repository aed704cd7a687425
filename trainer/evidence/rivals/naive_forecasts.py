"""Forecasts of a series that learn nothing: the last value, and the last season's.

A model that does not beat them is worth nothing (Hyndman & Athanasopoulos 2021, section 5.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.series import Series
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted

PERIODS = (4, 5, 7, 12, 24, 48, 52, 96, 144, 168, 288, 336, 365, 672, 1008, 1440, 2016)
"""Rows in a season of usual series: quarters, working days, days, months, and hours to minutes of a day or week."""
ABOUT = 1.05
"""Times the least error up to which a period is as good: of a season's multiples chance would choose one."""
USUAL = ("mae", "rmse", "mape", "r2")
LAST = "the last value"


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:  # noqa: ARG001 - the form of a rival
    """Return naive forecasts of windows of a series, that of a season first; none for other data."""
    series = splits.series
    if series is None:
        return []
    period, told = season_of(series, _starts(splits.samples["train"]))
    last = Fitted("last_value", LAST, USUAL, lambda one: forecast(series, _starts(one), 1))
    if period is None:
        return [last]
    return [Fitted("seasonal", told, USUAL, lambda one: forecast(series, _starts(one), period)), last]


def season_of(series: Series, starts: Array) -> tuple[int | None, str]:
    """Return the rows in a season and its forecast in words; None, and the last value, where there is no season.

    Args:
        series: rows in order of time.
        starts: first row of each window of the train split, (windows,).
    """
    period = series.period or best_period(series, starts)
    if period is None:
        return None, LAST
    how = "as configured" if series.period is not None else "which errs least on the train rows"
    return period, f"the value {period} rows before ({how})"


def _starts(samples: Any) -> Array:
    return np.asarray(samples.rows, dtype=np.int64)


def forecast(series: Series, starts: Array, period: int) -> Array:
    """Return the values of the last season before each window's horizon, (windows, horizon * targets).

    Args:
        series: rows in order of time.
        starts: first row of each window, (windows,).
        period: rows in a season; 1: the last value. Where a series does not reach so far back, its last value.
    """
    last = starts + series.window - 1
    ahead = np.arange(1, series.horizon + 1)
    places = last[:, None] + ahead - period * -(-ahead // period)
    begins = np.searchsorted(series.pieces, series.pieces[last])
    places = np.where(places < begins[:, None], last[:, None], places)
    found: Array = series.targets.numpy()[places].reshape(len(starts), -1)
    return found


def best_period(series: Series, starts: Array) -> int | None:
    """Return the usual period whose seasonal forecast errs least on the train rows; None: all seasons are too long.

    Args:
        series: rows in order of time.
        starts: first row of each window of the train split, (windows,).
    """
    ends = series.times[series.target_rows(starts)].max()
    rows = np.flatnonzero(series.times <= ends)  # with those between the windows: a period counts neighbours
    values, pieces = series.targets.numpy()[rows].astype(np.float64), series.pieces[rows]
    errors: dict[int, float] = {}
    for period in PERIODS:
        ahead = -(-np.arange(1, series.horizon + 1) // period)
        seasons, counts = np.unique(ahead, return_counts=True)
        if 2 * period * int(seasons[-1]) > len(rows):
            continue
        each = [_error(values, pieces, period * int(season)) for season in seasons]
        errors[period] = float(np.average(each, weights=counts))
    there = {period: error for period, error in errors.items() if np.isfinite(error)}
    least = min(there.values(), default=np.nan)
    return next(
        (period for period, error in there.items() if error <= ABOUT * least), None
    )  # of like ones the shortest


def _error(values: Array, pieces: Array, back: int) -> float:
    """Return how far values, (rows, targets), are from those so many rows before, in deviations; NaN for none."""
    same = pieces[back:] == pieces[:-back]
    if not same.any():
        return np.nan
    return float((np.abs(values[back:] - values[:-back])[same] / np.maximum(values.std(axis=0), 1e-12)).mean())
