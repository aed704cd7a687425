"""Drawing of a picture by its kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from trainwright.tools.figures.calibration import calibration
from trainwright.tools.figures.curves import comparison, learning_curves
from trainwright.tools.figures.evaluated import confusion, importance, worst_samples
from trainwright.tools.figures.forecasts import forecasts
from trainwright.tools.figures.gradients import gradient_flow, update_ratios
from trainwright.tools.figures.kinds import Kind
from trainwright.tools.figures.machine import batch_size, learning_rate, range_test, utilisation
from trainwright.tools.figures.ranks import precision_recall, roc
from trainwright.tools.training_monitor.record import RunRecord, named_records
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunDirectory

DRAWN: dict[str, Callable[[list[RunRecord], Path], Path]] = {
    "gradient_flow": gradient_flow,
    "update_ratios": update_ratios,
    "learning_rate": learning_rate,
    "utilisation": utilisation,
    "confusion": confusion,
    "roc": roc,
    "precision_recall": precision_recall,
    "calibration": calibration,
    "importance": importance,
    "worst_samples": worst_samples,
    "forecasts": forecasts,
    "range_test": range_test,
    "batch_size": batch_size,
}
OVERLAID = frozenset({"curves", "learning_rate", "roc", "precision_recall", "calibration"})
"""Kinds that draw several runs over one another."""


def draw(
    kind: Kind,
    runs: Sequence[RunDirectory],
    path: Path,
    metric: str | None = None,
    names: Mapping[str, str] | None = None,
) -> Path:
    """Draw one kind of figure of one or several runs into a PNG.

    Args:
        metric: one recorded key, of kind `curves`.
        names: handle by run id, which titles and legends show.

    Raises:
        NotFoundError: a run did not record what the kind draws.
        ConfigurationError: the kind is of one run, or takes no metric.
        IntegrityError: a run's record is damaged.
    """
    if kind not in OVERLAID and len(runs) > 1:
        first = runs[0].run_id
        raise ConfigurationError(
            f"A picture of kind {kind!r} shows one run, and {len(runs)} were named.",
            remedy=f"plot_metrics(run_ids=[{first!r}], kind={kind!r}), each run alone. These kinds overlay several: "
            f"{', '.join(sorted(OVERLAID))}.",
        )
    if metric is not None and kind != "curves":
        raise ConfigurationError(
            f"`metric` names a curve, and a picture of kind {kind!r} has none.", remedy="Leave out kind, or metric."
        )
    if kind == "curves":
        return learning_curves(runs, path, names) if metric is None else comparison(runs, path, metric, names)
    return DRAWN[kind](named_records(runs, names), path)
