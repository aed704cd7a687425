"""Calibration: how often a class that is given a probability is right; of numbers, predictions beside targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from trainwright.tools.figures.recorded import Predicted, no_predictions, predicted
from trainwright.tools.figures.style import (
    BLUE,
    GREY,
    VERMILION,
    colours,
    label,
    new_figure,
    plain,
    save,
)
from trainwright.tools.training_monitor.record import RunRecord

BINS = 15
"""Of equal width, as Guo et al. 2017 have them (arXiv:1706.04599)."""
MAX_TARGETS = 6
MIN_ROWS = 5
"""Of a bin that is drawn: a share of fewer rows says little."""


def calibration(records: list[RunRecord], path: Path) -> Path:
    """Draw the reliability of probabilities with the expected calibration error, or predictions over targets.

    Raises NotFoundError where the run has neither.
    """
    found = [predicted(record, "calibration", "predictions", "target", "prediction") for record in records]
    if all(one.evaluation.kind == "numbers" for one in found):
        return _of_numbers(found[0], path)
    for one in found:
        if one.evaluation.kind not in {"classes", "labels"}:
            raise no_predictions(one.record, one.evaluation, "calibration", "probabilities")
    figure, axes = new_figure(2, 1, 5.3, height_ratios=[3, 1], sharex=True)
    top, bottom = axes[:, 0]
    for one, colour in zip(found, colours(len(found)), strict=True):
        _reliability(top, bottom, one, colour, named=len(found) > 1)
    top.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.0, label="calibrated")
    label(top, "", "", "share that is right")
    top.set_xlabel("")
    label(bottom, "", _meaning(found[0]), "rows")
    return save(
        figure, f"Calibration: {found[0].title}" if len(found) == 1 else f"Calibration of {len(found)} runs", path
    )


def _meaning(one: Predicted) -> str:
    if one.evaluation.kind == "labels":
        return "probability of each label"
    return "probability of the predicted class"


def _confidence(one: Predicted) -> tuple[Any, Any]:
    """Return the probabilities, and whether each was right, both (rows,)."""
    arrays = one.arrays
    if one.evaluation.kind == "labels":
        return arrays["probability"].reshape(-1), arrays["target"].reshape(-1).astype(float)
    shares = arrays["confidence"] if "confidence" in arrays else arrays["probability"].max(axis=1)
    return shares, (arrays["prediction"] == arrays["target"]).astype(float)


def _reliability(top: Axes, bottom: Axes, one: Predicted, colour: str, *, named: bool) -> None:
    shares, right = _confidence(one)
    places = np.minimum((shares * BINS).astype(int), BINS - 1)
    counts = np.bincount(places, minlength=BINS)
    sums, hits = np.bincount(places, shares, BINS), np.bincount(places, right, BINS)
    error = float(np.abs(sums - hits).sum() / len(shares))
    drawn = counts >= min(MIN_ROWS, counts.max())
    name = f"{one.record.name}: " if named else ""
    text = plain(
        f"{name}expected calibration error {error:.3f}; {right.mean():.1%} right, {shares.mean():.1%} claimed", 110
    )
    top.plot(
        sums[drawn] / counts[drawn], hits[drawn] / counts[drawn], color=colour, marker="o", markersize=5, label=text
    )
    bottom.bar((np.arange(BINS) + 0.5) / BINS, counts, width=0.9 / BINS, color=colour, alpha=0.5 if named else 0.8)


def _of_numbers(one: Predicted, path: Path) -> Path:
    """Draw predictions over targets, and the distribution of the errors; of targets with a name, each by itself."""
    names = (one.evaluation.target_names or [])[:MAX_TARGETS]
    target, guessed = one.arrays["target"].astype(float), one.arrays["prediction"].astype(float)
    figure, axes = new_figure(len(names) or 1, 2, 4.6 * (len(names) or 1))
    for place, (left, right) in enumerate(axes):
        of = (slice(None), place) if names else ...
        name = plain(names[place], 24) if names else ""
        _draw_numbers(one, (left, right), target[of].reshape(-1), guessed[of].reshape(-1), name)
    left_out = len(one.evaluation.target_names or []) - len(names)
    return save(figure, one.title + (f", the first {len(names)} targets" if left_out else ""), path)


def _draw_numbers(one: Predicted, panels: tuple[Axes, Axes], flat: Any, flat_guessed: Any, name: str) -> None:
    """Draw predictions over a target, (rows,) each, into one panel, and the errors' distribution into another."""
    (left, right), of = panels, f"{name}: " if name else ""
    there = np.isfinite(flat) & np.isfinite(flat_guessed)
    flat, flat_guessed = flat[there], flat_guessed[there]
    if not len(flat):
        raise no_predictions(one.record, one.evaluation, "calibration", "finite predictions")
    left.scatter(flat, flat_guessed, s=9, color=BLUE, alpha=max(0.08, min(0.6, 300 / len(flat))), linewidths=0)
    both = np.concatenate([flat, flat_guessed])
    low, high = float(both.min()), float(both.max())
    left.plot([low, high], [low, high], color=GREY, linestyle=":", label="predicted = target")
    label(left, f"Predictions of {name}" if name else "Predictions", "target", "predicted")
    errors = flat_guessed - flat
    widest = max(float(np.abs(errors).max()), 1e-9 * max(abs(low), abs(high), 1.0))
    right.hist(errors, bins=np.linspace(-widest, widest, 42).tolist(), color=BLUE, alpha=0.75)
    right.axvline(0.0, color=GREY, linestyle=":")
    right.axvline(float(errors.mean()), color=VERMILION, linestyle="--", label=f"{of}mean error {errors.mean():.3g}")
    spread = f"{of or 'errors: '}deviation {errors.std():.3g}, 90 % within {np.quantile(np.abs(errors), 0.9):.3g}"
    label(right, "Errors", "predicted minus target (target's unit)", "predictions")
    right.plot([], [], linestyle="none", label=spread)
