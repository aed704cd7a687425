"""Rows in order of time, where rows are split by time: their means beside those of train, and values that are stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.split_methods.rows import NAMES, TRAIN, Rows
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.families.leaks import inputs_of
from trainwright.trainer.data.validation.report import MAX_ROWS, Verdict
from trainwright.trainer.data.validation.values import NUMBERS, numbers, severity_of

# Rows in order of time: their order, their splits and their series, where rows are split by time.

SPLIT = "data.split."


@dataclass(frozen=True)
class InTime:
    """Rows of a table, series after series where there are several, each in order of time."""

    context: Context
    times: Array
    """The column of times as the source has it, (rows,)."""
    order: Array
    """Numbers of the rows, (rows,)."""
    codes: Array
    """The split of each, as `split_methods.rows.NAMES` counts them, (rows,)."""
    begins: Array
    """Whether each is the first of its series, (rows,)."""

    def columns(self) -> Iterator[tuple[str, Array]]:
        """Yield inputs and targets of numbers, one at a time, in this order, (rows,); NaN for an empty cell."""
        chosen = dict.fromkeys([*self.context.targets, *(inputs_of(self.context) or [])])
        for name in chosen:
            if self.context.kinds.get(name) in NUMBERS:
                found = self.context.frame.select(numbers(self.context, name).cast(pl.Float64).fill_null(float("nan")))
                yield name, found.collect(engine="streaming").to_series().to_numpy()[self.order]


def in_time(context: Context) -> InTime | None:
    """Return a table's rows in order of time; None where they are not split by time, or nothing tells their order."""
    said = {key.removeprefix(SPLIT): value for key, value in context.settled.items() if key.startswith(SPLIT)}
    time = context.split_by
    if said.get("by") != "time" or time not in context.kinds or context.is_sample:
        return None
    group = (context.options.get("series") or {}).get("group")
    table = context.frame.select([time, *([group] if group in context.kinds else [])]).collect(engine="streaming")
    key = table[time].to_numpy()
    series = table[group].rank("dense").fill_null(0).to_numpy() if group in table.columns else np.zeros(len(key))
    try:
        seconds = instants(key, time)
        codes = METHODS["time"](Rows(len(key), key=key), SplitSection.model_validate(said))
    except TrainwrightError:  # which the loading says
        return None
    order = np.lexsort((seconds, series))
    begins = np.concatenate([[True], np.diff(series[order]) != 0]) if len(order) else np.zeros(0, dtype=bool)
    return InTime(context, key[order], order, codes[order], begins)


# Shifts in time: columns whose level in the rows held out by time is one that the train rows hardly have.

MAX_APART = 2.0
"""Standard deviations of train by which a mean may differ: a season that train has as a whole moves it by 1.41."""
MIN_ROWS = 30
MAX_NAMED = 5
OF_SERIES = (
    "This is drift, in the order of time. What holds at a new level: a forecast that goes on from its window (dlinear "
    "with args from_last true), windows normalised by their own mean and deviation and put back after it (reversible "
    "instance normalisation), or differences in place of values; or a train span that has seen such levels."
)
OF_ROWS = (
    "This is drift, in the order of time. Give changes or shares in place of the level, train on a longer or a later "
    "span, or leave the column out."
)


