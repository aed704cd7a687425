"""Worst samples of a run: the validation rows with the largest losses, as pictures where they are, else as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.recorded import Predicted, predicted
from trainwright.tools.figures.style import GREY, NORMAL, SMALL, VERMILION, new_figure, plain, save

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.training_monitor.record import RunRecord
    from trainwright.trainer.run.evaluation import ShownRow

COLUMNS = 8
MOST_ROWS = 14
MOST_CELLS = 4
LONGEST_CELL = 14


def worst_samples(records: list[RunRecord], path: Path) -> Path:
    """Draw the worst validation rows: loss, label, prediction, and what they look like.

    Raises NotFoundError where the run recorded none.
    """
    (record,) = records
    found = predicted(record, "worst_samples", "evaluated rows", "loss")
    if "worst_images" in found.arrays:
        return _pictures(found, path)
    return _table(found, path)


def _pictures(found: Predicted, path: Path) -> Path:
    images, rows = found.arrays["worst_images"], found.evaluation.worst
    down = -(-len(images) // COLUMNS)
    figure, axes = new_figure(down, COLUMNS, 0.7 + 1.5 * down)
    for panel in axes.flat:
        panel.axis("off")
    for panel, image, row in zip(axes.flat, images, rows, strict=False):
        panel.imshow(image.squeeze(-1) if image.shape[-1] == 1 else image, cmap="gray", interpolation="nearest")
        is_wrong = row.prediction is not None and row.prediction != row.target
        panel.set_title(
            f"{plain(_text(row.target))} → {plain(_text(row.prediction))}\nloss {row.loss:.3g}", fontsize=SMALL,
            color=VERMILION if is_wrong else "black",
        )  # fmt: skip
        panel.text(
            0.5, -0.06, _where(row), transform=panel.transAxes, ha="center", va="top", fontsize=SMALL - 1, color=GREY
        )
    return save(figure, f"Worst of {found.title} (label → predicted)", path)


def _where(row: ShownRow) -> str:
    return f"row {row.row}" if row.source_row is None else f"source row {row.source_row}"


def _table(found: Predicted, path: Path) -> Path:
    rows = found.evaluation.worst[:MOST_ROWS]
    columns = list(dict.fromkeys(name for row in rows for name in row.inputs))[:MOST_CELLS]
    is_known = rows[0].source_row is not None
    head = ["source row" if is_known else "row", "loss"]
    head += ["label", "predicted"] if rows[0].target is not None else []
    head += ["probability"] if rows[0].probability is not None else []
    cells = [_cells(row, is_known=is_known) + [_text(row.inputs.get(name)) for name in columns] for row in rows]
    figure, axes = new_figure(1, 1, 1.1 + 0.26 * len(rows))
    panel = axes[0][0]
    panel.axis("off")
    names = [*head, *columns]
    table = panel.table(
        [[plain(cell, LONGEST_CELL) for cell in row] for row in cells], colLabels=[plain(n, 18) for n in names],
        loc="center", cellLoc="right", bbox=[0, 0, 1, 1],
    )  # fmt: skip
    table.auto_set_font_size(False)
    table.set_fontsize(SMALL if len(names) > 6 else NORMAL)
    table.auto_set_column_width(list(range(len(names))))
    for (down, _), cell in table.get_celld().items():
        cell.set_linewidth(0.3)
        cell.set_edgecolor("#bbbbbb")
        if down == 0:
            cell.set_text_props(fontweight="bold")
            cell.set_facecolor("#eeeeee")
    return save(figure, f"Worst of {found.title}, by {found.evaluation.loss}", path)


def _cells(row: ShownRow, *, is_known: bool) -> list[str]:
    found = [str(row.source_row if is_known else row.row), f"{row.loss:.4g}"]
    found += [_text(row.target), _text(row.prediction)] if row.target is not None else []
    return found + ([f"{row.probability:.3f}"] if row.probability is not None else [])


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(f"{one:.3g}" for one in value[:3]) + ("…" if len(value) > 3 else "")
    return f"{value:.4g}" if isinstance(value, float) else str(value)
