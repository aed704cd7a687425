"""Rows as the leak detectors see them: typed columns, the target, and the split that each row is in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl

from trainwright.trainer.base.arrays import Array

SPLITS = ("train", "validation", "test")
MAX_ROWS = 20_000
"""Rows that are read, drawn at random of more."""
PARSED = 0.98
"""Share of a text column's cells that must be numbers or dates for the column to be of numbers or dates."""
FEW_CLASSES = 20
"""Different whole numbers up to which a target is taken for classes."""
FEW_VALUES = 50
WORDS_OF_TEXT = 4
"""Mean words of a cell from which a column of texts is free text."""
PLACE = "__row"

Kind = Literal["number", "date", "category", "text"]


@dataclass(frozen=True)
class Column:
    """One column: numbers (dates: days since 1970) or texts, each (rows,)."""

    name: str
    kind: Kind
    values: Array
    """float64 with NaN where missing; of categories and texts the number of each different cell, -1 where missing."""
    cells: Array
    """Texts as they are, empty where missing; of numbers empty."""

    @cached_property
    def missing(self) -> Array:
        """Whether each cell is missing, (rows,)."""
        return np.asarray(np.isnan(self.values) if self.is_numeric else self.values < 0)

    @property
    def is_numeric(self) -> bool:
        """Whether its values are numbers or dates, which have an order."""
        return self.kind in {"number", "date"}

    @cached_property
    def codes(self) -> Array:
        """Number of each different value, (rows,), -1 where missing."""
        codes = np.full(len(self.values), -1, dtype=np.int64)
        there = ~self.missing
        codes[there] = np.unique(self.values[there], return_inverse=True)[1]
        return codes

    @cached_property
    def distinct(self) -> int:
        """How many different values it has."""
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def is_continuous(self) -> bool:
        """Whether it holds measurements: numbers of which most differ."""
        there = int((~self.missing).sum())
        return self.kind == "number" and there > 0 and self.distinct > max(FEW_VALUES / 2, 0.1 * there)


@dataclass(frozen=True)
class Target:
    """What is predicted, (rows,): classes as whole numbers from 0, or numbers."""

    name: str
    values: Array
    classes: list[str] | None

    @property
    def is_classes(self) -> bool:
        """Whether it is a class rather than a number."""
        return self.classes is not None

    @cached_property
    def indicators(self) -> Array:
        """Float of each class, (rows, classes), or the numbers, (rows, 1)."""
        if self.classes is None:
            return self.values[:, None].astype(np.float64)
        return np.asarray(self.values[:, None] == np.arange(len(self.classes)), dtype=np.float64)


@dataclass(frozen=True)
class LeakTable:
    """Rows of all splits; rows without a target are left out."""

    columns: list[Column]
    target: Target | None
    split: Array
    """0 train, 1 validation, 2 test, (rows,)."""
    rows: Array
    """Place of each row in the source, (rows,)."""
    total: int
    """Rows of the source, of which at most MAX_ROWS are here."""
    given: bool
    """Whether the splits were given by files or a column, rather than drawn by the engine."""

    @classmethod
    def of(cls, frames: Mapping[str, pl.DataFrame], target: str | None, *, given: bool = False) -> LeakTable:
        """Return the table of frames by split, whose rows may have their places in a column `__row`."""
        parts, first = [], 0
        for code, name in enumerate(SPLITS):
            if name in frames:
                frame = frames[name]
                place = pl.int_range(first, first + frame.height).alias(PLACE)
                parts.append(
                    (frame if PLACE in frame.columns else frame.with_columns(place)).with_columns(
                        pl.lit(code).cast(pl.Int8).alias("__split")
                    )
                )
                first += frame.height
        rows = pl.concat(parts, how="vertical_relaxed").sort(PLACE)
        if target is not None:
            rows = rows.filter(pl.col(target).is_not_null())
        total = rows.height
        if total > MAX_ROWS:
            rows = rows.sample(MAX_ROWS, seed=0).sort(PLACE)
        columns = [column for name in rows.columns if (column := _column(rows[name])) is not None and name != target]
        return cls(
            [column for column in columns if column.name not in {PLACE, "__split"}],
            None if target is None or rows[target].n_unique() < 2 else _target(rows[target]),  # one value tells nothing
            rows["__split"].to_numpy(),
            rows[PLACE].to_numpy(),
            total,
            given,
        )

    @cached_property
    def train(self) -> Array:
        """Which rows are trained on, (rows,)."""
        found: Array = self.split == 0
        return found

    @property
    def held_out(self) -> Array:
        """Which rows are of validation or test, (rows,)."""
        return ~self.train

    def numeric(self) -> list[Column]:
        """Return the columns of numbers."""
        return self.of_kind("number")

    def of_kind(self, kind: Kind) -> list[Column]:
        """Return the columns of a kind."""
        return [column for column in self.columns if column.kind == kind]

    def with_columns(self, names: Collection[str]) -> LeakTable:
        """Return the table with some of its columns."""
        return replace(self, columns=[column for column in self.columns if column.name in names])

    def without(self, names: Collection[str]) -> LeakTable:
        """Return the table without some of its columns."""
        return replace(self, columns=[column for column in self.columns if column.name not in names])

    def chosen_as(self, other: LeakTable) -> LeakTable:
        """Return the table of those of its rows that another one of the same source has."""
        if len(other.rows) == len(self.rows):
            return self
        return self.chosen(np.flatnonzero(np.isin(self.rows, other.rows)))

    def chosen(self, places: Array) -> LeakTable:
        """Return the table of some of its rows."""
        target = self.target and replace(self.target, values=self.target.values[places])
        columns = [
            replace(
                column, values=column.values[places], cells=column.cells[places] if len(column.cells) else column.cells
            )
            for column in self.columns
        ]
        return replace(self, columns=columns, target=target, split=self.split[places], rows=self.rows[places])

    def nests(self, inner: str, outer: str | None) -> bool:
        """Return whether each value of one column lies within one of another; a column that is not here does not."""
        codes = [column.codes for name in (inner, outer) for column in self.columns if column.name == name]
        if len(codes) < 2:
            return inner == outer
        known = np.stack(codes)[:, (codes[0] >= 0) & (codes[1] >= 0)]
        return len(np.unique(known, axis=1).T) == len(np.unique(known[0]))

    def places(self, chosen: Array) -> list[int]:
        """Return the source's places of rows by their places here."""
        return [int(self.rows[row]) for row in chosen]


