"""Series: rows of a table in order of time, of which windows with the horizons behind them are the samples.

Samples are views of the rows' memory, a step apart: nothing is copied but a batch. A window is in the split in which
all of its horizon is; one whose horizon lies on a border is in none. What a window sees may reach back into the split
before, as it will when the model serves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.time_units import SECONDS
from trainwright.trainer.data.fingerprint import SplitRecord, record_rows
from trainwright.trainer.data.preprocessing import Preprocessing
from trainwright.trainer.data.seasons import Season, naive_scale, season_of, step_of
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.by_time import rows_after_end
from trainwright.trainer.data.split_methods.rows import NAMES, Rows
from trainwright.trainer.data.tensors import PREPARED_AT_ONCE, Prepare, TensorSamples


class Step(NamedTuple):
    """Time from one row to the next; in words as text."""

    length: float
    unit: Literal["number", "second", "month"]
    """A number is of a column of numbers, and has no unit."""

    def __str__(self) -> str:
        if self.unit == "number":
            return f"{self.length:.4g}"
        if self.unit == "month":
            return f"{self.length:g} months" if self.length > 1 else "month"
        unit = next((name for name in ("day", "hour", "minute") if self.length >= SECONDS[name]), "second")
        count = f"{self.length / SECONDS[unit]:.4g}"
        return unit if count == "1" else f"{count} {unit}s"


@dataclass(frozen=True)
class Series:
    """Rows in order of time, series after series where there are several, and where windows begin."""

    inputs: Tensor
    """(rows, inputs) of float32, as the table's encoder has them."""
    targets: Tensor
    """(rows, targets) of float32."""
    times: Array
    """(rows,): datetime64, or float64 of a column of numbers."""
    order: Array
    """Number of each row in the table, (rows,)."""
    pieces: Array
    """Number of the unbroken series that each row belongs to, (rows,)."""
    groups: Array
    """Number of each row's group by its text, whatever others there are, (rows,)."""
    starts: Array
    """First row of each window, (windows,)."""
    window: int
    horizon: int
    every: Step
    """Time between two rows."""
    period: int | None = None
    """Rows after which the series is alike, where that is said."""
    names: dict[int, str] = field(default_factory=dict)
    """Text of each group by its number, where there are several."""
    dates: dict[str, Any] | None = None
    """How the column's dates are written; None: as ISO 8601 has them, or there are numbers."""

    def samples(self) -> TensorSamples:
        """Return windows (rows, window, inputs) and horizons (rows, horizon * targets), one from every row on.

        Those that begin in one series and end in another are among them: no split takes these.
        """
        count, wide = len(self.inputs) - self.window - self.horizon + 1, self.targets.shape[1]
        horizons = self.targets.as_strided((count, self.horizon * wide), (wide, 1), self.window * wide)
        return TensorSamples(self._windows(self.inputs), horizons)

    def _windows(self, rows: Tensor) -> Tensor:
        count, wide = len(rows) - self.window - self.horizon + 1, rows.shape[1]
        return rows.contiguous().as_strided((count, self.window, wide), (wide, wide, 1))

    def prepared_by(self, preprocessing: Preprocessing) -> TensorSamples:
        """Return all samples, whose windows are of rows that were prepared once."""
        raw = self.samples()
        return TensorSamples(*raw.base, prepare=_PreparedRows(preprocessing, self))

    def divided(self, section: SplitSection) -> dict[str, Array]:
        """Return the first rows of the windows of each split. Raises DataError where a split would have none."""
        codes = METHODS["time"](Rows(len(self.times), key=self.times), section)
        first = codes[self.starts + self.window]
        last = codes[self.starts + self.window + self.horizon - 1]
        found = {
            name: self.starts[(first == code) & (last == code)].astype(np.int32) for code, name in enumerate(NAMES)
        }
        shares = {"train": 1.0, "validation": section.validation, "test": section.test}
        for code, name in enumerate(NAMES):
            if not len(found[name]) and (shares[name] > 0 or section.borders is not None):
                rows = int((codes == code).sum())
                raise DataError(
                    f"{name} has {rows} of {len(codes)} rows and no window: one needs {self.window} rows before a "
                    f"horizon of {self.horizon} that lies in {name} as a whole.",
                    remedy="Give more rows, a smaller data.args.series.window or horizon, or other shares or borders "
                    "of data.split.",
                    details={"rows": rows, "window": self.window, "horizon": self.horizon},
                )
        return {name: places for name, places in found.items() if len(places)}

    def rows_of(self, starts: Any) -> Array:
        """Return the rows of windows and their horizons, each once, (rows,)."""
        return self._covered(starts, 0, self.window + self.horizon)

    def target_rows(self, starts: Any) -> Array:
        """Return the rows that are forecast, each once, (rows,)."""
        return self._covered(starts, self.window, self.horizon)

    def _covered(self, starts: Any, first: int, length: int) -> Array:
        places = np.asarray(starts, dtype=np.int64) + first
        marks = np.bincount(places, minlength=len(self.times) + 1)
        marks -= np.bincount(places + length, minlength=len(self.times) + 1)
        return np.flatnonzero(np.cumsum(marks[:-1]))

    def season(self, starts: Any) -> Season | None:
        """Return the season as configured, or as spacing and rows up to these windows' last one have it; None: none.

        Args:
            starts: first row of each window of the train split, (windows,).
        """
        if self.period is not None:
            return Season(self.period, "as configured")
        values, rows = self._up_to(starts)
        return season_of(values, self.pieces[rows], step_of(self.times[rows], self.pieces[rows]), self.horizon)

    def naive_errors(self, starts: Any) -> list[float]:
        """Return what the value one season before is off by on the train rows, of each target: the scale of mase.

        Of several series it is one mean over the rows of all.

        Args:
            starts: first row of each window of the train split, (windows,).
        """
        values, rows = self._up_to(starts)
        return [float(one) for one in naive_scale(values, self.pieces[rows], self.season(starts))]

    def _up_to(self, starts: Any) -> tuple[Array, Array]:
        """Return targets, (rows, targets), and numbers of the rows up to the last that windows forecast.

        Those between the windows are among them: a season counts neighbours.
        """
        rows = np.flatnonzero(self.times <= self.times[self.target_rows(starts)].max())
        return self.targets.numpy()[rows].astype(np.float64), rows

    def as_samples(self, rows: Array) -> TensorSamples:
        """Return rows, (chosen,), each with its targets."""
        return TensorSamples(self.inputs, self.targets, rows=torch.from_numpy(rows))

    def forecast(self, samples: TensorSamples) -> TensorSamples:
        """Return the rows that windows forecast, each once: its time, group, inputs and targets."""
        places = map(torch.from_numpy, (self.times.astype(np.float64), self.groups))
        rows = torch.from_numpy(self.target_rows(samples.rows))
        return TensorSamples(*places, self.inputs, self.targets, rows=rows)

    def record(self, samples: TensorSamples) -> SplitRecord:
        """Return the description of a split by the rows that it forecasts, of which no other may forecast one.

        Windows overlap, and those of a flat series are equal: neither is a copy of a sample.
        """
        return replace(record_rows(self.forecast(samples), closely=False), size=len(samples))

    def erase(self, samples: TensorSamples) -> None:
        """Overwrite the rows from the first on that these samples forecast; no other split takes a later one."""
        begin = self.times[self.target_rows(samples.rows)].min()
        rows = torch.from_numpy(np.flatnonzero(self.times >= begin))
        for tensor in (self.inputs, self.targets):
            tensor[rows] = 0
        if samples.prepare is not None:
            samples.prepare.forget()

    def told(self, parts: dict[str, Any], section: SplitSection) -> dict[str, Any]:
        """Return what the rows were taken for, in words, and how many are left out since they are after the test."""
        several = f", {self.pieces[-1] + 1} series" if self.pieces[-1] else ""
        counts = ", ".join(f"{name} {len(part)}" for name, part in parts.items())
        inputs, targets = (
            f"{one.shape[1]} {name}{'s' * (one.shape[1] != 1)}"
            for one, name in ((self.inputs, "input"), (self.targets, "target"))
        )
        shape = f"{self.window} rows of {inputs} -> {self.horizon} rows of {targets}"
        after = rows_after_end(self.times, section)
        left = f"; {after} rows from {section.borders[-1]} on are left out" if after and section.borders else ""
        return {"series": f"{len(self.times)} rows, every {self.every}{several}; windows of {shape}: {counts}{left}"}


class _PreparedRows(Prepare):
    """Prepares the rows of a series once; windows are views of them."""

    def __init__(self, preprocessing: Preprocessing, series: Series) -> None:
        super().__init__(preprocessing, series.inputs)
        self.series = series

    def __call__(self, rows: Tensor | slice) -> Tensor:
        if self._kept is None:
            prepared = torch.cat([self._prepared(part) for part in torch.split(self.raw, PREPARED_AT_ONCE)])
            self._kept = self.series._windows(prepared)
        return self._kept[rows]
