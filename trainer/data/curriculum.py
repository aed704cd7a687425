"""The order of an epoch under a curriculum: from the easiest samples, as many as the epoch's share allows.

Bengio et al. 2009; pacing as in Hacohen and Weinshall 2019, arXiv:1904.03626: an epoch has as many draws as ever, from
fewer samples, so that schedules and positions are those of any other run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import DataError, UserCodeError
from trainwright.trainer.data.fingerprint import label_of
from trainwright.trainer.data.sections import CurriculumSection
from trainwright.trainer.user_code.clock import clock


@dataclass(frozen=True)
class Curriculum:
    """A pure function from the epoch to the order of its samples."""

    section: CurriculumSection
    epochs: int
    seed: int
    ranked: Tensor
    """Indices of all samples, in the order in which they are let in."""

    def count(self, epoch: int) -> int:
        """Return how many samples the epoch draws from."""
        size = len(self.ranked)
        return min(max(math.ceil(round(self.section.fraction(epoch, self.epochs) * size, 6)), 1), size)

    def order(self, epoch: int) -> Tensor:
        """Return the indices of the epoch, (samples,): those let in, in shuffled rounds, or all."""
        size, count = len(self.ranked), self.count(epoch)
        if count == size:
            return torch.from_numpy(seeding.permutation(self.seed, epoch, size))
        rounds = [np.random.default_rng([self.seed, epoch, number]) for number in range(-(-size // count))]
        return self.ranked[torch.from_numpy(np.concatenate([draws.permutation(count) for draws in rounds]))][:size]


def ranked(scores: Tensor, *, hardest_first: bool) -> Tensor:
    """Return the samples' indices, (samples,) of int64, by score, (samples,); equal ones in their given order.

    Raises:
        DataError: a score is not finite, or all are equal.
    """
    if bad := (~torch.isfinite(scores)).nonzero().flatten()[:5].tolist():
        raise DataError(
            f"The difficulty of samples {bad} is not a finite number.", remedy="Return a finite number for each sample."
        )
    if len(scores) and bool((scores == scores[0]).all()):
        raise DataError(
            f"All train samples have the same difficulty, {float(scores[0]):g}: a curriculum would do nothing.",
            remedy='Set curriculum.use to another measure, or to a function of your own: "module:callable".',
        )
    return torch.argsort(-scores if hardest_first else scores, stable=True)


def lengths(samples: Any, seed: int) -> Tensor:
    """Return the lengths of the samples' first inputs, (samples,): the first dimension of a tensor, or len()."""
    return scored(samples, seed, lambda sample: len(_inputs(sample)))


def centroid_distances(samples: Any, seed: int) -> Tensor:
    """Return the samples' Euclidean distances, (samples,), from the means of their classes, over the train split.

    Raises:
        DataError: samples are not (numbers of one shape, class number).
    """
    sums: dict[int, Tensor] = {}
    counts: dict[int, int] = {}

    def add(sample: Any) -> float:
        label, inputs = _labelled(sample)
        sums[label] = sums.get(label, 0.0) + inputs
        counts[label] = counts.get(label, 0) + 1
        return 0.0

    def distance(sample: Any) -> float:
        label, inputs = _labelled(sample)
        return float((inputs - sums[label] / counts[label]).norm())

    scored(samples, seed, add)
    return scored(samples, seed, distance)


def scored(samples: Any, seed: int, score: Callable[[Any], Any]) -> Tensor:
    """Return the scores, (samples,) of float64. Raises UserCodeError when one is not a number.

    Random augmentation is keyed to (seed, 0, index): the same scores each time, and the generators are left alone.
    """
    values = []
    with seeding.preserved(), clock.each_call_alone():
        for index in range(len(samples)):
            clock.next_call()
            seeding.seed_sample(seed, 0, index)
            value = score(samples[index])
            try:
                values.append(float(value))
            except (TypeError, ValueError) as error:
                raise UserCodeError(
                    f"The difficulty of sample {index} is a {type(value).__name__}, not a number.",
                    remedy="Return one number for each sample.",
                ) from error
    return torch.tensor(values, dtype=torch.float64)


def _inputs(sample: Any) -> Any:
    first = next(iter(sample.values())) if isinstance(sample, dict) else sample
    first = first[0] if isinstance(first, tuple | list) else first
    if not hasattr(first, "__len__") or (isinstance(first, Tensor) and first.dim() == 0):
        raise DataError(
            f"curriculum.use length: the first input is a {type(first).__name__} without a length.",
            remedy='Set curriculum.use to a function of your own: "module:callable".',
        )
    return first


def _labelled(sample: Any) -> tuple[int, Tensor]:
    label = label_of(sample)
    inputs = sample[0] if isinstance(sample, tuple | list) else next(iter(sample.values())) if sample else None
    if label is None or not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        raise DataError(
            "curriculum.use centroid needs samples (inputs of floating point, class number).",
            remedy='Set curriculum.use to a function of your own: "module:callable", called with a sample.',
        )
    return label, inputs.double().flatten()
