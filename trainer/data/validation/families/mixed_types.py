"""Mixed types: columns of text most of whose cells are numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from trainwright.trainer.data.validation.check import Check, Context, Family, Finding
from trainwright.trainer.data.validation.values import empty, numbers, severity_of

MOSTLY = 0.8
"""Share of numbers from which the other cells are taken for slips."""


class MixedTypes(Family):
    """Cells of two types in one column."""

    name = "mixed_types"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column of text that is not expected to be one."""
        for column, kind in context.kinds.items():
            one = context.expectations.columns.get(column)
            if kind != "text" or (one is not None and (one.kind in {"text", "category", "date"} or one.one_of)):
                continue
            if column == context.options.get("text"):
                continue
            filled = ~empty(context, column)
            bad = filled & numbers(context, column).is_null()
            asks = {"filled": filled.sum(), "no number": bad.sum()}
            severity = severity_of(context, "mixed_types", "warning")
            yield Check("mixed_types", column, severity, asks, partial(_judge, column), offending=bad)


def _judge(column: str, asked: Mapping[str, Any]) -> Finding:
    filled, count = int(asked["filled"] or 0), int(asked["no number"] or 0)
    is_mixed = 0 < count <= (1.0 - MOSTLY) * filled
    told = f"{count} of {filled} cells of {column} are no numbers, the others are"
    remedy = f"Correct these cells; or say what {column} is: expectations columns.{column}.kind = category or text."
    return Finding(not is_mixed, count, 0, count if is_mixed else 0, told, remedy)
