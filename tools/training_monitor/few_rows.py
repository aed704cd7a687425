"""A few validation rows with much of the loss: of numbers often a wrong label, and no search helps against that."""

from __future__ import annotations

from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.evaluation import Evaluation
from trainwright.trainer.run.evidence import Summary

FEW, MAX_FEW = 50, 5
"""Rows of which one is few, and rows that are still few."""
FEW_ROWS_SHARE = 0.25
"""Of the loss, from which on a handful of rows is worth a look at its labels."""


def few_rows_told(run: RunDirectory) -> str:
    """Return which share of the validation loss a few rows have, with the question after their labels.

    A number that a typing error made ten times too large has much of a mean error to itself: where at most five rows,
    and one in fifty, have as much of the loss, their labels are asked after. Else, and of classes, it is empty.
    """
    found, best = run.part(Evaluation), run.part(Summary).best
    mean = best.metrics.get("loss") if best is not None else None
    few = [one for one in found.worst[: min(found.rows // FEW, MAX_FEW)] if isinstance(one.target, float | int)]
    share = sum(one.loss for one in few) / (mean * found.rows) if mean and few else 0.0
    if not FEW_ROWS_SHARE <= share <= 1:
        return ""
    return f"{len(few)} of {found.rows} validation rows have {100 * share:.0f} % of the loss; are their labels right?"
