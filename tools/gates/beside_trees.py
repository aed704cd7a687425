"""Sentence on what gradient-boosted trees, or naive forecasts of a series, score beside a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.run.looked_at import BoostedTrees, NaiveForecasts

if TYPE_CHECKING:
    from trainwright.trainer.run import RunDirectory


def trees_text(run: RunDirectory, metric: str, value: float | None) -> str | None:
    """Return a sentence on what the trees, or naive forecasts, and the model score; None where there are none.

    Args:
        run: of the baseline.
        metric: the goal's; the trees' first one where they have no such value.
        value: the model's on the validation split.
    """
    if (naive := run.part(NaiveForecasts)).metrics:
        return _naive_text(naive, metric, value)
    trees = run.part(BoostedTrees)
    if trees.not_fitted is not None:
        return f"Gradient-boosted trees were not fitted for comparison: {trees.not_fitted}."
    if not trees.metrics:
        return None
    name = metric if metric in trees.metrics else next(iter(trees.metrics))
    of_model = f", the model {value:.4g}" if name == metric and value is not None else ""
    chosen = "; the model's epoch was chosen by these" if of_model else ""
    return (
        f"A gradient-boosted tree ensemble scores {name} {trees.metrics[name]:.4g}{of_model}, on the same "
        f"{trees.validation_rows} validation rows (scikit-learn's defaults, {trees.iterations} iterations{chosen})."
    )


def _naive_text(naive: NaiveForecasts, metric: str, value: float | None) -> str:
    known = naive.metrics.values()
    name = metric if all(metric in scores for scores in known) else "mae"
    how = "as configured" if naive.is_period_given else "which errs least on the train rows"
    told = {"seasonal": f"the value {naive.period} rows before ({how})", "last_value": "the last value"}
    scores = [f"{told[each]} {found[name]:.4g}" for each, found in sorted(naive.metrics.items(), reverse=True)]
    of_model = f", the model {value:.4g}" if name == metric and value is not None else ""
    return f"Naive forecasts, by {name}: {', '.join(scores)}{of_model}, on the same {naive.windows} validation windows."
