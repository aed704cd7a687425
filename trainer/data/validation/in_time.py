"""Rows in order of time: their order, their splits and their series, where rows are split by time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods import METHODS
from trainwright.trainer.data.split_methods.by_time import instants
from trainwright.trainer.data.split_methods.rows import Rows
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.families.leaks import inputs_of
from trainwright.trainer.data.validation.values import NUMBERS, numbers

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
