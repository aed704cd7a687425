"""The loop that every PyTorch tutorial writes, and nothing else: what all others are measured against."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from clock import Moment, now
from workload import CLIP_NORM, LEARNING_RATE, Workload


def train(workload: Workload, number: int, *, clip: bool = False) -> list[Moment]:
    """Train once; return the moment after each step. `clip` adds the norm and the clipping alone."""
    model = workload.model()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
    inputs, targets = workload.tensors
    ends = []
    for rows in workload.batches(number):
        loss = F.cross_entropy(model(inputs[rows]), targets[rows])
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ends.append(now())
    return ends
