"""Sentence on what gradient-boosted trees score beside a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.run.looked_at import BoostedTrees

if TYPE_CHECKING:
    from trainwright.trainer.run import RunDirectory


def trees_text(run: RunDirectory, metric: str, value: float | None) -> str | None:
    """Return a sentence on what the trees and the model score; None where none were fitted.

    Args:
        run: of the baseline.
        metric: the goal's; the trees' first one where they have no such value.
        value: the model's on the validation split.
    """
    trees = run.part(BoostedTrees)
    if trees.not_fitted is not None:
        return f"Gradient-boosted trees were not fitted for comparison: {trees.not_fitted}."
    if not trees.metrics:
        return None
    name = metric if metric in trees.metrics else next(iter(trees.metrics))
    of_model = f", the model {value:.4g}" if name == metric and value is not None else ""
    return (
        f"A gradient-boosted tree ensemble scores {name} {trees.metrics[name]:.4g}{of_model}, on the same "
        f"{trees.validation_rows} validation rows (scikit-learn's defaults, {trees.iterations} iterations)."
    )
