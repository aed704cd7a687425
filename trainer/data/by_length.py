"""Order by length: samples of a batch are about equally long, so that little of it is filling.

As the Transformers library groups them: within so many batches of a random order, the samples are put in order by
length, and the batches that they make are drawn in random order.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base import seeding

BATCHES_AT_ONCE = 50
"""Whose samples are put in order together: more would leave the same neighbours in every epoch."""


def order_by_length(lengths: Tensor, batch_size: int, seed: int, epoch: int) -> Tensor:
    """Return the samples of an epoch, (samples,): a pure function of (seed, epoch), every sample once.

    Args:
        lengths: of the samples, (samples,).
    """
    found = seeding.permutation(seed, epoch, len(lengths))
    sizes, window = lengths.numpy(), batch_size * BATCHES_AT_ONCE
    for number, start in enumerate(range(0, len(found), window)):
        part = found[start : start + window]
        part = part[np.argsort(-sizes[part], kind="stable")]
        whole = len(part) // batch_size * batch_size
        batches = part[:whole].reshape(-1, batch_size)
        drawn = batches[np.random.default_rng([seed, epoch, number]).permutation(len(batches))]
        found[start : start + window] = np.concatenate([drawn.reshape(-1), part[whole:]])
    return torch.from_numpy(found)
