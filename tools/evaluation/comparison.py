"""Comparison of what the training process reported with what the clean room computed from the exported program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from trainwright.trainer.metrics import built_in_of

SHARE = (0.0, 1.0)
ONLY_THERE = "only the training process computes it"
HALF_PRECISION = frozenset({"bf16", "fp16"})
WIDER = 2.0
"""Times the interval of a sample within which the figure of all rows counts as the same: 95 % becomes 99.99 %."""


def tolerance(metric: str, reported: float, certified: float, rows: int, precision: str = "fp32") -> float:
    """Return by how much the two values of a metric may differ.

    Shares of rows: two rows, or half a percent. Anything else: a percent, and three under half precision.
    """
    largest = max(abs(reported), abs(certified))
    known = built_in_of(metric)
    if known is not None and known.bounds == SHARE:
        return max(2.0 / max(rows, 1), 0.005 * largest)
    return (0.03 if precision in HALF_PRECISION else 0.01) * max(largest, 1e-6) + 1e-6


def differences_between(
    reported: Mapping[str, Mapping[str, float]],
    splits: Mapping[str, Mapping[str, Any]],
    precision: str = "fp32",
    *,
    by: str = "reported by the training process",
) -> list[str]:
    """Return one sentence for every metric, of a split, that differs beyond the tolerance and has no other reading.

    Args:
        reported: by split the values of the training process.
        splits: by split what the clean room answered.
        by: whose values the reported ones are.
    """
    return [
        f"{split} {metric}: {float(before):.6g} {by}, {what}"
        for split, found in splits.items()
        for metric, certified in {**found.get("metrics", {}), **found.get("not_finite", {})}.items()
        if metric not in found.get("episodes", {})  # the process played others
        and (before := reported.get(split, {}).get(metric)) is not None
        and (what := _difference(metric, float(before), float(certified), found, precision))
        and not meant_by(metric, float(before), found, precision)
    ]


def meant_by(metric: str, reported: float, found: Mapping[str, Any], precision: str = "fp32") -> str:
    """Return which usual reading of a metric's name the reported value is; empty where it is the metric, or neither.

    Args:
        metric: its name.
        reported: the training process's value.
        found: what the clean room answered of the split.
        precision: in which the process computed.
    """
    certified = found.get("metrics", {}).get(metric)
    if certified is None or not _difference(metric, reported, float(certified), found, precision):
        return ""
    rows, others = int(found.get("rows", 0)), dict(found.get("readings", {}).get(metric, {}))
    near = {
        words: abs(value - reported)
        for words, value in others.items()
        if abs(value - reported) <= min(tolerance(metric, reported, value, rows, precision), abs(value - certified) / 4)
    }
    return min(near, key=near.__getitem__, default="")


def _difference(metric: str, reported: float, certified: float, found: Mapping[str, Any], precision: str) -> str:
    """Return what stands behind the reported value in the sentence; empty where both count as the same."""
    rows = int(found.get("rows", 0))
    allowed = tolerance(metric, reported, certified, rows, precision)
    if math.isfinite(reported) and math.isfinite(certified):
        is_sample = rows < int(found.get("size", rows + 1)) or metric in found.get("attacked", ())  # other starts
        interval = found.get("intervals", {}).get(metric) if is_sample else None
        is_same = abs(reported - certified) <= allowed or _within(interval, reported)
    else:
        is_same = str(reported) == str(certified)
    if is_same:
        return ""
    return f"{certified:.6g} by the exported program alone on {rows} rows (allowed difference {allowed:.2g})"


def _within(interval: Any, value: float) -> bool:
    """Whether a value of all rows lies within the widened interval of a sample's figure."""
    if not interval:
        return False
    low, high = map(float, interval)
    middle, half = (low + high) / 2, WIDER * (high - low) / 2
    return abs(value - middle) <= half
