"""Figures of recorded runs as PNG files. Matplotlib by its object interface: no global state, no display.

Large series are read in buckets, so a million points draw as fast as a thousand.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_monitor.record import (
    GRADIENT_NORM,
    LEARNING_RATE,
    STEP_LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    RunRecord,
)
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.base.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trainwright.trainer.run import RunDirectory

BUCKETS = 200
"""Points drawn of a series: more cannot be distinguished at this width."""
# Okabe & Ito (2008), "Color Universal Design": distinguishable with every kind of colour vision.
BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, BLACK = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000",
)  # fmt: skip
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
GREY = "#666666"
PAPER = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
NORM_SIGNALS = ("gradient_norm", "applied_gradient_norm")
LARGEST = 1e100
"""Values beyond it (a run on its way to infinity) would leave the rest of the curve a flat line at zero."""
LONGEST_LABEL = 80
LOG_RATIO = 30.0
"""A positive quantity whose values span more than this factor is drawn on a logarithmic axis."""


def learning_curves(runs: Sequence[RunDirectory], path: Path) -> Path:
    """Draw loss, validation metrics, gradient norm and learning rate of one or several runs into a PNG.

    Raises:
        IntegrityError: a run's record is damaged.
    """
    records = [RunRecord(run) for run in runs]
    figure, axes = _figure(2, 2)
    many = len(records) > 1
    for record, colour in zip(records, _cycle(len(records)), strict=True):
        name = f"{record.run.run_id} " if many else ""
        _draw_metrics(axes[0][1], record, name, colour if many else None)
        _draw_steps(axes[1][0], record, GRADIENT_NORM, name or "gradient norm", colour if many else BLUE)
        _draw_steps(axes[1][1], record, LEARNING_RATE, name or "learning rate", colour if many else BLUE)
    _draw_losses(axes[0][0], records)
    _label(axes[0][1], "Metrics", "epoch", "value")
    _label(axes[1][0], "Total gradient norm before clipping", "optimizer step", "norm", log=True)
    _label(axes[1][1], "Learning rate", "optimizer step", "learning rate")
    return _save(figure, _title("Learning curves", records), path)


def gradient_health(run: RunDirectory, path: Path) -> Path:
    """Draw the gradient norm over the steps with its range and limits, and its distribution, into a PNG.

    Raises:
        IntegrityError: the run's record is damaged.
    """
    record = RunRecord(run)
    figure, axes = _figure(1, 2)
    _draw_steps(axes[0][0], record, GRADIENT_NORM, "mean (shaded: lowest to highest)", BLUE)
    for value, name in _gradient_limits():
        axes[0][0].axhline(value, color=GREY, linestyle=":", linewidth=1.2)
        axes[0][0].annotate(name, (0.01, value), xycoords=("axes fraction", "data"), xytext=(0, 3),
                            textcoords="offset points", fontsize=8, color=GREY)  # fmt: skip
    _mark_non_finite(axes[0][0], record, GRADIENT_NORM)
    _label(axes[0][0], "Total gradient norm before clipping", "optimizer step", "norm")
    if min(_drawn_values(axes[0][0]), default=1.0) > 0:
        _make_logarithmic(axes[0][0])
    _draw_distribution(axes[0][1], record)
    return _save(figure, _title("Gradient health", [record]), path)


def comparison(runs: Sequence[RunDirectory], path: Path, metric: str | None = None) -> Path:
    """Overlay the validation loss and the selection metric of several runs, or one recorded key, in a PNG.

    Raises:
        NotFoundError: none of the runs recorded the metric.
        IntegrityError: a run's record is damaged.
    """
    if metric is not None:
        return _single_metric([RunRecord(run) for run in runs], metric, path)
    records = [RunRecord(run) for run in runs]
    figure, axes = _figure(1, 2)
    shared = next(
        (r.selection_key for r in records if r.selection_key not in {None, VALIDATION_LOSS, TRAIN_LOSS}), None
    )
    for index, (record, colour) in enumerate(zip(records, _cycle(len(records)), strict=True)):
        name = f"{record.run.run_id} ({record.specification.kind})"
        style = ("-", "--", "-.", ":")[index // len(COLOURS) % 4]
        _draw_epochs(axes[0][0], record, VALIDATION_LOSS, name, colour, style=style)
        key = shared or TRAIN_LOSS
        _draw_epochs(axes[0][1], record, key, name, colour, style=style)
        _mark_best(axes[0][1 if key == record.selection_key else 0], record, record.selection_key, colour)
    _label(axes[0][0], "Validation loss", "epoch", "loss", log=True)
    split, _, name = (shared or "train/loss").partition("/")
    _label(axes[0][1], f"{split.capitalize()} {name}", "epoch", name, log=shared is None)
    return _save(figure, f"Comparison of {len(records)} runs (circles: best epoch)", path)


def _single_metric(records: Sequence[RunRecord], key: str, path: Path) -> Path:
    recorded = sorted(set().union(*(record.metrics.keys() for record in records)))
    if key not in recorded:
        raise NotFoundError(
            f"None of these runs recorded {key[:80]!r}.", remedy=f"Use one of: {', '.join(recorded) or 'nothing yet'}."
        )
    figure, axes = _figure(1, 1)
    for record, colour in zip(records, _cycle(len(records)), strict=True):
        _draw_steps(axes[0][0], record, key, f"{record.run.run_id} ({record.specification.kind})", colour)
    _label(axes[0][0], key, "optimizer step", key.rpartition("/")[2].replace("_", " "), log=True)
    return _save(figure, _title(key, records), path)


def plain(label: str) -> str:
    """Text of a label that is drawn as it is: matplotlib would read a formula between two dollar signs."""
    return one_line(label, LONGEST_LABEL).replace("$", r"\$")


def _figure(rows: int, columns: int) -> tuple[Figure, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 8) if rows > 1 else (12, 5), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False)


def _save(figure: Figure, title: str, path: Path) -> Path:
    figure.suptitle(plain(title), fontsize=13, fontweight="bold")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
    return path


def _title(what: str, records: Sequence[RunRecord]) -> str:
    if len(records) != 1:
        return f"{what} of {len(records)} runs"
    record = records[0]
    return f"{what}: {record.run.run_id} ({record.specification.kind}, {record.status.state})"


def _cycle(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]


def _draw_losses(axes: Axes, records: Sequence[RunRecord]) -> None:
    """Epoch losses; step losses where no run finished an epoch."""
    many = len(records) > 1
    by_step = not any(record.by_epoch(key) for record in records for key in (TRAIN_LOSS, VALIDATION_LOSS))
    for record, colour in zip(records, _cycle(len(records)), strict=True):
        name = f"{record.run.run_id} " if many else ""
        if by_step:
            _draw_steps(axes, record, STEP_LOSS, f"{name}train", colour)
            _mark_non_finite(axes, record, STEP_LOSS)
            continue
        _draw_epochs(axes, record, TRAIN_LOSS, f"{name}train", colour)
        other = colour if many else VERMILION
        _draw_epochs(axes, record, VALIDATION_LOSS, f"{name}validation", other, style="--")
        if not many and record.best and record.best.epoch is not None:
            axes.axvline(record.best.epoch, color=GREY, linestyle=":", label=f"best epoch ({record.best.epoch})")
    _label(axes, "Loss", "optimizer step" if by_step else "epoch", "loss", log=True)


def _mark_non_finite(axes: Axes, record: RunRecord, key: str) -> None:
    broken = [point.step for point in record.non_finite(key)]
    if broken:
        label = f"not finite at step {broken[0]}" + (f" and {len(broken) - 1} more" if len(broken) > 1 else "")
        axes.axvline(broken[0], color=VERMILION, linestyle="--", label=label)


def _draw_metrics(axes: Axes, record: RunRecord, name: str, colour: str | None) -> None:
    recorded = record.metrics.keys()
    names = [key.removeprefix("validation/") for key in recorded if key.startswith("validation/")]
    for index, metric in enumerate([metric for metric in names if metric != "loss"][: len(COLOURS)]):
        shade = colour or COLOURS[index]
        if colour is None:
            _draw_epochs(axes, record, f"train/{metric}", f"train {metric}", shade)
        _draw_epochs(axes, record, f"validation/{metric}", f"{name}validation {metric}", shade, style="--")
    if record.selection_key not in {None, VALIDATION_LOSS, TRAIN_LOSS}:
        _mark_best(axes, record, record.selection_key, colour or BLACK)


def _mark_best(axes: Axes, record: RunRecord, key: str | None, colour: str) -> None:
    if key is None or record.best is None or not _is_drawable(record.best.value):
        return
    axes.plot([record.best.epoch or 0], [record.best.value], marker="o", markersize=11, markerfacecolor="none",
              markeredgecolor=colour, markeredgewidth=1.8, linestyle="none")  # fmt: skip
    axes.annotate(f"{record.best.value:.4g}", (record.best.epoch or 0, record.best.value), xytext=(0, 9),
                  textcoords="offset points", ha="center", fontsize=8, color=colour, bbox=PAPER)  # fmt: skip


def _draw_epochs(axes: Axes, record: RunRecord, key: str, label: str, colour: str, *, style: str = "-") -> None:
    samples = [sample for sample in record.by_epoch(key) if _is_drawable(sample.value)]
    if len(samples) > BUCKETS:
        samples = samples[:: math.ceil(len(samples) / BUCKETS)]
    if samples:
        dots = "o" if len(samples) == 1 or (style == "--" and len(samples) <= 60) else None
        axes.plot([s.epoch or 0 for s in samples], [s.value for s in samples], color=colour, label=plain(label),
                  linestyle=style, linewidth=1.8, marker=dots, markersize=3.5)  # fmt: skip


def _draw_steps(axes: Axes, record: RunRecord, key: str, label: str, colour: str) -> None:
    """Bucket means as a line, lowest to highest as a band."""
    buckets = [b for b in record.buckets(key, BUCKETS) if all(_is_drawable(value) for value in b)]
    if not buckets:
        return
    steps, means, lows, highs = (list(column) for column in zip(*buckets, strict=True))
    axes.plot(steps, means, color=colour, linewidth=1.4, label=plain(label), marker="o" if len(steps) == 1 else None)
    if any(high > low for low, high in zip(lows, highs, strict=True)):
        axes.fill_between(steps, lows, highs, color=colour, alpha=0.2, linewidth=0)


def _draw_distribution(axes: Axes, record: RunRecord) -> None:
    norms = [value for _, value, _, _ in record.buckets(GRADIENT_NORM, 2000) if 0 < value < LARGEST]
    if norms:
        low, high = math.log10(min(norms)), math.log10(max(norms))
        edges = [10 ** (low + (high - low + 0.1) * i / 40) for i in range(41)]
        axes.hist(norms, bins=edges, color=BLUE, alpha=0.75)
        middle = sorted(norms)[len(norms) // 2]
        axes.axvline(middle, color=VERMILION, linestyle="--", label=f"median {middle:.3g}")
        axes.set_xscale("log")
    _label(axes, "Distribution", "norm", "steps (means of buckets in long runs)")


def _gradient_limits() -> list[tuple[float, str]]:
    from trainwright.tools.training_monitor.documents import load_diagnostics

    triggers = {d.title.lower(): t for d in load_diagnostics() for t in d.triggers if t.signal in NORM_SIGNALS}
    return [(t.threshold, f"{title}: {t.comparison} {t.threshold:g}") for title, t in triggers.items()]


def _label(axes: Axes, title: str, x: str, y: str, *, log: bool = False) -> None:
    axes.set_title(plain(title), fontsize=11, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(plain(y))
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    values = _drawn_values(axes)
    if not values and not axes.patches:
        axes.text(0.5, 0.5, "not recorded", transform=axes.transAxes, ha="center", va="center", color=GREY)
    elif log and values and min(values) > 0 and max(values) / min(values) > LOG_RATIO:
        _make_logarithmic(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="best", framealpha=0.8, edgecolor="none")
    if x == "epoch":
        from matplotlib.ticker import MaxNLocator

        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _is_drawable(value: float) -> bool:
    return abs(value) <= LARGEST  # false for NaN


def _drawn_values(axes: Axes) -> list[float]:
    """The y values of the curves; guide lines across the axes are drawn in other coordinates and left out."""
    curves = [line for line in axes.get_lines() if line.get_transform() == axes.transData]
    return [float(value) for line in curves for value in line.get_ydata()]  # type: ignore[union-attr, arg-type]


def _make_logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.set_ylabel(f"{axes.get_ylabel()} (log scale)")
