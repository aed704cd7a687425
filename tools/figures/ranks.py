"""Curves of ranked rows: ROC and precision against recall, of two classes, or of each class against the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainwright.tools.figures.recorded import Predicted, predicted
from trainwright.tools.figures.style import GREY, colours, label, new_figure, plain, save, style_of
from trainwright.tools.training_monitor.record import RunRecord

MAX_CLASSES = 7
"""Curves of one run: of more classes, those with the lowest areas."""
MAX_POINTS = 500


class Ranked(NamedTuple):
    """One curve."""

    name: str
    x: Any
    y: Any
    area: float
    share: float
    """Of positive rows: what precision is by chance."""


def roc(records: list[RunRecord], path: Path) -> Path:
    """Draw ROC curves with the areas under them. Raises NotFoundError without probabilities."""
    return _drawn(records, path, "roc", _roc)


def precision_recall(records: list[RunRecord], path: Path) -> Path:
    """Draw precision against recall, with average precisions. Raises NotFoundError without probabilities."""
    return _drawn(records, path, "precision_recall", _precision_recall)


def _drawn(
    records: list[RunRecord], path: Path, kind: str, curve: Callable[[Any, Any], tuple[Any, Any, float]]
) -> Path:
    figure, axes = new_figure(1, 1, 5.3)
    panel = axes[0][0]
    found = [predicted(record, kind, "probabilities", "probability", "target") for record in records]
    several = len(found) > 1
    lines = [(one, ranked) for one in found for ranked in _curves(one, curve, of_each=not several)]
    for index, ((one, ranked), colour) in enumerate(zip(lines, colours(len(lines)), strict=True)):
        positive = "" if several else f", {ranked.share:.0%} positive"
        name = one.record.name if several else ranked.name
        text = plain(f"{name} (area {ranked.area:.3f}{positive})", 70)
        panel.plot(ranked.x, ranked.y, color=colour, linestyle=style_of(index), linewidth=1.5, label=text)
        if kind == "precision_recall" and (several or len(lines) == 1):
            panel.axhline(ranked.share, color=colour, linestyle=":", linewidth=0.9)
    if kind == "roc":
        panel.plot([0, 1], [0, 1], color=GREY, linestyle=":", linewidth=1.0, label="chance")
        label(panel, "", "false positive rate", "true positive rate (recall)")
    else:
        label(panel, "", "recall", "precision")
    panel.set_xlim(-0.01, 1.01)
    panel.set_ylim(-0.01, 1.03)
    panel.set_aspect("equal" if kind == "roc" else "auto")
    what = "ROC" if kind == "roc" else "Precision and recall"
    left_out = "" if several else _left_out(found[0])
    title = f"{what}: {found[0].title}" if not several else f"{what} of {len(found)} runs, mean over classes"
    return save(figure, title + left_out, path)


def _left_out(one: Predicted) -> str:
    count = one.arrays["probability"].shape[1]
    return f" ({MAX_CLASSES} weakest of {count} classes)" if count > MAX_CLASSES else ""


def _curves(one: Predicted, curve: Any, *, of_each: bool) -> list[Ranked]:
    """Return the curves of a run: of two classes the second's; of more (or labels) each one's, or their mean."""
    shares, target = one.arrays["probability"], one.arrays["target"]
    count = shares.shape[1]
    wanted = target.astype(bool) if target.ndim == 2 else target[:, None] == np.arange(count)
    places = [1] if target.ndim == 1 and count == 2 else range(count)
    found = []
    for place in places:
        if wanted[:, place].any() and not wanted[:, place].all():
            x, y, area = curve(shares[:, place], wanted[:, place])
            found.append(Ranked(one.class_name(place, 24), *_thinned(x, y), area, float(wanted[:, place].mean())))
    if not of_each and len(found) > 1:
        return [_mean(found)]
    return sorted(found, key=lambda ranked: ranked.area)[:MAX_CLASSES]


def _mean(found: list[Ranked]) -> Ranked:
    """Return the mean of curves over classes, at the same places of x."""
    x = np.linspace(0, 1, MAX_POINTS)
    rows = [np.interp(x, *_ascending(one.x, one.y)) for one in found]
    areas, shares = [one.area for one in found], [one.share for one in found]
    return Ranked(f"{len(found)} classes", x, np.mean(rows, axis=0), float(np.mean(areas)), float(np.mean(shares)))


def _ascending(x: Any, y: Any) -> tuple[Any, Any]:
    return (x, y) if x[0] <= x[-1] else (x[::-1], y[::-1])


def _thinned(x: Any, y: Any) -> tuple[Any, Any]:
    if len(x) <= MAX_POINTS:
        return x, y
    places = np.unique(np.linspace(0, len(x) - 1, MAX_POINTS).round().astype(int))
    return x[places], y[places]


def _roc(scores: Any, wanted: Any) -> tuple[Any, Any, float]:
    from sklearn.metrics import auc, roc_curve

    x, y, _ = roc_curve(wanted, scores)
    return x, y, float(auc(x, y))


def _precision_recall(scores: Any, wanted: Any) -> tuple[Any, Any, float]:
    from sklearn.metrics import average_precision_score, precision_recall_curve

    precision, recall, _ = precision_recall_curve(wanted, scores)
    return recall, precision, float(average_precision_score(wanted, scores))
