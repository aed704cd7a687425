"""Difficulty of a sample for the suite's curriculum."""

from __future__ import annotations

from torch import Tensor


def scores(sample: tuple[Tensor, Tensor]) -> float:
    """Return how much of the picture is in between black and white."""
    return float((sample[0] * (1 - sample[0])).sum())
