"""Forest plot of an ablation study: each effect with its interval, beside no effect.

Source: Lewis and Clarke, "Forest Plots: Trying to See the Wood and the Trees", BMJ 322, 2001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.figures.style import (
    BLACK,
    BLUE,
    GREY,
    NORMAL,
    PAPER,
    SMALL,
    VERMILION,
    cut,
    label,
    new_figure,
    plain,
    save,
)

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

MOST_ROWS = 40
ROW_INCHES, FRAME_INCHES = 0.36, 1.6
LONGEST_NAME = 44


def forest_plot(results: dict[str, Any], path: Path) -> Path:
    """Draw the effects in their order, at most forty; wide whiskers hold for all comparisons together (Bonferroni)."""
    effects = results["effects"][:MOST_ROWS]
    figure, panels = new_figure(1, 1, FRAME_INCHES + ROW_INCHES * len(effects))
    axes = panels[0, 0]
    for row, effect in enumerate(effects):
        _row(axes, len(effects) - 1 - row, effect, results["direction"])
    axes.axvline(0.0, color=BLACK, linewidth=0.8)
    names = [plain(cut(_named(effect), LONGEST_NAME)) for effect in effects]
    axes.set_yticks(range(len(effects) - 1, -1, -1), names)
    axes.set_ylim(-0.7, len(effects) - 0.3)
    for own, colour in (("better", BLUE), ("worse", VERMILION), ("not told apart", GREY)):
        axes.plot([], [], "o", color=colour, label=own, markersize=4)
    axes.plot([], [], color=BLACK, linewidth=2.4, label="95 % interval")
    axes.plot([], [], color=BLACK, linewidth=0.8, label="95 % for all together")
    better = "higher" if results["direction"] == "maximize" else "lower"
    x = f"change of validation {results['metric']} ({better} is better)"
    label(axes, f"{len(results['seeds'])} seeds, paired", x, "", legend=False)
    axes.tick_params(axis="y", labelsize=SMALL, length=0)
    axes.grid(visible=False, axis="y")
    handles, texts = axes.get_legend_handles_labels()
    figure.legend(
        handles, texts, loc="outside lower center", ncols=5, fontsize=SMALL, edgecolor="none", handlelength=1.6,
        columnspacing=1.2,
    )  # fmt: skip
    return save(figure, f"Ablation study: effects on {results['metric']}", path)


def _row(axes: Axes, place: int, effect: dict[str, Any], direction: str) -> None:
    is_better = (effect["mean"] > 0) == (direction == "maximize")
    colour = GREY if not effect["differs"] else BLUE if is_better else VERMILION
    axes.plot([effect["low_all"], effect["high_all"]], [place, place], color=colour, linewidth=0.8)
    axes.plot([effect["low"], effect["high"]], [place, place], color=colour, linewidth=2.4, solid_capstyle="butt")
    axes.plot([effect["mean"]], [place], "o", color=colour, markersize=5, zorder=3)
    axes.annotate(
        f"{effect['mean']:+.3g}", (effect["mean"], place), xytext=(0, 5), textcoords="offset points", ha="center",
        fontsize=NORMAL - 1.5, color=colour, bbox=PAPER,
    )  # fmt: skip


def _named(effect: dict[str, Any]) -> str:
    aliases = effect.get("aliases")
    return f"{effect['effect']} (with {', '.join(aliases)})" if aliases else str(effect["effect"])
