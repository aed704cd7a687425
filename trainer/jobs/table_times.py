"""Naive errors and times of a table of series: what repeating the past errs by, and how its rows stand in time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.base.time_units import DAY, HOUR, SECONDS
from trainwright.trainer.data.seasons import naive_scale, season_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.spans import borders_of, shares_of
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.split_methods.rows import TRAIN, VALIDATION, Rows
from trainwright.trainer.data.table.infer import infer

# Errors of forecasts that learn nothing, on a table's validation rows: they give a goal its scale.
#
# They are those that a baseline is held against (`evidence/rivals/naive_forecasts.py`): the last value, and the value a
# season before. Each horizon's figure is the mean over its rows, as metrics of windows are.

LONGEST_HORIZON, MAX_NUMBERS, MAX_ERRORS = 96, 20, 100_000_000
"""Rows ahead, columns, and differences in all, up to which errors are computed."""


def naive_errors(
    frame: pl.LazyFrame,
    times: Array,
    found: Mapping[str, Any],
    targets: str | Iterable[str],
    named: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return for each column of numbers the errors of both naive forecasts, by metric for the horizons from 1 on.

    The season's are left out where none is known, and mape where a value is 0.

    Args:
        frame: all rows.
        times: seconds since 1970 of dates, or numbers, (rows,).
        found: what is known of them: time, group, first, last, is_date, step_seconds.
        targets: columns that may be predicted.
        named: the data's entry, which may say the split; and `spans`, the lengths of the parts that a sentence names.
    """
    schema, group = frame.collect_schema(), found["group"]
    names = [name for name in ([targets] if isinstance(targets, str) else targets)
             if name in schema and schema[name].is_numeric() and name not in {found["time"], group}]  # fmt: skip
    table = frame.select([*([group] if group else []), *names[:MAX_NUMBERS]]).collect(engine="streaming")
    ahead = min(LONGEST_HORIZON, MAX_ERRORS // max(table.height * len(names), 1))
    if not names or not ahead or len(times) < table.height:
        return {}
    places = np.unique(times, return_inverse=True)[1]
    series = table[group].rank("dense").fill_null(0).to_numpy() if group else np.zeros(len(places))
    order = np.lexsort((places, series))
    rows = _Ordered(places[order], series[order], _codes(times, found, named)[order], ahead)
    columns = {name: table[name].cast(pl.Float64).fill_null(np.nan).to_numpy()[order] for name in names[:MAX_NUMBERS]}
    return {name: rows.naive(values, found["step_seconds"]) for name, values in columns.items()}


def _codes(times: Array, found: Mapping[str, Any], named: Mapping[str, Any]) -> Array:
    """Return the split of each row, (rows,), as call or sentence say it, or by the usual shares."""
    of_time = {"by": "time", "time": found["time"]}
    said = {**(named.get("split") or {}), **of_time}
    if spans := named.get("spans"):
        borders = borders_of(found, spans)
        said = ({"borders": borders} if borders else shares_of(spans)) | said
    key = np.round(times * 1e6).astype("datetime64[us]") if found.get("is_date") else times
    for section in (said, of_time):
        try:
            return METHODS["time"](Rows(len(times), key=key), SplitSection.model_validate(section))
        except (ValidationError, TrainwrightError):  # the call's own is refused with its reason elsewhere
            continue
    return np.full(len(times), VALIDATION)


@dataclass(frozen=True)
class _Ordered:
    """Rows series after series, in order of time."""

    places: Array
    """Number of each row's time, (rows,)."""
    series: Array
    """Number of each row's series, (rows,)."""
    codes: Array
    """The split of each row, (rows,)."""
    ahead: int
    """The longest horizon."""

    def naive(self, values: Array, step_seconds: float | None) -> dict[str, Any]:
        """Return the errors of both naive forecasts of a column, (rows,)."""
        is_trained = (self.codes == TRAIN) & np.isfinite(values)
        trained = values[is_trained][:, None], self.series[is_trained]
        season = season_of(*trained, step_seconds, 1)
        scale = float(naive_scale(*trained, season)[0])
        found: dict[str, Any] = {"last_value": self.errors(values, 1, scale)}
        if season is not None:
            found["season"] = {"rows": season.rows, "errors": self.errors(values, season.rows, scale)}
        return found

    def errors(self, values: Array, period: int, scale: float) -> dict[str, list[float]]:
        """Return the metrics of repeating the last season, each of the horizons from 1 to as many as have rows.

        Args:
            values: (rows,).
            period: rows in a season; 1: the last value.
            scale: what mase divides by.
        """
        found: list[tuple[float, float, float]] = []
        counted = (self.codes == VALIDATION) & np.isfinite(values)
        for step in range(1, self.ahead + 1):
            lag = period * -(-step // period)
            there = counted[lag:] & np.isfinite(values[:-lag]) & (self.series[lag:] == self.series[:-lag])
            there &= self.places[lag:] - self.places[:-lag] == lag
            there &= counted[lag - step + 1 : len(values) - step + 1]  # a horizon lies in validation as a whole
            if not there.any():
                break
            off, true = np.abs(values[lag:] - values[:-lag])[there], np.abs(values[lag:])[there]
            found.append((off.mean(), np.square(off).mean(), (off / true).mean() if true.all() else np.nan))
        if not found:
            return {}
        mae, mse, mape = np.array(found).T
        errors = {"mae": mae, "rmse": np.sqrt(mse), "mse": mse, "mape": mape, "mase": mae / (scale or np.nan)}
        errors |= {"r2": 1 - mse / (float(values[counted].var()) or np.nan)}
        errors = {name: np.cumsum(figures) / np.arange(1, len(found) + 1) for name, figures in errors.items()}
        return {name: [float(f"{one:.6g}") for one in figures] for name, figures in errors.items()
                if np.isfinite(figures).all()}  # fmt: skip


# Columns of times in a table: their steps, whose series the rows are, and how far off naive forecasts are.
#
# Times are dates, or whole numbers with even steps that are named by what they count or look like years.

MAX_TIMES, MIN_TIMES, MIN_OF_SEVERAL = 5_000, 20, 8
"""Rows whose dates are read, and different times of a series; of one of several."""
EVEN_SHARE = 0.5
"""Of the steps between dates, which are the usual one: of months 7 in 12 have 31 days."""
MIN_ROWS, FULL_SHARE = 2, 0.5
"""Rows of a group at the mean, and of all pairs of time and group, which are there where a group is certain."""
COUNTED = {
    "years?|yr|jahre?": SECONDS["year"], "quarters?|qtr|quartale?": SECONDS["quarter"],
    "months?|monate?": SECONDS["month"], "weeks?|wochen?": SECONDS["week"], "days?|tage?": DAY, "hours?|stunden?": HOUR,
    "dates?|datum|times?|zeit|t|periods?|perioden?|steps?|schritte?": None,
}  # fmt: skip
"""Names of columns that number the times, and seconds of one, where the name says it."""
NAMED = re.compile("|".join(COUNTED), re.IGNORECASE)
YEARS = (1800, 2200)
"""Whole numbers that look like years."""


def times_of(
    frame: pl.LazyFrame, rows: int, columns: list[dict[str, Any]], named: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return each column of even times with its step, and whether rows are the steps of one series, or of several.

    Args:
        frame: all rows.
        rows: how many there are.
        columns: as they are described.
        named: the data's entry, which may name the time (split), the group (args.series) and the target.
    """
    args = named.get("args") or {}
    time, group = (named.get("split") or {}).get("time"), (args.get("series") or {}).get("group")
    found: dict[str, dict[str, Any]] = {}
    for name, step in _steps(frame, time).items():
        whose = [one for one in columns if one["name"] != name and (_may_say_whose(one) or one["name"] == group)]
        steps, groups, possible = _groups(frame, name, rows, [one["name"] for one in whose])
        if steps < (MIN_OF_SEVERAL if groups else MIN_TIMES) and name != time:
            continue
        by = None if steps == rows else group or next(iter(groups), None)
        times = _times(frame, name)
        found[name] = {"step_seconds": step, "steps": steps, "groups": groups, "possible": possible,
                       "is_series": steps == rows or bool(groups), "time": name, "group": by}  # fmt: skip
        if times is None or not len(times):
            continue
        is_date = not frame.collect_schema()[name].is_numeric()
        found[name] |= {"first": float(times.min()), "last": float(times.max()), "is_date": is_date}
        if steps == rows or by:
            targets = args.get("target") or [one["name"] for one in columns]
            found[name]["naive"] = naive_errors(frame, times, found[name], targets, named)
    return found


def _steps(frame: pl.LazyFrame, time: str | None) -> dict[str, float | None]:
    """Return the column that is named, and those of even times, with a step's seconds; None where nothing tells them.

    Those of dates come before those of numbers.
    """
    dates: dict[str, float | None] = {}
    numbers: dict[str, float | None] = {}
    head = frame.head(MAX_TIMES).collect(engine="streaming")
    for values in head:
        times = None if values.dtype.is_numeric() else seconds_of(values)
        if times is not None and len(times) == head.height:
            steps, counts = np.unique(np.round(np.diff(np.unique(times)), 6), return_counts=True)
            if len(counts) and counts.max() >= EVEN_SHARE * counts.sum():
                dates[values.name] = float(steps[counts.argmax()])
        elif values.dtype.is_numeric() and (values.name == time or NAMED.fullmatch(values.name) or _are_years(values)):
            numbers |= _numbered(frame.select(pl.col(values.name).unique()).collect(engine="streaming").to_series())
    alone: dict[str, float | None] = {} if time not in head.columns else {str(time): None}
    return alone | dates | numbers


def seconds_of(values: pl.Series) -> Array | None:
    """Return dates in seconds since 1970, (filled,); None of a column of else, or whose days nothing tells."""
    filled = values.drop_nulls()
    try:
        if values.dtype == pl.String and infer(values.name, filled.to_list(), named=True, decimal=".").kind == "date":
            return instants(filled.to_numpy().astype(str), values.name)
        is_date = values.dtype.is_temporal() and values.dtype not in {pl.Time, pl.Duration}
        return instants(filled.cast(pl.Datetime("us")).to_numpy(), values.name) if is_date else None
    except DataError:
        return None


def _times(frame: pl.LazyFrame, name: str) -> Array | None:
    """Return a column's seconds since 1970 of dates, or its numbers, (rows,); None where a cell has neither."""
    column = frame.select(name).collect(engine="streaming").to_series()
    times = column.cast(pl.Float64).to_numpy() if column.dtype.is_numeric() else seconds_of(column)
    return None if times is None or len(times) < len(column) or column.null_count() else times


def _are_years(values: pl.Series) -> bool:
    return bool(values.dtype.is_integer() and values.null_count() == 0 and values.is_between(*YEARS).all())


def _numbered(different: pl.Series) -> dict[str, float | None]:
    """Return a column of whole numbers with even steps, and their seconds; nothing of other numbers.

    Args:
        different: each of its values once.
    """
    numbers = np.sort(different.cast(pl.Float64).fill_null(np.nan).to_numpy())
    steps = np.diff(numbers)
    if not len(steps) or not np.isfinite(numbers).all() or (numbers % 1).any() or np.ptp(steps) > 0:
        return {}
    unit = next((size for names, size in COUNTED.items() if re.fullmatch(names, different.name, re.I)), None)
    unit = next(iter(COUNTED.values())) if unit is None and _are_years(different) else unit
    return {different.name: None if unit is None else float(steps[0]) * unit}


def _may_say_whose(column: dict[str, Any]) -> bool:
    """Whether a column could say whose series a row belongs to: words, or whole numbers that count no times."""
    is_whole = column["kind"] == "number" and not column.get("is_fraction")
    return (is_whole or column["kind"] == "category") and not NAMED.fullmatch(column["name"])


def _groups(frame: pl.LazyFrame, time: str, rows: int, whose: list[str]) -> tuple[int, list[str], list[str]]:
    """Return how many times there are, the columns that part the rows into series, and those that may, few first."""
    pairs = [pl.struct(time, one).n_unique().alias(f"{place} pairs") for place, one in enumerate(whose)]
    alone = [pl.col(one).n_unique().alias(f"{place} alone") for place, one in enumerate(whose)]
    steps, *counts = frame.select(pl.col(time).n_unique(), *pairs, *alone).collect(engine="streaming").row(0)
    if steps == rows:
        return steps, [], []
    groups = zip(whose, counts[: len(whose)], counts[len(whose) :], strict=True)
    fitting = sorted(((one, count) for one, pair, count in groups if pair == rows and 2 <= count * MIN_ROWS <= rows),
                     key=lambda one: one[1])  # fmt: skip
    certain = [one for one, count in fitting if rows >= FULL_SHARE * count * steps]
    return steps, certain, [one for one, _ in fitting]
