"""Confusion matrix of a run's validation rows: shares of each class, and the pairs that are confused most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.recorded import no_predictions
from trainwright.tools.figures.style import NORMAL, SMALL, cut, label, new_figure, plain, save
from trainwright.trainer.run.evaluation import Evaluation

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from trainwright.tools.training_monitor.record import RunRecord

MOST_WRITTEN = 12
"""Classes up to which every cell has its count."""
MOST_NAMED = 32
MOST_PAIRS = 12


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
    if size <= MOST_WRITTEN:
        for down, row in enumerate(counts):
            for across, count in enumerate(row):
                ink = "black" if shares[down][across] > 0.55 else "white"
                axes.text(across, down, str(count), ha="center", va="center", color=ink, fontsize=NORMAL)
    label(axes, "Share of each class (numbers: rows)" if size <= MOST_WRITTEN else "Share of each class", "predicted",
          "label")  # fmt: skip
    axes.grid(visible=False)
    if size <= MOST_NAMED:
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
    for count, down, across in pairs[:MOST_PAIRS]:
        share = count / max(sum(counts[down]), 1)
        lines.append(
            f"{count} of {sum(counts[down])}:  {cut(names[down], 13)} → {cut(names[across], 13)}  ({share:.0%})"
        )
    if not pairs:
        lines.append("none: every row is right")
    if len(pairs) > MOST_PAIRS:
        rest = sum(count for count, _, _ in pairs[MOST_PAIRS:])
        lines.append(f"{rest} rows in {len(pairs) - MOST_PAIRS} more pairs")
    recalls = [(row[place] / sum(row), place) for place, row in enumerate(counts) if sum(row)]
    lines += ["", "Classes found least (share of label)", ""]
    lines += [f"{share:>5.0%}  {cut(names[place], 24)}" for share, place in sorted(recalls)[:5]]
    axes.text(0.0, 0.98, "\n".join(map(plain, lines)), va="top", fontsize=SMALL, transform=axes.transAxes,
              linespacing=1.45)  # fmt: skip
