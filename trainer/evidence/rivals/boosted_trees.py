"""Gradient-boosted trees on a table: what a person would try first.

They are scikit-learn's (HistGradientBoosting, after LightGBM: Ke et al. 2017) with the data's seed, and are fed as a
person would feed them: columns of categories are declared, and of a skewed positive target the logarithm is learned
where that scores better. How many iterations, and of which leaves, a fifth of the train rows says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from trainwright.trainer.clean_room import counts
from trainwright.trainer.clean_room.metrics import OF_OUTPUTS
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals import logarithms
from trainwright.trainer.evidence.rivals.fitted import Array, Fitted, UnfitError, is_one_class, logits_of, targets_of
from trainwright.trainer.evidence.rivals.logarithms import OfLogarithms, metric_of
from trainwright.trainer.evidence.rivals.tables import category_codes, inputs_of, is_table, seed_of
from trainwright.trainer.metrics.built_in import quantile_of

MAX_ROWS = 200_000
MAX_NUMBERS = 20_000_000
"""Of the train split."""
MAX_CLASSES = 50
MAX_TARGETS = 16
"""Predicted at once: each by trees of its own."""
WORK = 1_000_000_000
"""Numbers that all trees read, about 13 s of one processor; counted rather than timed, so that figures come again."""
NUMBERS_OF_A_TREE = 100_000
"""What one costs beside those it reads."""
LEAVES = (31, 8)
"""Of a tree: scikit-learn's, and fewer, which are better where inputs add up. The better on the rows is taken."""
MAX_ITERATIONS = 1000
USUAL_ITERATIONS = 100
"""scikit-learn's: where the rows are too few, or the work too large, to see where to stop. And the fewest for a metric
of the class alone, which goes on improving where the loss, by which they are stopped, does not."""
TRIED_ITERATIONS = 30
TRIED_SHARE = 0.2
"""Of the train rows, which say where to stop."""
DRAWS = 3
FEW_ROWS = 5000
"""Below which so many draws of these rows are averaged over, for one would choose by chance."""
MIN_ROWS = 50
MIN_OF_A_CLASS = 5
"""Train rows from which it is seen where to stop."""


def fit(splits: Splits, config: TrainingConfig) -> list[Fitted]:
    """Return trees for a table of at most so many rows; none for other data. Raises UnfitError.

    Inputs are the source's numbers before scaling, with NaN for a missing one.
    """
    train = splits.samples["train"]
    if splits.series is not None or type(train) is not TensorSamples or not is_table(train):
        return []
    if len(train) > MAX_ROWS or len(train) * train.base[0][0].numel() > MAX_NUMBERS:
        raise UnfitError(f"more than {MAX_ROWS} rows, or {MAX_NUMBERS} numbers")
    targets = targets_of(train)
    is_classes = targets.dtype.kind in "iub" or splits.class_names is not None
    several = targets.size // len(targets)
    if several > MAX_TARGETS:
        raise UnfitError(f"more than {MAX_TARGETS} targets")
    if is_classes and several == 1 and len(np.unique(targets)) > MAX_CLASSES:
        raise UnfitError(f"more than {MAX_CLASSES} classes")
    trees = _Trees(splits, config, targets.shape[1:], is_classes, is_one_class(targets))
    trees.grow(inputs_of(train), targets.reshape(len(targets), several))
    usual = ("accuracy",) if is_classes else ("r2", "mae")
    return [Fitted("boosted_trees", trees.told, usual, lambda one: trees.outputs(inputs_of(one)))]


def _is_of_class(config: TrainingConfig) -> bool:
    """Return whether the metric that counts is of the class that is named, and not of how sure that is."""
    named = [config.selection.metric, *config.metrics, "accuracy"]
    metric = next(one for one in named if isinstance(one, str) and one in OF_OUTPUTS)
    return OF_OUTPUTS[metric][0] is counts.classes


