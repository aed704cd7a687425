"""Constants: columns with one value only, which no model can learn from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.values import severity_of


class Constants(Family):
    """Columns of one value."""

    name = "constants"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column but the target: its least value is not its greatest."""
        if context.source == "images":  # sizes and channels may well be the same
            return
        severity = severity_of(context, "constant", "info" if _are_codes(context) else "warning")
        for column, kind in context.kinds.items():
            if kind in {"other", "embedding"} or column in context.targets or column in context.summaries:
                continue
            found = pl.col(column).fill_nan(None) if kind == "number" else pl.col(column)
            asks = {"min": found.min(), "max": found.max()}
            yield Check("constant", column, severity, asks, partial(_judge, column, is_own=":" in context.source))


def _are_codes(context: Context) -> bool:
    """Whether samples of the user's own are vectors of whole numbers, such as words: a place may well never vary."""
    inputs = [kind for name, kind in context.kinds.items() if name not in context.targets]
    return ":" in context.source and len(inputs) > 1 and set(inputs) == {"integer"}


def _judge(column: str, asked: Mapping[str, Any], *, is_own: bool) -> Finding:
    least, most = asked["min"], asked["max"]
    shown = str(least)[:40]
    told = f"{column} is always {shown!r}" if least is not None else f"{column} has no value"
    how = "of the samples" if is_own else "with data.args.features"
    remedy = f"Leave {column} out {how}: nothing can be learned from it."
    is_constant = least is None or least == most
    return Finding(not is_constant, shown if is_constant else None, None, 0, told if is_constant else "", remedy)
