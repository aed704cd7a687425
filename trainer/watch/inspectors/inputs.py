"""Inputs of the model: how large the numbers are that its first layer multiplies.

`watch/input_scale` is their root mean square in the middle row of a batch, on the first inspected steps: one wild row
is no scale. A layer of embeddings or norms that comes first makes their scale irrelevant, and nothing is measured.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.inspector import Inspector, Look, is_compiled
from trainwright.trainer.watch.inspectors.activations import FUSED
from trainwright.trainer.watch.schedule import FIRST_STEPS

SCALE = "watch/input_scale"
MULTIPLIES = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.RNNBase, nn.RNNCellBase)


class Inputs(Inspector):
    """Measures what enters the first layer that has parameters."""

    def __init__(self, session: Session) -> None:
        fused = tuple(f"{name}." for name, module in session.model.named_modules() if isinstance(module, FUSED))
        self.layers = [
            module
            for name, module in session.model.named_modules()
            if any(True for _ in module.parameters(recurse=False)) and not name.startswith(fused or ("\0",))
        ]
        self.is_compiled = is_compiled(session)

    def begin(self, look: Look) -> None:
        """Wait for the first of the layers to have been called; a compiled model would keep the hooks."""
        if look.step > FIRST_STEPS or self.is_compiled:
            return

        def measure(layer: nn.Module, given: Any, output: Any) -> None:  # noqa: ARG001 - the hook's form
            if look.kept.setdefault(self, layer) is not layer or SCALE in look.values:
                return
            if isinstance(layer, MULTIPLIES) and given and isinstance(given[0], Tensor):
                numbers = given[0].detach()
                if numbers.is_floating_point() and numbers.dim() and numbers.numel():
                    rows = numbers.float().reshape(len(numbers), -1)
                    look.values[SCALE] = (rows.norm(dim=1) / rows.shape[1] ** 0.5).median()

        for layer in self.layers:
            look.watch(layer, measure)
