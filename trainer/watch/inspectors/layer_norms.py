"""Norms of gradients, weights and updates by parameter; of a model of many parameters by module.

`layers/gradient_norm/<name>` is measured before clipping by norm, `layers/weight_norm/<name>` after the update,
`layers/update_ratio/<name>` is the update's norm ÷ the weights' before it, of large parameters over a sample of their
entries that is spread evenly.

Two numbers sum a step up. `watch/update_ratio_median` leaves out parameters that begin near zero (biases, zero gates, B
of a LoRA, a zero head): any step is many times their size. `watch/gradient_spread` is of modules, not parameters: the
bias of attention's keys, or before a batch norm, has no gradient by algebra, and its module learns all the same.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.engine.observers.observer import StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.inspector import Inspector, Look, local, named_parameters, parameters_of

MAX_NAMES = 200
SAMPLED = 4096
"""Entries of a parameter that its update is measured on."""
NEAR_ZERO = 1e-3
"""Root mean square of a parameter that begins near zero: usual starts are from 0.005 (residual layers) on."""
GRADIENT, WEIGHT, RATIO = "layers/gradient_norm/", "layers/weight_norm/", "layers/update_ratio/"


class LayerNorms(Inspector):
    """Measures the norms of the parameters that an optimizer updates."""

    def __init__(self, session: Session) -> None:
        named = named_parameters(session)
        self.names = layer_names({name: id(p) for name, p in named.items()})
        self.owners = {id(p): name.rpartition(".")[0] or name for name, p in named.items()}
        self.small = begun_near_zero(session) if session.near_zero is None else session.near_zero

    def before_update(self, look: Look, optimizer: Optimizer) -> None:
        """Keep a sample of the weights, and the gradients' norms."""
        parameters = [p for p in parameters_of(optimizer) if id(p) in self.names and p.requires_grad]
        gradients = {} if look.is_early else gradient_norms(parameters)
        look.kept[self, id(optimizer)] = {id(p): sampled(p) for p in parameters}, gradients

    def after_update(self, look: Look, optimizer: Optimizer) -> None:
        """Measure weights and updates."""
        kept, gradients = look.kept.pop((self, id(optimizer)), ({}, {}))
        gradients = gradients or gradient_norms(parameters_of(optimizer))
        parameters = [p for p in parameters_of(optimizer) if id(p) in kept and id(p) in gradients]
        for device in {p.device for p in parameters}:
            here = [p for p in parameters if p.device == device]
            look.kept.setdefault(self, []).append(([id(p) for p in here], self._measured(here, kept, gradients)))

    def _measured(
        self, parameters: list[nn.Parameter], kept: dict[int, Tensor], gradients: dict[int, Tensor]
    ) -> Tensor:
        """Return the norms of gradients, weights, updates and weights before: (4, parameters), all on one device."""
        before = [kept[id(p)] for p in parameters]
        moved = torch._foreach_sub([sampled(p) for p in parameters], before)
        weights = [local(p) for p in parameters]
        measured = [[gradients[id(p)] for p in parameters], norms(weights), norms(moved), norms(before)]
        return torch.stack([torch.stack(each) for each in measured])

    def end(self, look: Look, result: StepResult) -> None:
        """Scale the gradients' norms back to what they were before they were clipped by norm."""
        clipped = result.values.get("applied_gradient_norm")
        factor: Any = 1.0
        if look.session.config.training.clip_norm is not None and clipped is not None:
            factor = torch.as_tensor(result.gradient_norm) / torch.as_tensor(clipped).clamp(min=1e-30)
        for _, measured in look.kept.get(self, []):
            measured[0] *= factor.to(measured.device) if isinstance(factor, Tensor) else factor

    def judge(self, look: Look, values: dict[str, float]) -> None:  # noqa: ARG002 - the moment's form
        """Sum up by name, and for gradients by module."""
        sums: dict[str, list[float]] = {}
        of_modules: dict[str, float] = {}
        sizeable: set[str] = set()
        for ids, measured in look.kept.get(self, []):
            for each, *squares in zip(ids, *(measured.cpu().double() ** 2).tolist(), strict=True):
                name, owner = self.names[each], self.owners[each]
                sums[name] = [a + b for a, b in zip(sums.get(name, [0.0] * len(squares)), squares, strict=True)]
                of_modules[owner] = of_modules.get(owner, 0.0) + squares[0]
                sizeable |= set() if each in self.small else {name}
        for name, squares in sums.items():
            gradient, weight, moved, before = map(math.sqrt, squares)
            look.values |= {GRADIENT + name: gradient, WEIGHT + name: weight}
            look.values |= {RATIO + name: moved / before} if before > 0 else {}
        ratios = [float(look.values[RATIO + name]) for name in sizeable if RATIO + name in look.values]
        if ratios:
            look.values["watch/update_ratio_median"] = statistics.median(ratios)
        present = [square for square in of_modules.values() if square > 0]
        if len(present) > 1:
            look.values["watch/gradient_spread"] = math.sqrt(min(present) / max(present))


def begun_near_zero(session: Session) -> frozenset[int]:
    """Return the ids of parameters near zero now, which is to be asked before a checkpoint is loaded."""
    named = [p for p in named_parameters(session).values() if p.is_floating_point()]  # not those of a quantised base
    sizes = zip(named, norms([local(p) for p in named]), strict=True)
    return frozenset(id(p) for p, size in sizes if float(size) < NEAR_ZERO * max(p.numel(), 1) ** 0.5)


def gradient_norms(parameters: list[nn.Parameter]) -> dict[int, Tensor]:
    """Return the norm (a scalar) of each gradient that there is, by its parameter's id."""
    present = [parameter for parameter in parameters if parameter.grad is not None]
    found = norms([local(parameter.grad) for parameter in present if parameter.grad is not None])
    return dict(zip(map(id, present), found, strict=True))


def sampled(parameter: Tensor) -> Tensor:
    """Return entries of a tensor of any shape, spread evenly, as a copy of shape (at most SAMPLED) in float32."""
    entries = local(parameter).reshape(-1)
    return entries[:: -(-entries.numel() // SAMPLED) or 1].to(torch.float32, copy=True)


def norms(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the 2-norms of tensors of any shapes, scalars in float32 on their devices."""
    try:
        found = list(torch._foreach_norm(list(tensors), 2, dtype=torch.float32))
    except (RuntimeError, NotImplementedError, TypeError):  # sparse ones, say, or complex
        found = [torch.linalg.vector_norm(each.to_dense() if each.is_sparse else each) for each in tensors]
    return [each.to(torch.float32) for each in found]


def layer_names(ids: dict[str, int]) -> dict[int, str]:
    """Return the name that each parameter is summed up under: its own, or where there are many that of a module."""
    parts = {name: name.split(".") for name in ids}
    for depth in range(max(map(len, parts.values()), default=1), 0, -1):
        short = {name: ".".join(of_name[:depth]) for name, of_name in parts.items()}
        if len(set(short.values())) <= MAX_NAMES:
            return {ids[name]: layer for name, layer in short.items()}
    return dict.fromkeys(ids.values(), "all")