class Shifts(Family):
    """Means of validation and test rows beside those of train, where rows are split by time."""

    name = "shifts"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield one verdict on all columns of numbers; none where rows are not split by time."""
        rows = in_time(context)
        if rows is None:
            return
        apart: list[dict[str, Any]] = []
        for column, values in rows.columns():
            apart += _apart(column, values, rows)
        apart.sort(key=lambda one: -abs(one["deviations"]))
        told = ", ".join(_told(one) for one in apart[:MAX_NAMED])
        more = f" and {len(apart) - MAX_NAMED} more" if len(apart) > MAX_NAMED else ""
        columns = list(dict.fromkeys(one["column"] for one in apart))
        yield Verdict(
            family=self.name,
            name="shift_in_time",
            column=columns[0] if len(columns) == 1 else None,
            severity=severity_of(context, "shift_in_time", "warning"),
            passed=not apart,
            value=abs(apart[0]["deviations"]) if apart else None,
            bound=MAX_APART,
            text=f"Means that are {MAX_APART:g} or more standard deviations of train away: {told}{more}"
            if apart
            else "",
            remedy=(OF_SERIES if context.options.get("series") else OF_ROWS) if apart else "",
            details={"shifts": apart[:20]} if apart else {},
        )


def _apart(column: str, values: Array, rows: InTime) -> Iterable[dict[str, Any]]:
    """Yield the held-out splits whose mean is far from train's; none of a column that only rises with time."""
    is_filled = np.isfinite(values)
    steps = np.diff(values)[~rows.begins[1:] & is_filled[1:] & is_filled[:-1]]
    train = values[(rows.codes == TRAIN) & is_filled]
    if len(train) < MIN_ROWS or not len(steps) or not train.std() or (steps >= 0).all():
        return
    for code, name in enumerate(NAMES[1:], 1):
        held = values[(rows.codes == code) & is_filled]
        if len(held) >= MIN_ROWS:
            deviations = float((held.mean() - train.mean()) / train.std())
            if abs(deviations) >= MAX_APART:
                means = {"mean": float(f"{held.mean():.4g}"), "train_mean": float(f"{train.mean():.4g}")}
                yield {"column": column, "split": name, "deviations": round(deviations, 2), **means}


def _told(one: dict[str, Any]) -> str:
    return f"{one['column']} {one['deviations']:+.1f} in {one['split']} ({one['mean']:g}, train {one['train_mean']:g})"


# Stuck values: one number for long, in a column that otherwise varies; a sensor that stood still, or cells filled.

MIN_STRETCH = 20
"""Of a stretch of one number."""
LONGER, LONGER_THAN_ITS_OWN = 10, 5
"""Times the usual stretch of a column (99 of 100 are shorter), and the next of the same number: nights have no sun."""
USUAL = 0.99


@dataclass(frozen=True)
class _Stretch:
    column: str
    value: float
    first: int
    """Place in order of time."""
    rows: int


class Stuck(Family):
    """Stretches of one number, where rows are split by time."""

    name = "stuck"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield one verdict on all columns of numbers; none where rows are not split by time."""
        rows = in_time(context)
        if rows is None:
            return
        found = [one for column, values in rows.columns() for one in _stretches(column, values, rows.begins)]
        found.sort(key=lambda one: -one.rows)
        columns = list(dict.fromkeys(one.column for one in found))
        told = ", ".join(_stretch_told(one, rows) for one in found[:MAX_NAMED])
        more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
        yield Verdict(
            family=self.name,
            name="stuck_values",
            column=columns[0] if len(columns) == 1 else None,
            severity=severity_of(context, "stuck_values", "warning"),
            passed=not found,
            value=found[0].rows if found else None,
            count=sum(one.rows for one in found),
            rows=[int(rows.order[one.first]) for one in found[:MAX_ROWS]],
            text=f"One number for long, in a column that otherwise varies: {told}{more}" if found else "",
            remedy="Where a sensor stood still, or gaps were filled with the last value, write these cells empty or "
            "leave the rows out: a model learns that nothing changes."
            if found
            else "",
        )


def _stretches(column: str, values: Array, begins: Array) -> list[_Stretch]:
    """Return the stretches that are far longer than the column's others, and than the next of the same number.

    Args:
        values: in order of time, (rows,).
        begins: whether each is the first of its series, (rows,).
    """
    if len(values) < MIN_STRETCH:
        return []
    is_new = begins | np.concatenate([[True], values[1:] != values[:-1]])  # NaN differs from NaN
    firsts = np.flatnonzero(is_new)
    lengths = np.diff(np.concatenate([firsts, [len(values)]]))
    usual = float(np.quantile(lengths, USUAL))
    found = []
    for place in np.flatnonzero(lengths >= max(MIN_STRETCH, LONGER * usual)).tolist():
        same = lengths[values[firsts] == values[firsts[place]]]
        next_longest = int(np.sort(same)[-2]) if len(same) > 1 else 0
        if lengths[place] >= LONGER_THAN_ITS_OWN * next_longest:
            found.append(_Stretch(column, float(values[firsts[place]]), int(firsts[place]), int(lengths[place])))
    return found


def _stretch_told(one: _Stretch, rows: InTime) -> str:
    return f"{one.column} is {one.value:g} for {one.rows} rows from {str(rows.times[one.first])[:19]} on"
