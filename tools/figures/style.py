"""Look of every figure: size, colours, labels, legends. Matplotlib's objects alone: no global state, no display.

A picture is shown at about 800 by 500 in a chat, so texts are sized for that width.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe & Ito (2008), "Color Universal Design": distinguishable with every kind of colour vision.
BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000",
)  # fmt: skip
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
STYLES = ("-", "--", "-.", ":")
GREY = "#666666"
PAPER = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
WIDTH_INCHES, DOTS_PER_INCH = 8.0, 150
SMALL, NORMAL, LARGE = 7.5, 8.5, 10.5
"""Sizes of text in points, at 100 dots an inch as shown."""
LARGEST = 1e100
"""Values beyond it (a run on its way to infinity) would leave the rest of the curve a flat line at zero."""
LONGEST_LABEL = 110
LONGEST_TITLE = 82
"""Characters of a title that one line of this width holds."""
LOG_RATIO = 30.0
"""A positive quantity whose values span more than this factor is drawn on a logarithmic axis."""
MAX_LEGEND = 12


def plain(label: str, longest: int = LONGEST_LABEL) -> str:
    """Text of a label that is drawn as it is: matplotlib would read a formula between two dollar signs."""
    return one_line(label, longest).replace("$", r"\$")


def new_figure(rows: int, columns: int, height_inches: float | None = None, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure and its panels, (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    height = height_inches or (WIDTH_INCHES * 2 / 3 if rows > 1 else WIDTH_INCHES / 2)
    figure = Figure(figsize=(WIDTH_INCHES, height), dpi=DOTS_PER_INCH, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, columns, squeeze=False, **grid)
    for panel in panels.flat:
        panel.tick_params(labelsize=SMALL)
    return figure, panels


def save(figure: Figure, title: str, path: Path) -> Path:
    """Write the figure with its legend as PNG, or as the path's suffix says, under its title in one line or two."""
    text = one_line(title, 2 * LONGEST_TITLE - 16)
    width = LONGEST_TITLE if len(text) <= LONGEST_TITLE else len(text) // 2 + 8  # two lines of about one length
    lines = textwrap.wrap(text, width, max_lines=2, placeholder=" …")
    figure.suptitle("\n".join(map(plain, lines)), fontsize=LARGE, fontweight="bold")
    _legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    return path


def colours(count: int) -> list[str]:
    """Return a colour for each of `count` series; they repeat after seven."""
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def style_of(index: int) -> str:
    """Return the line style that tells series of one colour apart."""
    return STYLES[index // len(COLOURS) % len(STYLES)]


def label(axes: Axes, title: str, x: str, y: str, *, log: bool = False) -> None:
    """Label a panel; `log` where a positive quantity spans a wide range."""
    axes.set_title(plain(title), fontsize=NORMAL + 0.5, loc="left")
    axes.set_xlabel(plain(x), fontsize=NORMAL)
    axes.set_ylabel(plain(y), fontsize=NORMAL)
    axes.grid(visible=True, alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    values = drawn_values(axes)
    if not values and not any((axes.patches, axes.collections, axes.images, axes.texts)):
        write_instead(axes, "not recorded")
    elif log and values and min(values) > 0 and max(values) / min(values) > LOG_RATIO:
        make_logarithmic(axes)
    _count_in_thousands(axes)


def write_instead(axes: Axes, text: str) -> None:
    """Write into an empty panel why nothing is drawn."""
    lines = [line for part in text.split("\n") for line in textwrap.wrap(part, 44)]
    axes.text(
        0.5, 0.5, "\n".join(map(plain, lines)), transform=axes.transAxes, ha="center", va="center", color=GREY,
        fontsize=NORMAL,
    )  # fmt: skip


def _count_in_thousands(axes: Axes) -> None:
    """Write counted steps as 20k, which fits, where the axis is one of counts."""
    if not {"step", "epoch"} & set(axes.get_xlabel().split()):
        return
    from matplotlib.ticker import EngFormatter, MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    if axes.get_xlim()[1] >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _legend(figure: Figure) -> None:
    """Draw one legend of all panels below the figure, each label once."""
    found: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, text in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(text, handle)
    if not found:
        return
    names, handles = list(found), list(found.values())
    if len(found) > MAX_LEGEND:
        from matplotlib.lines import Line2D

        names = [*names[: MAX_LEGEND - 1], f"… and {len(found) - MAX_LEGEND + 1} more"]
        handles = [*handles[: MAX_LEGEND - 1], Line2D([], [], linestyle="none")]
    longest = max(map(len, names))
    figure.legend(
        handles, names, loc="outside lower center", fontsize=SMALL, edgecolor="none",
        ncols=1 if longest > 60 else 2 if longest > 34 else 3, handlelength=2.2, columnspacing=1.4, labelspacing=0.35,
    )  # fmt: skip


def is_drawable(value: float) -> bool:
    """Return whether a value has a place on an axis; NaN has none."""
    return abs(value) <= LARGEST


def drawn_values(axes: Axes) -> list[float]:
    """The y values of the curves; guide lines across the axes are drawn in other coordinates and left out."""
    curves = [line for line in axes.get_lines() if line.get_transform() == axes.transData]
    found = [float(value) for line in curves for value in line.get_ydata()]  # type: ignore[union-attr, arg-type]
    return [value for value in found if math.isfinite(value)]


def make_logarithmic(axes: Axes) -> None:
    """Make the y axis logarithmic, and say so."""
    axes.set_yscale("log")
    axes.set_ylabel(f"{axes.get_ylabel()} (log scale)")


def cut(text: str, longest: int) -> str:
    """Return a text of bounded length; of a longer one both ends, for names often differ in their last letters."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[head + 1 - longest :]}"


def shown_number(value: float) -> str:
    """Return a number with four significant digits."""
    return f"{value:.4g}"


def middle(values: Sequence[float]) -> float:
    """Return the upper median of some values."""
    return sorted(values)[len(values) // 2]
