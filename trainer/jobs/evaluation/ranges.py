"""Errors of predicted numbers by fifths of the targets and of the predictions, from the evaluated rows."""

from __future__ import annotations

import numpy as np

from trainwright.trainer.jobs.evaluation.forms import NUMBERS
from trainwright.trainer.jobs.evaluation.outputs import Array, Outputs
from trainwright.trainer.run.evaluation import Fifth, Ranges

LEAST_ROWS = 50
"""Ten in a fifth."""


def ranges_of(found: Outputs) -> list[Ranges]:
    """Return the ranges of each target; empty of other forms, of few rows, and of targets that do not vary."""
    if found.form != NUMBERS or "target" not in found.arrays or found.rows < LEAST_ROWS:
        return []
    columns = (found.arrays[name].reshape(found.rows, -1).T.astype(np.float64) for name in ("target", "prediction"))
    return [_ranges(*pair) for pair in zip(*columns, strict=True) if np.isfinite(pair).all() and np.ptp(pair[0]) > 0]


def _ranges(target: Array, prediction: Array) -> Ranges:
    """Return the ranges of one target, both (rows,)."""
    errors, varies = prediction - target, np.ptp(prediction) > 0
    return Ranges(
        targets=(float(target.min()), float(target.max())),
        predictions=(float(prediction.min()), float(prediction.max())),
        deviation=float(target.std()),
        spread=float(prediction.std()),
        correlation=float(np.corrcoef(target, prediction)[0, 1]) if varies else 0.0,
        by_target=_fifths(target, errors),
        by_prediction=_fifths(prediction, errors),
    )


def _fifths(by: Array, errors: Array) -> list[Fifth]:
    parts = np.array_split(np.argsort(by, kind="stable"), 5)
    return [
        Fifth(
            low=float(by[rows].min()),
            high=float(by[rows].max()),
            error=float(errors[rows].mean()),
            standard_error=float(errors[rows].std(ddof=1) / np.sqrt(len(rows))),
        )
        for rows in parts
    ]
