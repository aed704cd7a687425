"""Errors of forecasts that learn nothing, on a table's validation rows: they give a goal its scale.

They are those that a baseline is held against (`evidence/rivals/naive_forecasts.py`): the last value, and the value a
season before. Each horizon's figure is the mean over its rows, as metrics of windows are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.seasons import naive_scale, season_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.spans import borders_of, shares_of
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.rows import TRAIN, VALIDATION, Rows

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
        found: what is known of them (`table_times.py`): time, group, first, last, is_date, step_seconds.
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
