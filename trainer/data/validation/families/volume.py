"""Volume: how many rows there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.report import NotChecked


class Volume(Family):
    """Numbers of rows."""

    name = "volume"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each bound; without one, that there is a row at all."""
        rows = context.expectations.rows
        least = 1 if rows.at_least is None else rows.at_least
        yield Check("rows_at_least", None, "error", {"rows": pl.len()}, partial(_judge, least, False))
        if rows.at_most is not None and not context.is_sample:
            yield Check("rows_at_most", None, "error", {"rows": pl.len()}, partial(_judge, rows.at_most, True))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield the upper bound, of a sample of the rows."""
        if context.is_sample and context.expectations.rows.at_most is not None:
            yield NotChecked(what="rows.at_most", why="only a sample of the rows was read")


def _judge(bound: int, is_upper: bool, asked: Mapping[str, Any]) -> Finding:
    rows = int(asked["rows"])
    fits = rows <= bound if is_upper else rows >= bound
    told = f"there are {rows} rows, and {'at most' if is_upper else 'at least'} {bound} are expected"
    remedy = "See whether the file is complete, or the right one; data.args.path names it."
    return Finding(fits, rows, bound, 0, told, remedy)
