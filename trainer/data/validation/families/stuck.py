"""Stuck values: one number for long, in a column that otherwise varies; a sensor that stood still, or cells filled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.in_time import InTime, in_time
from trainwright.trainer.data.validation.report import MAX_ROWS, Verdict
from trainwright.trainer.data.validation.values import severity_of

MIN_ROWS = 20
"""Of a stretch of one number."""
LONGER, LONGER_THAN_ITS_OWN = 10, 5
"""Times the usual stretch of a column (99 of 100 are shorter), and the next of the same number: nights have no sun."""
USUAL = 0.99
MAX_NAMED = 5


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
        told = ", ".join(_told(one, rows) for one in found[:MAX_NAMED])
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
    if len(values) < MIN_ROWS:
        return []
    is_new = begins | np.concatenate([[True], values[1:] != values[:-1]])  # NaN differs from NaN
    firsts = np.flatnonzero(is_new)
    lengths = np.diff(np.concatenate([firsts, [len(values)]]))
    usual = float(np.quantile(lengths, USUAL))
    found = []
    for place in np.flatnonzero(lengths >= max(MIN_ROWS, LONGER * usual)).tolist():
        same = lengths[values[firsts] == values[firsts[place]]]
        next_longest = int(np.sort(same)[-2]) if len(same) > 1 else 0
        if lengths[place] >= LONGER_THAN_ITS_OWN * next_longest:
            found.append(_Stretch(column, float(values[firsts[place]]), int(firsts[place]), int(lengths[place])))
    return found


def _told(one: _Stretch, rows: InTime) -> str:
    return f"{one.column} is {one.value:g} for {one.rows} rows from {str(rows.times[one.first])[:19]} on"
