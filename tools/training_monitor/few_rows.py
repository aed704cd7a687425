"""A few validation rows with much of the loss: of numbers often a wrong label, and no search helps against that."""

from __future__ import annotations

from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evaluation import Evaluation, Ranges

FEW, MAX_FEW = 50, 5
"""Rows of which one is few, and rows that are still few."""
FEW_ROWS_SHARE = 0.25
"""Of the squared error, from which on a handful of rows is worth a look at its labels."""


def few_rows_told(run: RunDirectory) -> str:
    """Return which share of the squared error a few validation rows have, with the question after their labels.

    A number that a typing error made ten times too large has much of a mean error to itself: where at most five rows,
    and one in fifty, have as much, their labels are asked after. Else, and of anything but one number, it is empty.
    """
    found = run.part(Evaluation)
    if len(found.ranges) != 1 or not found.ranges[0].by_target:
        return ""
    pairs = [(one.target, one.prediction) for one in found.worst[: min(found.rows // FEW, MAX_FEW)]]
    errors = [(wanted - said) ** 2 for wanted, said in pairs if isinstance(wanted, float) and isinstance(said, float)]
    whole = _squared_error(found.ranges[0], found.rows)
    share = sum(errors) / whole if whole else 0.0
    if share < FEW_ROWS_SHARE:
        return ""
    told = f"{len(errors)} of {found.rows} validation rows have {100 * share:.0f} % of the squared error"
    return f"{told}; are their labels right?"


def _squared_error(ranges: Ranges, rows: int) -> float:
    """Return the sum of squared errors by its parts: bias, both deviations, and how far they go together."""
    sizes = [rows // 5 + (place < rows % 5) for place in range(5)]  # as the fifths of the evaluated rows are cut
    bias = sum(size * fifth.error for size, fifth in zip(sizes, ranges.by_target, strict=True)) / rows
    apart = ranges.deviation**2 + ranges.spread**2 - 2.0 * ranges.correlation * ranges.deviation * ranges.spread
    return rows * (bias**2 + max(apart, 0.0))
