"""Histograms of weights and gradients by parameter, at some of the inspected steps.

Entries are copied where they are, as for the norms, and counted on the processor once the step is over and its numbers
have been read. Gradients are as the optimizer got them (clipped), weights after the update.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.engine.session import Session
from trainwright.trainer.run.histograms import (
    GRADIENTS,
    HISTOGRAMS,
    KIND,
    LAST_BIN,
    SMALLEST,
    WEIGHTS,
    Counts,
    Histogram,
)
from trainwright.trainer.run.status import EventWriter
from trainwright.trainer.watch.inspector import Inspector, Look, local, named_parameters, parameters_of

MOST_PARAMETERS = 40
"""Of a model with more: spread evenly, matrices first."""
SAMPLED = 1024
"""Entries of a parameter that are counted."""
SPACING = 4
"""A histogram is followed by at least a quarter of the steps so far: a million steps have about sixty."""
FIRST_BITS = 2 * (127 + SMALLEST)
"""Of a float's exponent and first binary digit, at the beginning of bin 1."""


class Histograms(Inspector):
    """Counts the entries of the parameters that an optimizer updates."""

    def __init__(self, session: Session) -> None:
        named = {name: p for name, p in named_parameters(session).items() if p.requires_grad and p.numel()}
        self.names = {id(named[name]): name for name in chosen(named)}
        self.log = EventWriter(session.run.path / HISTOGRAMS)
        self.next_step = 0

    def before_update(self, look: Look, optimizer: Optimizer) -> None:
        """Keep a sample of the gradients."""
        if look.step >= self.next_step and not look.is_early:
            look.kept[self, id(optimizer)] = self._gradients(optimizer)

    def after_update(self, look: Look, optimizer: Optimizer) -> None:
        """Keep a sample of the weights; an update that was skipped has neither."""
        if look.step < self.next_step:
            return
        kept = look.kept.setdefault(self, {})
        kept |= look.kept.pop((self, id(optimizer)), None) or self._gradients(optimizer)
        kept |= {WEIGHTS + self.names[id(p)]: sampled(p) for p in self._mine(optimizer)}

    def judge(self, look: Look, values: dict[str, float]) -> None:  # noqa: ARG002 - the moment's form
        """Count, and write a line. Raises OSError."""
        kept: dict[str, Tensor] = look.kept.pop(self, {})
        if not kept:
            return
        counted = {key: counts for key, counts in counts_of(kept).items() if counts is not None}
        lines = {key: counts.model_dump(exclude_defaults=True) for key, counts in counted.items()}
        event = self.log.append(KIND, {"step": look.step, KIND: lines})
        look.histograms += [Histogram(key, look.step, event.time, counts) for key, counts in counted.items()]
        self.next_step = look.step + max(1, look.step // SPACING)

    def _mine(self, optimizer: Optimizer) -> list[nn.Parameter]:
        return [p for p in parameters_of(optimizer) if id(p) in self.names and is_plain(p)]

    def _gradients(self, optimizer: Optimizer) -> dict[str, Tensor]:
        mine = [p for p in self._mine(optimizer) if p.grad is not None and is_plain(p.grad)]
        return {GRADIENTS + self.names[id(p)]: sampled(p.grad) for p in mine if p.grad is not None}


def chosen(named: dict[str, nn.Parameter]) -> list[str]:
    """Return the names that are shown: all, or of many some from the first to the last."""
    names = list(named)
    if len(names) <= MOST_PARAMETERS:
        return names
    matrices = [name for name in names if named[name].dim() > 1]
    names = matrices if len(matrices) >= MOST_PARAMETERS else names
    return [names[number * (len(names) - 1) // (MOST_PARAMETERS - 1)] for number in range(MOST_PARAMETERS)]


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor of any shape is dense and real."""
    return tensor.layout is torch.strided and not tensor.is_complex()


def sampled(tensor: Tensor) -> Tensor:
    """Return entries of a tensor of any shape, spread evenly, as a copy of shape (at most SAMPLED) in float32."""
    entries = local(tensor).reshape(-1)
    return entries[:: -(-entries.numel() // SAMPLED) or 1].to(torch.float32, copy=True)


def counts_of(tensors: dict[str, Tensor]) -> dict[str, Counts | None]:
    """Return the counts of tensors of shape (entries), read from each device in one transfer."""
    by_device: dict[torch.device, list[str]] = {}
    for key, tensor in tensors.items():
        by_device.setdefault(tensor.device, []).append(key)
    found: dict[str, Counts | None] = {}
    for keys in by_device.values():
        read = torch.cat([tensors[key] for key in keys]).cpu().numpy()
        ends = np.cumsum([tensors[key].numel() for key in keys])
        found |= zip(keys, map(_counted, np.split(read, ends[:-1])), strict=True)
    return found


def bins_of(values: npt.NDArray[np.float32]) -> npt.NDArray[np.int32]:
    """Return the bins of finite float32 values, both of shape (entries): by the exponent and the first digit after."""
    bits = values.view(np.int32)
    size: npt.NDArray[np.int32] = np.clip(((bits & 0x7FFFFFFF) >> 22) - FIRST_BITS + 1, 0, LAST_BIN)
    return size * np.where(bits < 0, np.int32(-1), np.int32(1))


def _counted(values: npt.NDArray[np.float32]) -> Counts | None:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    counts = np.bincount(bins_of(finite) + LAST_BIN)
    filled = np.flatnonzero(counts)
    return Counts.model_construct(
        lowest=_short(finite.min()),
        highest=_short(finite.max()),
        bins=dict(zip((filled - LAST_BIN).tolist(), counts[filled].tolist(), strict=True)),
        not_finite=int(values.size - finite.size),
    )


def _short(value: np.float32) -> float:
    """Return a number with seven digits: a float32 has no more."""
    return float(f"{value:.7g}")
