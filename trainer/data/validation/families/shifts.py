"""Shifts in time: columns whose level in the rows held out by time is one that the train rows hardly have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.split_methods.rows import NAMES, TRAIN
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.in_time import InTime, in_time
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.values import severity_of

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
