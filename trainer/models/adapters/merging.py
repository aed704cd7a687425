"""Adapters taken into the weights that they stand beside."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn


def merged(model: nn.Module) -> nn.Module:
    """Return a copy with the adapters merged into the weights; the model itself where it has none."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    if not any(isinstance(module, BaseTunerLayer) for module in model.modules()):
        return model
    plain = copy.deepcopy(model)
    for name, module in list(plain.named_modules()):
        if isinstance(module, BaseTunerLayer):
            layer: Any = module
            layer.merge()
            parent, _, own = name.rpartition(".")
            setattr(plain.get_submodule(parent), own, layer.get_base_layer())  # set_submodule begins with torch 2.5
    return plain
