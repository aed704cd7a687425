"""The first sample of a split, looked at without a trace."""

from __future__ import annotations

from typing import Any

from torch.utils.data import IterableDataset

from trainwright.trainer.errors import DataError
from trainwright.trainer.reproducibility import seeding


def first_sample(samples: Any) -> Any:
    """Return the first sample, of a stream too; the generators are left alone. Raises DataError when there is none."""
    with seeding.preserved():
        if not isinstance(samples, IterableDataset):
            return samples[0]
        for sample in samples:
            return sample
    raise DataError(
        f"{type(samples).__name__} yields no sample.", remedy="Check the paths and filters of the data set."
    )
