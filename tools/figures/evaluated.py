"""Pictures of a run's evaluated rows: confusion of classes, worst rows, and importance of a table's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from trainwright.tools.figures.forecasts import worst_windows
from trainwright.tools.figures.masks import draw_masks
from trainwright.tools.figures.recorded import Predicted, no_predictions, predicted
from trainwright.tools.figures.style import BLUE, GREY, NORMAL, SMALL, VERMILION, cut, label, new_figure, plain, save
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.run.evaluation import Evaluation, Importance, ShownRow

MAX_WRITTEN = 12
"""Classes up to which every cell has its count."""
MAX_NAMED = 32
MAX_PAIRS = 12


def confusion(records: list[RunRecord], path: Path) -> Path:
    """Draw the confusion matrix, each row as shares of the class, beside the most confused pairs.

    Raises NotFoundError where the run has none.
    """
    (record,) = records
    found = record.part(Evaluation)
    if found.confusion is None:
        raise no_predictions(record, found, "confusion", "confusion matrix")
    counts = found.confusion
    names = [found.class_name(number) for number in range(len(counts))]
    figure, axes = new_figure(1, 2, 5.3, width_ratios=[5, 3])
    _draw_matrix(figure, axes[0][0], counts, names)
    _write_pairs(axes[0][1], counts, names)
    unit = "places" if found.kind == "places" else "rows"
    right = sum(row[place] for place, row in enumerate(counts))
    total = sum(map(sum, counts))
    title = f"{record.name}: {right} of {total} validation {unit} right, epoch {found.epoch}"
    return save(figure, title, path)


def _draw_matrix(figure: Any, axes: Axes, counts: list[list[int]], names: list[str]) -> None:
    sums = [max(sum(row), 1) for row in counts]
    shares = [[count / total for count in row] for row, total in zip(counts, sums, strict=True)]
    shade = axes.imshow(shares, cmap="cividis", vmin=0.0, vmax=1.0)
    size = len(counts)
    if size <= MAX_WRITTEN:
        for down, row in enumerate(counts):
            for across, count in enumerate(row):
                ink = "black" if shares[down][across] > 0.55 else "white"
                axes.text(across, down, str(count), ha="center", va="center", color=ink, fontsize=NORMAL)
    label(axes, "Share of each class (numbers: rows)" if size <= MAX_WRITTEN else "Share of each class", "predicted",
          "label")  # fmt: skip
    axes.grid(visible=False)
    if size <= MAX_NAMED:
        shown = [plain(cut(name, 13)) for name in names]
        axes.set_yticks(range(size), shown, fontsize=SMALL if size <= 20 else SMALL - 1.5)
        longest = max(map(len, shown))
        upright = longest > 2 and (size > 6 or longest > 6)
        axes.set_xticks(range(size), shown, fontsize=SMALL if size <= 20 else SMALL - 1.5, rotation=90 * upright)
    figure.colorbar(shade, ax=axes, shrink=0.7, aspect=30, pad=0.02).ax.tick_params(labelsize=SMALL)


def _write_pairs(axes: Axes, counts: list[list[int]], names: list[str]) -> None:
    pairs = sorted(
        ((count, down, across) for down, row in enumerate(counts) for across, count in enumerate(row)
         if count and down != across),
        key=lambda one: -one[0],
    )  # fmt: skip
    axes.axis("off")
    lines = ["Confused most (label → predicted)", ""]
    for count, down, across in pairs[:MAX_PAIRS]:
        share = count / max(sum(counts[down]), 1)
        lines.append(
            f"{count} of {sum(counts[down])}:  {cut(names[down], 13)} → {cut(names[across], 13)}  ({share:.0%})"
        )
    if not pairs:
        lines.append("none: every row is right")
    if len(pairs) > MAX_PAIRS:
        rest = sum(count for count, _, _ in pairs[MAX_PAIRS:])
        lines.append(f"{rest} rows in {len(pairs) - MAX_PAIRS} more pairs")
    recalls = [(row[place] / sum(row), place) for place, row in enumerate(counts) if sum(row)]
    lines += ["", "Classes found least (share of label)", ""]
    lines += [f"{share:>5.0%}  {cut(names[place], 24)}" for share, place in sorted(recalls)[:5]]
    axes.text(0.0, 0.98, "\n".join(map(plain, lines)), va="top", fontsize=SMALL, transform=axes.transAxes,
              linespacing=1.45)  # fmt: skip


# The validation rows with the largest losses, as pictures where they are, else as a table.

COLUMNS = 8
MAX_ROWS = 14
MAX_CELLS = 4
LONGEST_CELL = 14


def worst_samples(records: list[RunRecord], path: Path) -> Path:
    """Draw the worst validation rows: loss, label, prediction, and what they look like; windows as forecasts.

    Raises NotFoundError where the run recorded none.
    """
    (record,) = records
    found = predicted(record, "worst_samples", "evaluated rows", "loss")
    if found.evaluation.forecasts is not None:
        return worst_windows(found, path)
    if "worst_targets" in found.arrays:
        return draw_masks(found, path)
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
    rows = found.evaluation.worst[:MAX_ROWS]
    columns = list(dict.fromkeys(name for row in rows for name in row.inputs))[:MAX_CELLS]
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


# Importance of inputs: how much worse a run is when their cells are permuted among the validation rows.

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
    label(panel, "", f"{unit} lost when permuted on {found.rows_text}", "")
    left_out = found.left_out + len(found.columns) - len(drawn)
    more = f", {left_out} further ones not drawn" if left_out else ""
    return save(figure, f"{record.name}: importance of inputs (95 % interval){more}", path)


def _errors(one: Importance) -> list[list[float]] | None:
    if one.interval is None:
        return None
    return [[one.worsening - one.interval[0]], [one.interval[1] - one.worsening]]
