"""Remaining share of the training loss: one definition for the worker, which judges in training, and the server."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from trainwright.trainer.run.conditions import Sample

FIRST_STEPS, NEWEST_STEPS = 5, 5
"""Steps whose median loss is the starting one (a batch alone is noisy), and the present one before an epoch ended."""
RAN_AWAY = 3.0
"""First steps whose median is so many times the first loss were driven there by the updates."""
CROSS_ENTROPY = "cross_entropy"


def prior_loss(shares: Sequence[float]) -> float | None:
    """Return the cross entropy of predicting the classes' shares for every sample; None without classes."""
    return -sum(share * math.log(share) for share in shares) if shares else None


def starting_loss(first: Sequence[float], shares: Sequence[float]) -> float | None:
    """Return the training loss before anything was learned; None where no loss is finite.

    The median of the first steps; where these themselves ran away, the first one's. Of cross entropy at least that of
    knowing the classes' shares alone (a model that begins lower has learned before), and where it begins far above that
    of equal chances (its first outputs are wild), those.

    Args:
        first: losses of the first steps.
        shares: of the train split's classes, where the loss is their cross entropy.
    """
    finite = sorted(value for value in first if math.isfinite(value))
    if not finite:
        return None
    start = finite[len(finite) // 2]
    if math.isfinite(first[0]) and 0 < RAN_AWAY * first[0] < start:
        start = first[0]
    prior = prior_loss(shares)
    if prior is None:
        return start
    chances = math.log(len(shares))
    return max(prior, start if start < RAN_AWAY * chances else chances)


def loss_remaining(start: float | None, epochs: Sequence[Sample], steps: Sequence[Sample]) -> list[Sample]:
    """Return training loss ÷ starting loss (1: nothing learned, 0: perfect); per epoch, else of the last steps."""
    samples = list(epochs)
    if not samples and (recent := steps[-NEWEST_STEPS:]):
        samples = [recent[-1]._replace(value=statistics.median_high(sample.value for sample in recent))]
    if start is None or start <= 0:
        return []
    return [sample._replace(value=sample.value / start) for sample in samples if math.isfinite(sample.value)]
