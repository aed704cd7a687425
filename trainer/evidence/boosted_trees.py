"""Gradient-boosted trees on the same rows as a baseline: what a person would try first on a table.

They are scikit-learn's (HistGradientBoosting, after LightGBM: Ke et al. 2017), with its defaults and the data's seed.
They decide nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwright.trainer.clean_room import metrics
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.run.looked_at import BoostedTrees

Array = np.ndarray[Any, Any]

MOST_ROWS = 200_000
MOST_NUMBERS = 20_000_000
"""Of the train split."""
MOST_CLASSES = 50
MOST_TARGETS = 16
"""Predicted at once: each by trees of its own."""
MOST_ITERATIONS = 100
ITERATIONS_AT_ONCE = 10
MOST_SECONDS = 5.0
"""After which no further trees are added."""
USUAL = {"classification": ("accuracy",), "regression": ("r2", "mae")}


def boosted_trees_evidence(splits: Splits, config: TrainingConfig) -> BoostedTrees | None:
    """Fit trees on the train split and return what they score on the validation split; None where data are no table.

    Inputs are the source's numbers before scaling, with NaN for a missing one. Failing to fit them fails no run.
    """
    train, held_out = splits.samples.get("train"), splits.samples.get("validation")
    if not (type(train) is TensorSamples and type(held_out) is TensorSamples and _is_table(train)):
        return None
    if len(train) > MOST_ROWS or len(train) * train.base[0].shape[1] > MOST_NUMBERS:
        return BoostedTrees(not_fitted=f"more than {MOST_ROWS} rows, or {MOST_NUMBERS} numbers")
    try:
        return _fitted(_arrays(train), _arrays(held_out), splits, config)
    except Exception as error:  # noqa: BLE001 - a comparison fails no run
        return BoostedTrees(not_fitted=f"{type(error).__name__}: {str(error)[:200]}")


def _is_table(samples: TensorSamples) -> bool:
    return len(samples.base) == 2 and samples.base[0].dim() == 2 and samples.base[1].dim() <= 2


def _arrays(samples: TensorSamples) -> tuple[Array, Array]:
    targets = samples.column(1).numpy(force=True)
    return samples.column(0).numpy(force=True), targets.reshape(len(targets), -1)


def _fitted(
    train: tuple[Array, Array], held_out: tuple[Array, Array], splits: Splits, config: TrainingConfig
) -> BoostedTrees:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    started = time.monotonic()
    names, several = splits.class_names, train[1].shape[1]
    is_classes = train[1].dtype.kind in "iub" or names is not None
    if several > MOST_TARGETS:
        return BoostedTrees(not_fitted=f"more than {MOST_TARGETS} targets")
    if is_classes and several == 1 and len(np.unique(train[1])) > MOST_CLASSES:
        return BoostedTrees(not_fitted=f"more than {MOST_CLASSES} classes")
    kind = HistGradientBoostingClassifier if is_classes else HistGradientBoostingRegressor
    seed = config.data.split.seed if config.data is not None else 0
    trees = [kind(random_state=seed, early_stopping=False, warm_start=True, max_iter=0) for _ in range(several)]
    done = 0
    while done < MOST_ITERATIONS and (done == 0 or time.monotonic() - started < MOST_SECONDS):
        done += ITERATIONS_AT_ONCE
        for one, target in zip(trees, train[1].T, strict=True):
            one.set_params(max_iter=done).fit(train[0], target)
    classes = 0 if several > 1 else len(names or ())
    each = [_outputs(one, held_out[0], classes) if is_classes else one.predict(held_out[0]) for one in trees]
    outputs, targets = each[0], held_out[1].reshape(-1)
    if several > 1:  # of a label, by how much yes outweighs no
        outputs = np.stack([one[:, 1] - one[:, 0] if is_classes else one for one in each], axis=1)
        targets = held_out[1]
    usual = USUAL["classification" if is_classes else "regression"]
    return BoostedTrees(
        metrics=scores(config, usual, outputs, targets),
        iterations=done,
        rows=len(train[1]),
        validation_rows=len(held_out[1]),
        columns=train[0].shape[1],
        seed=seed,
        seconds=round(time.monotonic() - started, 3),
    )


def _outputs(trees: Any, inputs: Array, classes: int) -> Array:
    """Return logits, (rows, classes): of a class that the train split lacks, the lowest."""
    found = np.log(np.clip(trees.predict_proba(inputs), 1e-12, 1.0))
    logits = np.full((len(inputs), max(classes, int(trees.classes_.max()) + 1)), np.log(1e-12))
    logits[:, trees.classes_.astype(int)] = found
    return logits


def scores(config: TrainingConfig, usual: Sequence[str], outputs: Array, targets: Array) -> dict[str, float]:
    """Return the metrics of the configuration, and usual ones, of outputs and targets, (rows, ...) each."""
    names = [config.selection.metric, *(one for one in config.metrics if isinstance(one, str)), *usual]
    wanted = [name for name in dict.fromkeys(names) if name in metrics.OF_OUTPUTS]
    values = {name: _value(name, outputs, targets) for name in wanted}
    return {name: value for name, value in values.items() if value is not None}


def _value(name: str, outputs: Array, targets: Array) -> float | None:
    """Return a metric; None where it is not of such outputs."""
    try:
        value = metrics.compute(name, outputs, targets)
    except (ValueError, IndexError):
        return None
    return value if np.isfinite(value) else None
