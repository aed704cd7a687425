"""Forecasts of a series that learn nothing: the last value, and the last season's.

A model that does not beat them is worth nothing (Hyndman & Athanasopoulos 2021, section 5.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.seasons import Season
from trainwright.trainer.data.series import Series
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted

USUAL = ("mae", "rmse", "mape", "r2", "mase")
LAST = "the last value"


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:  # noqa: ARG001 - the form of a rival
    """Return naive forecasts of windows of a series, that of a season first; none for other data."""
    series = splits.series
    if series is None:
        return []
    season = series.season(_starts(splits.samples["train"]))
    last = Fitted("last_value", LAST, USUAL, lambda one: forecast(series, _starts(one), 1))
    if season is None:
        return [last]
    return [Fitted("seasonal", told_of(season), USUAL, lambda one: forecast(series, _starts(one), season.rows)), last]


def told_of(season: Season) -> str:
    """Return the forecast of the last season in words."""
    return f"the value {season.rows} rows before ({season.why})"


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
