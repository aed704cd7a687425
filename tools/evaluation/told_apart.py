"""Verdict on two programs on the same rows, better, worse or not told apart: one rule for rivals, cards and versions.

An interval of resampled rows leaves 0 out wherever no row goes the other way, be it four rows or two. So the exact test
of McNemar (1947) has to show it too, of a share of right rows; and of what else follows from predicted classes, where
no row goes the other way. Rows in groups have no such test: there the interval over groups decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

from trainwright.tools.evaluation.statistics import exact_in_words, exact_p, of_losses
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE, Ends, Shown
from trainwright.trainer.clean_room.counts import OF_COUNTS  # loads numpy

CERTAIN_BELOW = 0.05
"""p of the exact test."""
OF_RIGHT_ROWS = {"accuracy", "f1_micro", "precision_micro", "recall_micro", "recall_weighted"}
"""Metrics that are the share of right rows, where a row has one class."""


def shown_by(
    paired: Mapping[str, Any], metric: str, names: tuple[str, str], *, is_minimized: bool, together: int = 1
) -> Shown:
    """Return what a pair shows of its first program.

    Args:
        paired: {rows, classes, loss, intervals} of first minus second, as the clean room has them.
        metric: of both.
        names: of the programs, as in `4 rows right by the model alone`.
        is_minimized: whether less of the metric is better.
        together: how many such comparisons hold at once (Bonferroni; Dunn 1961).
    """
    ends = _ends(paired, metric, together)
    if ends is None or ends[0] <= 0 <= ends[1]:
        return Shown(interval=ends, side=ALIKE)
    side = BETTER if (ends[0] > 0) != is_minimized else WORSE
    return Shown(interval=ends, side=side, few=_few(paired.get("classes"), metric, names, CERTAIN_BELOW / together))


def _few(table: Mapping[str, int] | None, metric: str, names: tuple[str, str], below: float) -> str:
    """Return which rows are too few to show a difference; '' where they do, or nothing is counted."""
    if table is None or exact_p(table) < below:
        return ""
    is_one_way = not (table["only_first"] and table["only_second"])
    shows_nothing = metric in OF_RIGHT_ROWS or (is_one_way and metric in OF_COUNTS)
    return exact_in_words(table, *names) if shows_nothing else ""


def _ends(paired: Mapping[str, Any], metric: str, together: int) -> Ends | None:
    """Return the interval of the difference, 95 % of so many together, as of a normal one."""
    table, ends = paired.get("classes"), paired.get("intervals", {}).get(metric)
    if metric == "loss" and ends is None and "loss" in paired:
        ends = of_losses(paired["loss"])["interval"]
    if metric in OF_RIGHT_ROWS and table is not None and not (table["only_first"] or table["only_second"]):
        ends = (-3 / paired["rows"], 3 / paired["rows"])  # none of n: the rule of three (Hanley & Lippman-Hand 1983)
    if ends is None or together == 1:
        return None if ends is None else (ends[0], ends[1])
    normal = NormalDist()
    factor = normal.inv_cdf(1 - 0.025 / together) / normal.inv_cdf(0.975)
    middle, half = (ends[0] + ends[1]) / 2, factor * (ends[1] - ends[0]) / 2
    return middle - half, middle + half
