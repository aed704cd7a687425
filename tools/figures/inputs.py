"""Importance of a run's inputs: how much worse it is when their cells are permuted among the validation rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.figures.recorded import no_predictions
from trainwright.tools.figures.style import BLUE, GREY, label, new_figure, plain, save
from trainwright.trainer.run.evaluation import Evaluation

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.training_monitor.record import RunRecord
    from trainwright.trainer.run.evaluation import Importance

MAX_INPUTS = 20
MAX_NAME = 44
"""Characters of a column's name, or of several that are permuted together."""


def importance(records: list[RunRecord], path: Path) -> Path:
    """Draw the worsening without each input, with its 95 % interval; grey where the interval reaches 0.

    Raises NotFoundError where the run recorded none.
    """
    (record,) = records
    evaluation = record.part(Evaluation)
    found = evaluation.importance
    if found is None or not found.columns:
        raise no_predictions(record, evaluation, "importance", "importance of a table's inputs")
    drawn = found.columns[:MAX_INPUTS]
    figure, axes = new_figure(1, 1, max(2.2, 1.0 + 0.24 * len(drawn)))
    panel = axes[0, 0]
    for place, one in enumerate(drawn):
        colour = BLUE if one.is_shown else GREY
        panel.barh(place, one.worsening, xerr=_errors(one), color=colour, alpha=0.75, ecolor="black", capsize=2)
    panel.set_yticks(range(len(drawn)), [plain(one.column, MAX_NAME) for one in drawn])
    panel.invert_yaxis()
    panel.axvline(0.0, color=GREY, linewidth=0.8)
    unit = "loss" if found.score == "loss" else found.score
    label(panel, "", f"{unit} lost when permuted on {found.rows} validation rows", "")
    left_out = found.left_out + len(found.columns) - len(drawn)
    more = f", {left_out} further ones not drawn" if left_out else ""
    return save(figure, f"{record.name}: importance of inputs (95 % interval){more}", path)


def _errors(one: Importance) -> list[list[float]] | None:
    if one.interval is None:
        return None
    return [[one.worsening - one.interval[0]], [one.interval[1] - one.worsening]]
