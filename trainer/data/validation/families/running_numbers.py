"""Running numbers: inputs that count the rows, from which a model learns their order and nothing of new rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.families.leaks import inputs_of, without_columns
from trainwright.trainer.data.validation.values import numbers, severity_of

MIN_ROWS = 50
BY_ONE = 0.9
"""Share of the rows that are one above the row before; rows that were dropped leave holes."""


class RunningNumbers(Family):
    """Inputs that rise by one from row to row, all the way: a count within each group begins again."""

    name = "running_numbers"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each input of whole numbers; none of windows over time, or of rows drawn from them."""
        if context.source == "images" or context.options.get("series") or context.is_sample:
            return
        severity = severity_of(context, "running_number", "warning")
        for column in inputs_of(context) or []:
            if context.kinds.get(column) == "integer":
                found = numbers(context, column)
                asks = {
                    "least": found.min(),
                    "most": found.max(),
                    "by_one": (found.diff() == 1).sum(),
                    "rows": pl.len(),
                }
                judge = partial(_judge, column, without_columns(context, [column]))
                yield Check("running_number", column, severity, asks, judge)


def _judge(column: str, changes: dict[str, Any], asked: Mapping[str, Any]) -> Finding:
    rows, by_one = int(asked["rows"]), int(asked["by_one"] or 0)
    if rows < MIN_ROWS or by_one < BY_ONE * (rows - 1) or asked["most"] - asked["least"] < rows - 1:
        return Finding(passed=True)
    told = f"{column} counts the rows: {by_one} of {rows} are one above the row before, from {asked['least']} on"
    how = f"changes {json.dumps(changes)}" if changes else "it is no input of the samples then"
    remedy = f"Leave it out: {how}. Where it is a time, data.split.by time says so."
    return Finding(False, by_one, None, 0, told, remedy, {"changes": changes} if changes else {})
