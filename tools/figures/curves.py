"""Learning curves: of one run in four panels, and several runs over one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from trainwright.tools.figures.series import (
    draw_epochs,
    draw_series,
    mark_best,
    mark_moments,
    mark_non_finite,
    steps_text,
)
from trainwright.tools.figures.style import (
    BLACK,
    BLUE,
    COLOURS,
    VERMILION,
    colours,
    label,
    new_figure,
    save,
    style_of,
    write_instead,
)
from trainwright.tools.training_monitor.record import (
    APPLIED_NORM,
    GRADIENT_NORM,
    LEARNING_RATE,
    OF_THE_LOSS,
    STEP_LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    Basis,
    RunRecord,
    basis_of,
    named_records,
)
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run import RunDirectory

MAX_METRICS = 4
"""Metrics in the panel of one run: each has two lines."""


def learning_curves(runs: Sequence[RunDirectory], path: Path, names: Mapping[str, str] | None = None) -> Path:
    """Draw loss, validation metrics, gradient norm and learning rate of a run, or an overlay of several, into a PNG.

    Args:
        names: handle by run id, which titles and legends show.

    Raises:
        IntegrityError: a run's record is damaged.
    """
    if len(runs) > 1:
        return comparison(runs, path, names=names)
    (record,) = named_records(runs, names)
    figure, axes = new_figure(2, 2)
    x, clips = steps_text(record), bool(record.buckets(APPLIED_NORM, 1))
    with record.metrics.reading():
        _losses(axes[0][0], record)
        _metrics(axes[0][1], record)
        draw_series(axes[1][0], record, GRADIENT_NORM, "norm before clipping" if clips else None, BLUE)
        draw_series(axes[1][0], record, APPLIED_NORM, "norm after clipping", VERMILION)
        draw_series(axes[1][1], record, LEARNING_RATE, None, BLUE, smooth=False)
        for panel in axes.flat:
            mark_moments(panel, record)
    label(axes[0][0], "Loss", "", "loss", log=True)
    label(axes[0][1], "Metrics", "", "value")
    label(axes[1][0], "Total gradient norm", x, "norm", log=True)
    label(axes[1][1], "Learning rate", x, "rate")
    for panel in axes[0]:
        panel.set_xlabel("")
    for panel in axes.flat:
        panel.set_xlim(left=0)
    return save(figure, f"{record.name} ({record.specification.kind}, {record.status.state})", path)


def _losses(axes: Axes, record: RunRecord) -> None:
    draw_series(axes, record, STEP_LOSS, "train loss, smoothed (raw behind)", BLUE)
    mark_non_finite(axes, record, STEP_LOSS)
    draw_epochs(axes, record, VALIDATION_LOSS, "validation loss", VERMILION, style="--")
    mark_best(axes, record, VALIDATION_LOSS, BLACK)


def _metrics(axes: Axes, record: RunRecord) -> None:
    recorded = record.metrics.keys()
    names = [key.removeprefix("validation/") for key in recorded if key.startswith("validation/")]
    names = [name for name in names if name != "loss"]
    chosen = (record.selection_key or "").removeprefix("validation/")
    names.sort(key=lambda name: name != chosen)
    for name, shade in zip(names[:MAX_METRICS], (BLUE, *COLOURS[2:]), strict=False):
        draw_epochs(axes, record, f"train/{name}", f"train {name}", shade)
        draw_epochs(axes, record, f"validation/{name}", f"validation {name}", shade, style="--")
    if record.selection_key not in {None, VALIDATION_LOSS, TRAIN_LOSS}:
        mark_best(axes, record, record.selection_key, BLACK)


def comparison(
    runs: Sequence[RunDirectory], path: Path, metric: str | None = None, names: Mapping[str, str] | None = None
) -> Path:
    """Overlay the validation loss and the selection metric of several runs, or one recorded key, in a PNG.

    Raises:
        NotFoundError: none of the runs recorded the metric.
        IntegrityError: a run's record is damaged.
    """
    records = named_records(runs, names)
    if metric is not None:
        return _single_metric(records, metric, path)
    figure, axes = new_figure(1, 2, 4.6)
    basis = basis_of(records)
    by_step = not any(record.by_epoch(key) for record in records for key in (TRAIN_LOSS, VALIDATION_LOSS))
    left, right = (STEP_LOSS, None) if by_step else (VALIDATION_LOSS, _second_key(records, basis))
    keys = [None if basis.refused and key in OF_THE_LOSS else key for key in (left, right)]
    for index, (record, colour) in enumerate(zip(records, colours(len(records)), strict=True)):
        name, style = f"{record.name} ({record.specification.kind})", style_of(index)
        with record.metrics.reading():
            for panel, key in zip(axes[0], keys, strict=True):
                if by_step and key is not None:
                    draw_series(panel, record, key, name, colour, style=style)
                elif key is not None:
                    draw_epochs(panel, record, key, name, colour, style=style, over_epochs=True)
                    mark_best(panel, record, key, colour, named=False, over_epochs=True)
    for panel, key, wanted in zip(axes[0], keys, (left, right), strict=True):
        if key is None and wanted is not None:
            write_instead(panel, f"losses are not compared:\nthe runs differ in\n{basis.refused}")
        _label_overlay(panel, wanted, "optimizer step" if by_step else "epoch")
    return save(figure, f"{len(records)} runs (rings: best epoch)", path)


def _second_key(records: Sequence[RunRecord], basis: Basis) -> str:
    """Return what the second panel overlays: a metric by which runs are chosen or compared, else the train loss."""
    chosen = [record.selection_key for record in records]
    return next((key for key in (*chosen, basis.key) if key is not None and key not in OF_THE_LOSS), TRAIN_LOSS)


def _label_overlay(panel: Axes, key: str | None, x: str) -> None:
    if key == STEP_LOSS:
        label(panel, "Train loss, smoothed", x, "loss", log=True)
        return
    split, _, name = (key or TRAIN_LOSS).partition("/")
    name = name.replace("_", " ")
    label(panel, f"{split.capitalize()} {name}", x, name, log=key in OF_THE_LOSS)


def _single_metric(records: Sequence[RunRecord], key: str, path: Path) -> Path:
    recorded = sorted(set().union(*(record.metrics.keys() for record in records)))
    if key not in recorded:
        near = [one for one in recorded if not one.startswith("layers/")]
        raise NotFoundError(
            f"None of these runs recorded {key[:80]!r}.", remedy=f"Use one of: {', '.join(near) or 'nothing yet'}."
        )
    figure, axes = new_figure(1, 1, 4.6)
    for index, (record, colour) in enumerate(zip(records, colours(len(records)), strict=True)):
        name = f"{record.name} ({record.specification.kind})"
        draw_series(axes[0][0], record, key, name, colour, style=style_of(index))
        if len(records) == 1:
            mark_moments(axes[0][0], record)
        mark_best(axes[0][0], record, key, colour, named=len(records) == 1)
    x = steps_text(records[0]) if len(records) == 1 else "optimizer step"
    label(axes[0][0], "", x, key.rpartition("/")[2].replace("_", " "), log=True)
    return save(figure, key if len(records) > 1 else f"{key} of {records[0].name}", path)
