"""Activations of the modules: units that are dead over a batch, saturated shares, and the largest values.

`layers/dead_share/<module>`: share of the units of a ReLU, or of what enters a layer (`<module>.input`, which shows a
relu called as a function), that are zero for every sample of the batch. `layers/saturated_share/<module>`: share of the
outputs of a sigmoid, tanh or softmax within a hundredth of their bounds. `layers/activation_max/<module>`: the largest
absolute output. Only the first forward pass of an inspected step, in training mode, is measured.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.engine.observers.observer import StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.inspector import Inspector, Look, is_compiled

MAX_MODULES = 200
MIN_SAMPLES = 16
"""Fewer say nothing about a unit: it may be zero for each by chance."""
MARGIN = 0.01
RECTIFIED = (nn.ReLU, nn.ReLU6)
SATURATING = (nn.Sigmoid, nn.Tanh, nn.Softmax)
WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
FUSED = (nn.TransformerEncoderLayer, nn.MultiheadAttention)
"""They take another path through torch where a hook is inside."""
DEAD, SATURATED, LARGEST = "layers/dead_share/", "layers/saturated_share/", "layers/activation_max/"
SUMMARIES = {
    DEAD: "watch/dead_share_max",
    SATURATED: "watch/saturated_share_max",
    LARGEST: "watch/activation_max",
}


class Activations(Inspector):
    """Measures the outputs of activations and layers by hooks that are there for the inspected step alone."""

    def __init__(self, session: Session) -> None:
        fused = tuple(name for name, module in session.model.named_modules() if isinstance(module, FUSED))
        named = [
            (name, module)
            for name, module in session.model.named_modules()
            if isinstance(module, (*RECTIFIED, *SATURATING, *WEIGHTED)) and not name.startswith(fused or ("\0",))
        ]
        self.modules = named[:: -(-len(named) // MAX_MODULES) or 1]
        self.is_compiled = is_compiled(session)

    def begin(self, look: Look) -> None:
        """Put the hooks in place; a compiled model would keep them."""
        if not self.is_compiled:
            for name, module in self.modules:
                look.watch(module, partial(self._measure, look, name))

    def unjudged(self) -> list[str]:
        """Say what a compiled model hides."""
        return ["activations: torch.compile keeps hooks that it has seen once"] if self.is_compiled else []

    def _measure(self, look: Look, name: str, module: nn.Module, given: Any, output: Any) -> None:
        order: list[str] = look.kept.setdefault(self, [])
        if not module.training or name in order or not _is_plain(output):
            return
        order.append(name)
        look.values[LARGEST + name] = torch.linalg.vector_norm(output.detach(), torch.inf)
        if isinstance(module, RECTIFIED):
            look.kept[self, id(output)] = output  # the next layer's input, most likely
            _add_dead(look, name, output, channel=1 if output.dim() >= 4 else -1)
        elif isinstance(module, SATURATING):
            look.values[SATURATED + name] = saturated_share(module, output.detach())
        else:
            look.kept[self, "weighted"] = len(order)
            self._measure_input(look, name, module, given)

    def _measure_input(self, look: Look, name: str, module: nn.Module, given: Any) -> None:
        entering = given[0] if isinstance(given, tuple) and given else None
        if not isinstance(entering, Tensor) or (self, id(entering)) in look.kept:
            return
        if _is_plain(entering) and entering.requires_grad:  # data may well have empty columns
            _add_dead(look, f"{name}.input", entering, channel=-1 if isinstance(module, nn.Linear) else 1)

    def before_update(self, look: Look, optimizer: Optimizer) -> None:  # noqa: ARG002 - the moment's form
        """Let go of outputs, and of the graphs that hang on them."""
        look.kept = {key: value for key, value in look.kept.items() if not _is_tensor_of(self, key)}

    def end(self, look: Look, result: StepResult) -> None:  # noqa: ARG002 - the moment's form
        """Leave out what no layer follows: the outputs of a sure classifier are saturated, and well so."""
        order = look.kept.get(self, [])
        for name in order[look.kept.get((self, "weighted"), 0) :]:
            look.values.pop(SATURATED + name, None)
        look.kept = {key: value for key, value in look.kept.items() if not _is_tensor_of(self, key)}

    def judge(self, look: Look, values: dict[str, float]) -> None:
        """Sum up over the modules."""
        for prefix, name in SUMMARIES.items():
            found = [value for key, value in values.items() if key.startswith(prefix)]
            if found:
                look.values[name] = max(found)


def _is_tensor_of(inspector: Inspector, key: Any) -> bool:
    return isinstance(key, tuple) and key[0] is inspector and isinstance(key[1], int)


def _is_plain(value: Any) -> bool:
    if type(value) is not Tensor or torch._C._functorch.is_functorch_wrapped_tensor(
        value
    ):  # of vmap: it must not leave
        return False
    return value.is_floating_point() and value.numel() > 0 and value.dim() >= 2


def _add_dead(look: Look, name: str, output: Tensor, channel: int) -> None:
    units = output.detach().movedim(channel, -1).flatten(end_dim=-2)
    if units.shape[0] >= MIN_SAMPLES:
        look.values[DEAD + name] = dead_share(units)


def dead_share(units: Tensor) -> Tensor:
    """Return the share of units that are not above zero in any sample, a scalar; `units` is (samples, units)."""
    return (units.amax(dim=0) <= 0).float().mean()


def saturated_share(module: nn.Module, output: Tensor) -> Tensor:
    """Return the share of outputs of any shape within MARGIN of their bounds (softmax: of the upper one), a scalar."""
    if isinstance(module, nn.Softmax):
        largest = output.amax(dim=module.dim if module.dim is not None else -1)
        return (largest > 1 - MARGIN).float().mean()
    half = (output.abs() if isinstance(module, nn.Tanh) else (output - 0.5).abs() * 2) > 1 - 2 * MARGIN
    return half.float().mean()
