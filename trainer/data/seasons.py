"""Seasons of a series: those that clocks and calendars give its rows, and one that the rows show more clearly.

A season that rows show is the highest peak of the autocorrelation of their steps (differences) behind a trough: a walk
has none, however alike its neighbours are (Hyndman & Athanasopoulos 2021, sections 2.8 and 9.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.time_units import DAY, SECONDS

USUAL = {"day": 1e-3, "week": 1e-3, "year": 0.03}
"""Seasons, the shortest first, and the share of one by which whole rows may miss it: months are of several lengths."""
AS_GOOD = 1.05
"""Times the error of a season up to which the usual one, or a shorter one, is as good."""
CLEARER, MIN_SHOWN, SIGMAS = 0.2, 0.3, 4.0
"""Autocorrelation by which a season that rows show is above the usual one's, what it has at least, and in 1/√rows."""
SHORTEST, MAX_LAG = 4, 10_000


@dataclass(frozen=True)
class Season:
    """Rows after which a series is alike."""

    rows: int
    why: str
    """In words: `a day`."""


def usual_seasons(step_seconds: float | None) -> list[Season]:
    """Return the seasons of rows so many seconds apart, shortest first: 24 and 168 of hours; none of other times."""
    found = []
    for name, may_miss in USUAL.items():
        exact = SECONDS[name] / step_seconds if step_seconds else 0.0
        is_near = name != "year" or (step_seconds or 0.0) >= DAY  # of hours a year is too far back
        if is_near and (rows := round(exact)) >= 2 and abs(exact - rows) <= may_miss * exact:
            found.append(Season(rows, f"a {name}"))
    return found


def step_of(times: Array, pieces: Array) -> float | None:
    """Return the usual seconds between two rows of dates, (rows,), of one piece; None of numbers, or of single rows."""
    if times.dtype.kind != "M":
        return None
    apart = (np.diff(times) / np.timedelta64(1, "s"))[np.diff(pieces) == 0]
    return float(np.median(apart)) if len(apart) else None


def season_of(values: Array, pieces: Array, step_seconds: float | None, horizon: int) -> Season | None:
    """Return the season whose repetition is to be beaten: the usual one of such rows, unless they show another clearly.

    Args:
        values: targets in order of time, (rows, targets): of the train split alone.
        pieces: number of the unbroken series of each row, (rows,).
        step_seconds: between two rows; None: times are numbers.
        horizon: rows ahead that are forecast.
    """
    usual = [one for one in usual_seasons(step_seconds) if _fits(one.rows, len(values), horizon)]
    errors = [seasonal_error(values, pieces, one.rows, horizon) for one in usual]
    best, error = (usual[0], errors[0]) if usual and np.isfinite(errors[0]) else (None, np.inf)
    for one, other in zip(usual[1:], errors[1:], strict=True):
        if other * AS_GOOD < error:
            told = f"{one.why}, which errs less on the train rows than {best.why}" if best else one.why
            best, error = Season(one.rows, told), other
    alike = autocorrelation(values, pieces)
    shown = _peak(alike, len(values))
    if shown is None or not _fits(shown, len(values), horizon):
        return best
    at_best = alike[best.rows] if best is not None and best.rows < len(alike) else 0.0
    is_clear = best is None or alike[shown] >= at_best + CLEARER
    better = seasonal_error(values, pieces, shown, horizon) * AS_GOOD < error
    return Season(shown, "the season that the train rows show") if is_clear and better else best


def _fits(period: int, rows: int, horizon: int) -> bool:
    return 2 * period * -(-horizon // period) <= rows


def seasonal_error(values: Array, pieces: Array, period: int, horizon: int) -> float:
    """Return how far a horizon is from its last season, in deviations of the values, (rows, targets); NaN for none."""
    seasons, counts = np.unique(-(-np.arange(1, horizon + 1) // period), return_counts=True)
    each = [_apart(values, pieces, period * int(season)) for season in seasons]
    return float(np.average(each, weights=counts))


def naive_errors(values: Array, pieces: Array, back: int) -> Array:
    """Return the mean distance of values, (rows, targets), from those so many rows before, (targets,).

    The mean is over the rows of all pieces, each within its own; NaN where none reaches so far back.
    """
    same = pieces[back:] == pieces[:-back]
    apart = np.abs(values[back:] - values[:-back])[same]
    return np.asarray(apart.mean(axis=0) if len(apart) else np.full(values.shape[1], np.nan))


def naive_scale(values: Array, pieces: Array, season: Season | None) -> Array:
    """Return what the value one season before is off by, (targets,): what mase divides by.

    Without a season, or where no piece is so long, it is of the value one row before.
    """
    found = naive_errors(values, pieces, season.rows) if season is not None else np.array([np.nan])
    return found if np.isfinite(found).all() else naive_errors(values, pieces, 1)


def _apart(values: Array, pieces: Array, back: int) -> float:
    return float((naive_errors(values, pieces, back) / np.maximum(values.std(axis=0), 1e-12)).mean())


def autocorrelation(values: Array, pieces: Array) -> Array:
    """Return the autocorrelation of the steps of values, (rows, targets), by lag: the mean over targets, (lags,)."""
    steps = np.where((np.diff(pieces) == 0)[:, None], np.diff(values, axis=0), 0.0)
    lags = min(len(steps) // 3, MAX_LAG) + 1
    size = 1 << (2 * max(len(steps), 1) - 1).bit_length()
    found = np.zeros(lags)
    for one in steps.T:
        power = np.abs(np.fft.rfft(one - one.mean(), size)) ** 2
        alike = np.fft.irfft(power, size)[:lags]
        found += alike / max(float(alike[0]), 1e-12) / steps.shape[1]
    return found


def _peak(alike: Array, rows: int) -> int | None:
    """Return the lag of the highest peak, of like ones the shortest; None: too low, or no trough lies before it."""
    lags = np.arange(SHORTEST, len(alike) - 1)
    lags = lags[(alike[lags] >= alike[lags - 1]) & (alike[lags] > alike[lags + 1])]
    peaks = [int(lag) for lag in lags[alike[lags] >= max(MIN_SHOWN, SIGMAS / np.sqrt(rows))]]
    peaks = [lag for lag in peaks if alike[-(-lag // 2) : lag].min() <= 0]
    highest = max((alike[lag] for lag in peaks), default=0.0)
    return next((lag for lag in peaks if alike[lag] * AS_GOOD >= highest), None)