def _column(series: pl.Series) -> Column | None:
    dtype = series.dtype
    if dtype.is_numeric() or dtype == pl.Boolean:
        return _numbers(series.cast(pl.Float64), "number")
    if dtype.is_temporal():
        return _numbers(_days(series), "date") if dtype in (pl.Date, pl.Datetime) else None
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return _texts(series.cast(pl.String).str.strip_chars())
    return None


def _numbers(series: pl.Series, kind: Kind) -> Column:
    values = series.to_numpy().astype(np.float64)
    values[~np.isfinite(values)] = np.nan
    return Column(series.name, kind, values, np.array([]))


def _days(series: pl.Series) -> pl.Series:
    return series.cast(pl.Datetime("us")).dt.epoch("us") / 86_400e6


def _texts(series: pl.Series) -> Column:
    series = series.set(series == "", None)
    there = series.drop_nulls()
    needed = max(1, PARSED * len(there))
    numbers = series.cast(pl.Float64, strict=False)
    if len(numbers.drop_nulls()) >= needed:
        return _numbers(numbers, "number")
    dates = _parsed_dates(series, needed)
    if dates is not None:
        return _numbers(_days(dates), "date")
    words = float(np.mean(there.str.count_matches(r"\s+").to_numpy() + 1)) if len(there) else 0.0
    cells = series.fill_null("").to_numpy()
    codes = np.unique(cells, return_inverse=True)[1].astype(np.float64)
    codes[series.is_null().to_numpy()] = -1
    return Column(series.name, "text" if words >= WORDS_OF_TEXT else "category", codes, cells)


def _parsed_dates(series: pl.Series, needed: float) -> pl.Series | None:
    head = series.drop_nulls().head(1).to_list()
    if not head or not any(sign in head[0] for sign in "-/.:"):
        return None
    for form in ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y"):
        parsed = series.str.to_datetime(form, strict=False)
        if parsed.len() - parsed.null_count() >= needed:
            return parsed.cast(pl.Datetime("us"))
    return None


def _target(series: pl.Series) -> Target:
    dtype = series.dtype
    numeric = dtype.is_numeric()
    if not numeric and dtype != pl.Boolean:
        parsed = series.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
        numeric = parsed.null_count() == 0
        series = parsed if numeric else series
    values = series.to_numpy()
    if numeric:
        values = values.astype(np.float64)
        different = np.unique(values)
        if len(different) > FEW_CLASSES or (different != np.floor(different)).any():
            return Target(series.name, values, None)
        values = values.astype(np.int64)
    names, codes = np.unique(values.astype(str), return_inverse=True)
    return Target(series.name, codes.astype(np.int64), [str(name) for name in names])
