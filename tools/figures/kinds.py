"""Kinds of pictures by name: light, for the tool's schema is made from it when the server starts."""

from __future__ import annotations

from typing import Literal, TypeGuard, get_args

Kind = Literal[
    "curves", "gradient_flow", "update_ratios", "learning_rate", "utilisation", "confusion", "roc",
    "precision_recall", "calibration", "worst_samples", "forecasts", "range_test", "batch_size",
]  # fmt: skip
StudyKind = Literal["history", "slices", "importance", "parallel", "contour", "intermediate", "pareto"]
STUDY_KINDS: tuple[StudyKind, ...] = get_args(StudyKind)
"""Of a study's trials, in the order in which a report shows them."""


def is_of_study(kind: Kind | StudyKind) -> TypeGuard[StudyKind]:
    """Return whether a kind of picture shows a study; `importance` shows runs too."""
    return kind in STUDY_KINDS
