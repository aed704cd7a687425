"""Built-in metrics in numpy, from all outputs and targets of a split, by name.

Each is computed in two steps: what it keeps of a batch of outputs (the predicted classes, say, in place of a language
model's logits), and its value from all that was kept and the targets. Bits per byte: Gao et al. 2020, arXiv:2101.00027.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from . import counts, images, neighbours, numbers, probabilities, rankings, ranks, texts
from .counts import IGNORED, Array, classes, has_labels
from .entities import entity_f1, tags
from .spans import best_spans, exact_match, span_f1

Step = Callable[[Array, Array], Any]


def in_shape(outputs: Array, targets: Array) -> Array:
    """Return the outputs in the shape of the targets. Raises ValueError when they hold other counts."""
    return outputs.reshape(targets.shape)


def perplexity(mean_loss: float, bytes_per_target: float) -> float:  # noqa: ARG001 - the form of these metrics
    """e to the mean loss: the number of equally likely tokens that leaves one as unsure; infinity beyond floats."""
    return math.exp(mean_loss) if mean_loss < 700.0 else math.inf


def bits_per_byte(mean_loss: float, bytes_per_target: float) -> float:
    """Bits to code a byte of the text with the model: comparable between tokenizers."""
    return mean_loss / math.log(2.0) / bytes_per_target


def _targets(kept: Array, targets: Array) -> Array:
    return counts.counted_targets(kept, targets)[0]


def _images(kept: Array, targets: Array) -> Array:  # noqa: ARG001 - the form of these steps
    found: Array = kept[~np.isnan(kept)]
    return found


def _all(kept: Array, targets: Array) -> Array:  # noqa: ARG001 - the form of these steps
    return kept


def _mean_of(counted: Step, kept: Array, targets: Array) -> float:
    return counts.Mean.of(counted(kept, targets)).value


OF_MEANS: dict[str, tuple[Step, Step]] = {
    "log_loss": (probabilities.surprises, _targets),
    "brier": (probabilities.squared_distances, _targets),
    "top_3_accuracy": (partial(probabilities.is_in_top, 3), _targets),
    "top_5_accuracy": (partial(probabilities.is_in_top, 5), _targets),
    "mrr": (probabilities.reciprocal_ranks, _targets),
    "ndcg_at_10": (partial(probabilities.discounted_gains, 10), _targets),
    "dice_per_image": (partial(counts.by_image, "dice"), _images),
    "iou_per_image": (partial(counts.by_image, "foreground_iou"), _images),
    **{name: (of_image, _all) for name, of_image in images.OF_IMAGES.items()},
}
"""What a metric keeps of outputs and targets, and the numbers among it whose mean it is."""
OF_OUTPUTS: dict[str, tuple[Step, Step]] = {
    **{name: (kept, partial(_mean_of, counted)) for name, (kept, counted) in OF_MEANS.items()},
    **{name: (classes, partial(counts.of_classes, name)) for name in counts.OF_COUNTS},
    "accuracy": (classes, counts.accuracy),
    "auc": (ranks.scores, ranks.auc),
    "average_precision": (ranks.scores, ranks.average_precision),
    "calibration_error": (probabilities.confidences, probabilities.calibration_error),
    "entity_f1": (tags, entity_f1),
    "exact_match": (best_spans, exact_match),
    "span_f1": (best_spans, span_f1),
    **{name: (in_shape, partial(numbers.compute, name)) for name in numbers.NAMES},
    **dict.fromkeys(rankings.OF_GROUPS, (rankings.scores, rankings.mean_of_groups)),
}
"""What a metric keeps of outputs and targets, and its value from what was kept (see `whole`) and the targets."""
UNDEFINED_OF_ONE = counts.OF_ONE_CLASS | {"auc", "average_precision"}
"""Metrics that one class, or a label that is always there or never, leaves without a value."""
OF_TWO_CLASSES = UNDEFINED_OF_ONE | {
    "matthews_correlation", "cohen_kappa", "quadratic_kappa", "dice", "foreground_iou",
}  # fmt: skip
"""Metrics that compare classes; of a single one they are NaN, or the same whatever is predicted."""
OF_LOSS: dict[str, Callable[[float, float], float]] = {"perplexity": perplexity, "bits_per_byte": bits_per_byte}
"""Value from (mean loss in nats, bytes per target)."""
OF_TEXTS = frozenset(texts.OF_TEXTS)
"""Metrics of texts that a model writes word by word, which no program of one step does."""


OF_SERIES = frozenset({"mase"})
"""Metrics of forecasts, which need what the value one season before is off by on the train rows."""


def means_of_series(naive_errors: Sequence[float]) -> dict[str, tuple[Step, Step]]:
    """Return OF_SERIES as OF_MEANS has others: by what the naive forecast is off by, of each target; empty: unknown."""
    return {"mase": (numbers.Scaled(tuple(naive_errors)), _all)} if naive_errors else {}


def steps_of(naive_errors: Sequence[float]) -> dict[str, tuple[Step, Step]]:
    """Return OF_OUTPUTS, what can be computed of a series (means_of_series), and what features say of classes."""
    of_series = means_of_series(naive_errors).items()
    of_features = {neighbours.NAME: (neighbours.unit, neighbours.share)}
    return OF_OUTPUTS | of_features | {name: (kept, partial(_mean_of, counted)) for name, (kept, counted) in of_series}


def compute(
    name: str,
    outputs: Array,
    targets: Array,
    groups: Array | None = None,
    naive_errors: Sequence[float] = (),
) -> float:
    """Return a metric of outputs and targets, first dimension samples.

    Args:
        name: the metric.
        outputs: of a model.
        targets: what it was to give.
        groups: number of each row's group, (samples,).
        naive_errors: of a series, on its train rows, of each target.

    Raises:
        ValueError: they do not fit it.
    """
    kept, value = steps_of(naive_errors)[name]
    with np.errstate(over="ignore", invalid="ignore"):  # NaN and infinity give a number, or NaN, and no warning
        return float(value(whole(name, kept(outputs, targets), targets, groups), targets))


def whole(name: str, kept: Array, targets: Array, groups: Array | None) -> Array:
    """Return what was kept of all rows, as the metric's value is computed from it or from some of its rows.

    Raises:
        ValueError: a metric by groups has none.
    """
    if name == neighbours.NAME:
        return neighbours.hits(kept, targets)
    return rankings.terms(name, kept, targets, groups) if name in rankings.OF_GROUPS else kept


def problem_of(name: str, kept: Array, targets: Array, names: Sequence[str] = ()) -> str:
    """Return why a metric of outputs says nothing about these targets; empty where it does.

    Args:
        name: the metric.
        kept: what it keeps of the outputs (OF_OUTPUTS).
        targets: first dimension samples.
        names: of the classes, or of the labels, by their numbers.
    """
    if name in numbers.NAMES:
        return numbers.problem_of(name, numbers.Sums.of(kept, targets, {name}))
    if name in rankings.OF_GROUPS:
        return rankings.problem_of(targets)
    labels = name in UNDEFINED_OF_ONE and has_labels(kept, targets)
    for number, column in enumerate(np.moveaxis(targets, 1, 0) if labels else [targets]):
        wanted = column[column != IGNORED]
        found = np.unique(wanted)
        if not len(found):
            return "no target counts: all are ignored (-100)"
        if len(found) == 1 and name in OF_TWO_CLASSES:
            value = int(found[0])
            of = f"label {_named(number, names)} is {value}" if labels else f"the class is {_named(value, names)}"
            return f"{of} in all {wanted.size} rows, and {name} compares two"
    return ""


def _named(number: int, names: Sequence[str]) -> str:
    return repr(names[number]) if 0 <= number < len(names) else str(number)
