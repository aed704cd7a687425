"""Plots of a validation: distributions by column, empty cells, classes, drift, as PNG. No global state, no display."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.report import Report
from trainwright.trainer.data.validation.sampling import counts, finite, with_dates
from trainwright.trainer.data.validation.values import kind_of

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, VERMILION, GREY = "#0072B2", "#E69F00", "#D55E00", "#666666"
"""Okabe & Ito (2008): distinguishable with every kind of colour vision."""
MOST_COLUMNS = 24
MOST_BARS = 12
BINS = 30
ACROSS = 3


def plots(context: Context, report: Report, found: pl.DataFrame, reference: pl.DataFrame | None) -> dict[str, bytes]:
    """Return the pictures by name.

    Args:
        found: a sample of the rows.
        reference: a sample of the reference's rows, drawn behind the others.
    """
    drawn = {"distributions": _distributions(context, found, reference), "empty_cells": _empty(report)}
    drawn["classes"] = _classes(report)
    if any(check.family == "drift" for check in report.checks):
        drawn["drift"] = _drift(report)
    return {name: picture for name, picture in drawn.items() if picture}


def _figure(rows: int, across: int, *, width: float = 4.0, height: float = 2.4) -> tuple[Figure, list[Axes]]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(across * width, rows * height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, across, squeeze=False)
    return figure, list(axes.flat)


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return buffer.getvalue()


def _plain(text: Any, most: int = 24) -> str:
    """Return a label that is drawn as it is: matplotlib would read a formula between two dollar signs."""
    shown = str(text).replace("$", r"\$").replace("\n", " ")
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _distributions(context: Context, found: pl.DataFrame, reference: pl.DataFrame | None) -> bytes:
    names = [name for name in found.columns if context.kinds.get(name) not in {None, "other", "embedding"}]
    names = names[:MOST_COLUMNS]
    if not names:
        return b""
    found, reference = with_dates(found), None if reference is None else with_dates(reference)
    figure, axes = _figure(-(-len(names) // ACROSS), ACROSS)
    for ax, name in zip(axes, names, strict=False):
        behind = reference[name] if reference is not None and name in reference.columns else None
        _column(ax, name, found[name], behind)
    for ax in axes[len(names) :]:
        ax.set_axis_off()
    if reference is not None:
        named = next((ax for ax in axes if ax.get_legend_handles_labels()[0]), None)
        if named is not None:
            named.legend(fontsize=7)
    return _png(figure)


def _column(ax: Axes, name: str, found: pl.Series, reference: pl.Series | None) -> None:
    kind = kind_of(found.dtype)
    if reference is not None and kind_of(reference.dtype) != kind:
        reference = None
    ax.set_title(_plain(name, 36), fontsize=9, loc="left")
    ax.tick_params(labelsize=7)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    import polars as pl

    different = found.n_unique()
    if kind == "text" and different > MOST_BARS * 4:
        found, kind = found.cast(pl.String).str.len_chars(), "integer"
        reference = None if reference is None else reference.cast(pl.String).str.len_chars()
        if found.n_unique() == 1:
            _say(ax, f"{different} different texts, each of {found[0]} characters")
            return
        ax.set_xlabel("characters", fontsize=7)
    if kind in {"text", "boolean"} or (kind == "integer" and different <= MOST_BARS):
        _bars(ax, found, reference)
    else:
        _histogram(ax, found, reference)


def _bars(ax: Axes, found: pl.Series, reference: pl.Series | None) -> None:
    seen = counts(found)
    names = list(seen)[:MOST_BARS]
    total, places = max(sum(seen.values()), 1), np.arange(len(names))
    ax.bar(places, [seen[name] / total for name in names], color=BLUE, width=0.6, label="now")
    if reference is not None:
        before = counts(reference)
        whole = max(sum(before.values()), 1)
        ax.plot(places, [before.get(name, 0) / whole for name in names], "_", color=VERMILION, markersize=14,
                markeredgewidth=2, label="reference")  # fmt: skip
    ax.set_xticks(places, [_plain(name, 10) for name in names], rotation=30 if len(names) > 4 else 0)
    ax.set_ylabel("share", fontsize=7)


def _histogram(ax: Axes, found: pl.Series, reference: pl.Series | None) -> None:
    values = finite(found)
    if not len(values):
        _say(ax, "no values")
        return
    behind = finite(reference) if reference is not None else None
    whole = values if behind is None else np.concatenate([values, behind])
    low, high = np.quantile(whole, [0.001, 0.999])
    edges = _edges(found, float(low), float(high))
    shares = np.histogram(values, edges)[0] / len(values)
    ax.bar(edges[:-1], shares, width=np.diff(edges), align="edge", color=BLUE, label="now")
    if behind is not None and len(behind):
        ax.stairs(
            np.histogram(behind, edges)[0] / len(behind), edges, color=VERMILION, linewidth=1.5, label="reference"
        )
    ax.set_ylabel("share", fontsize=7)
    if found.dtype.is_temporal():
        _dates(ax, found, low, high)


def _edges(found: pl.Series, low: float, high: float) -> np.ndarray[Any, Any]:
    """Return the bins' edges; whole numbers get as many of them each."""
    if found.dtype.is_integer() and high > low:
        width = -(-(int(high) - int(low) + 1) // BINS)
        return np.arange(int(low) - 0.5, int(high) + width + 0.5, width)
    return np.linspace(low, high if high > low else low + 1, BINS + 1)


def _say(ax: Axes, text: str) -> None:
    ax.set_axis_off()
    ax.text(0.5, 0.5, text, ha="center", va="center", fontsize=8, color=GREY, transform=ax.transAxes)


def _dates(ax: Axes, found: pl.Series, low: float, high: float) -> None:
    import polars as pl

    ticks = np.linspace(low, high, 4)
    physical = found.to_physical().dtype
    dates = pl.Series(ticks).cast(physical).cast(found.dtype)
    ax.set_xticks(ticks, [f"{day:%Y-%m-%d}" for day in dates.cast(pl.Datetime("us"))], rotation=20)


def _empty(report: Report) -> bytes:
    shares = {
        check.column: float(check.value or 0)
        for check in report.checks
        if check.name == "nulls" and check.column is not None
    }
    shown = dict(sorted(shares.items(), key=lambda pair: -pair[1])[:MOST_COLUMNS])
    if not shown:
        return b""
    figure, (ax,) = _figure(1, 1, width=7.0, height=0.8 + 0.24 * len(shown))
    places = np.arange(len(shown))
    ax.barh(places, [share * 100 for share in shown.values()], color=ORANGE, height=0.6)
    most = max(5.0, 120 * max(shown.values()))
    for place, share in enumerate(shown.values()):
        ax.text(share * 100 + most / 100, place, f"{share:.1%}", va="center", fontsize=7, color=GREY)
    ax.set_yticks(places, [_plain(name) for name in shown], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(0, most)
    ax.set_xlabel("empty cells (%)", fontsize=8)
    ax.tick_params(axis="x", labelsize=7)
    return _png(figure)


def _classes(report: Report) -> bytes:
    balance = next((check for check in report.checks if check.name == "balance"), None)
    if balance is None:
        return b""
    classes = dict(list(balance.details.get("classes", {}).items())[:MOST_COLUMNS])
    figure, (ax,) = _figure(1, 1, width=7.0, height=2.6)
    places = np.arange(len(classes))
    ax.bar(places, list(classes.values()), color=BLUE, width=0.6)
    for place, count in enumerate(classes.values()):
        ax.text(place, count, str(count), ha="center", va="bottom", fontsize=7, color=GREY)
    ax.set_xticks(places, [_plain(name, 14) for name in classes], fontsize=7, rotation=30 if len(classes) > 6 else 0)
    ax.set_ylabel("rows", fontsize=8)
    ax.tick_params(axis="y", labelsize=7)
    ax.margins(y=0.15)
    ax.set_title(f"classes of {_plain(balance.column)}", fontsize=9, loc="left")
    return _png(figure)


def _drift(report: Report) -> bytes:
    found = [check for check in report.checks if check.family == "drift" and isinstance(check.value, float | int)]
    ratios = {f"{check.place}": (float(check.value or 0), float(check.bound or 0)) for check in found}
    shown = dict(sorted(ratios.items(), key=lambda pair: -pair[1][0] / (pair[1][1] or 1e-9))[:MOST_COLUMNS])
    figure, (ax,) = _figure(1, 1, width=7.0, height=0.9 + 0.24 * len(shown))
    places = np.arange(len(shown))
    shares = [value / (bound or 1e-9) for value, bound in shown.values()]
    colours = [VERMILION if share > 1 else BLUE for share in shares]
    ax.barh(places, np.minimum(shares, 5), color=colours, height=0.6)
    ax.axvline(1.0, color=GREY, linewidth=1, linestyle="--")
    for place, (share, (value, bound)) in enumerate(zip(shares, shown.values(), strict=True)):
        ax.text(min(share, 5) + 0.03, place, f"{value:.3g} of {bound:g}", va="center", fontsize=7, color=GREY)
    ax.set_yticks(places, [_plain(name, 36) for name in shown], fontsize=7)
    ax.invert_yaxis()
    ax.set_xlim(0, min(max([*shares, 1.0]), 5) * 1.25)
    ax.set_xlabel("distance over its bound (beyond the dashed line: drift)", fontsize=8)
    ax.tick_params(axis="x", labelsize=7)
    return _png(figure)