@dataclass
class _Trees:
    splits: Splits
    config: TrainingConfig
    shape: tuple[int, ...]
    """Of one row's targets."""
    is_classes: bool
    is_numbered: bool
    """Whether targets are one class number, and no labels of yes or no."""
    each: list[Any] = field(default_factory=list)
    """Trees of each target."""
    known: dict[int, Array] = field(default_factory=dict)
    """Codes of each declared column of categories, by its place among the inputs."""
    is_stopped: bool = True
    """Whether fewer iterations than were affordable scored best, of each target."""

    def grow(self, inputs: Array, targets: Array) -> None:
        """Fit trees of each target, inputs (rows, inputs) and targets (rows, targets), within the work."""
        self.known = category_codes(self.splits, inputs)
        rows = self._fed(inputs)
        chosen = partial(self._chosen, rows, len(targets.T))
        if self.is_classes:
            self.each = [chosen(target).fit(rows, target) for target in targets.T]
        else:
            self.each = [logarithms.fitted(self._untrained, chosen, rows, one, self.config) for one in targets.T]

    def _chosen(self, rows: Array, targets: int, target: Array) -> Any:
        """Return untrained trees of the leaves and iterations that score best on some of the train rows.

        Args:
            rows: (rows, inputs).
            targets: how many share the work.
            target: one of them, (rows,).
        """
        sizes = np.unique(target, return_counts=True)[1] if self.is_classes else np.array([len(target)])
        trees = len(sizes) if len(sizes) > 2 else 1  # of two classes one tells both
        left = WORK // targets // (trees * (rows.size + NUMBERS_OF_A_TREE))
        if left < 2 * USUAL_ITERATIONS or len(target) < MIN_ROWS or sizes.min() < MIN_OF_A_CLASS:
            self.is_stopped = False
            return self._untrained(max(1, min(USUAL_ITERATIONS, left)))
        draws = DRAWS if len(target) < FEW_ROWS else 1
        best, iterations, leaves = -np.inf, 0, 0
        for tried in LEAVES:
            most = min(MAX_ITERATIONS, left // (draws + 1))  # those of all rows are counted too
            if most < iterations:
                break
            trials = [self._untrained(most, tried, stopped_by=draw).fit(rows, target) for draw in range(draws)]
            left -= sum(one.n_iter_ for one in trials)
            scores = [one.validation_score_[1:] for one in trials]  # the first is of no trees
            if (score := float(np.mean([one.max() for one in scores]))) > best:
                best, iterations, leaves = score, int(np.mean([one.argmax() for one in scores])) + 1, tried
        fewest = min(USUAL_ITERATIONS, most) if self.is_classes and _is_of_class(self.config) else 1
        self.is_stopped &= fewest <= iterations < most
        return self._untrained(max(iterations, fewest), leaves)

    def _untrained(
        self, iterations: int = TRIED_ITERATIONS, leaves: int = LEAVES[0], *, stopped_by: int | None = None
    ) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if self.is_classes else HistGradientBoostingRegressor
        level = None if self.is_classes else quantile_of(metric_of(self.config))
        of_quantile = {} if level is None else {"loss": "quantile", "quantile": level}
        return kind(
            random_state=seed_of(self.config) ^ (stopped_by or 0), early_stopping=stopped_by is not None,
            validation_fraction=TRIED_SHARE, max_iter=iterations, max_leaf_nodes=leaves,
            categorical_features=list(self.known) or None, **of_quantile,
        )  # fmt: skip

    def _fed(self, inputs: Array) -> Array:
        """Return inputs with categories numbered from 0; one that the train split lacks is a hole."""
        found = np.array(inputs, dtype=np.float64)
        for place, codes in self.known.items():
            at = np.searchsorted(codes, found[:, place]).clip(max=len(codes) - 1)
            found[:, place] = np.where(codes[at] == found[:, place], at, np.nan)
        return found

    @property
    def told(self) -> str:
        """What they are and how they were fed."""
        plain = [one.regressor if isinstance(one, OfLogarithms) else one for one in self.each]
        numbers = {f"{one.max_iter} iterations of {one.max_leaf_nodes} leaves" for one in plain}
        iterations = numbers.pop() if len(numbers) == 1 else f"up to {max(one.max_iter for one in plain)} iterations"
        parts = [f"{iterations}{', stopped early' * self.is_stopped}"]
        if self.known:
            parts.append(f"{len(self.known)} column{'s' * (len(self.known) > 1)} of categories declared")
        if any(isinstance(one, OfLogarithms) for one in self.each):
            parts.append(OfLogarithms.told)
        return f"gradient-boosted trees (scikit-learn's, not tuned: {', '.join(parts)})"

    def outputs(self, inputs: Array) -> Array:
        """Return logits of classes, margins of labels, or numbers, for inputs (rows, inputs)."""
        rows = self._fed(inputs)
        if not self.is_classes:
            return np.stack([one.predict(rows) for one in self.each], axis=1).reshape(len(rows), *self.shape)
        if self.is_numbered:
            (one,), names = self.each, self.splits.class_names or ()
            return logits_of(one.predict_proba(rows), one.classes_, len(names))
        each = [logits_of(one.predict_proba(rows), one.classes_, 2) for one in self.each]
        margins = np.stack([one[:, 1] - one[:, 0] for one in each], axis=1)  # by how much yes outweighs no
        return margins.reshape(len(rows), *self.shape)
