"""Buffers that a module keeps out of its state_dict (`persistent=False`): a later step may depend on them too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torch import Tensor, nn


def hidden_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers that `model.state_dict()` leaves out, by their full names."""
    return {full: value for full, module, name in _hidden(model) if (value := module._buffers[name]) is not None}


def restore_hidden_buffers(model: nn.Module, kept: Mapping[str, Tensor]) -> None:
    """Put such buffers back, those included that grew after the model was built."""
    for full, module, name in list(_hidden(model)):
        if full in kept:
            present = module._buffers[name]
            same = present is not None and present.shape == kept[full].shape
            module._buffers[name] = present.copy_(kept[full]) if same and present is not None else kept[full]


def _hidden(model: nn.Module) -> Iterator[tuple[str, nn.Module, str]]:
    for prefix, module in model.named_modules():
        for name in sorted(module._non_persistent_buffers_set):
            yield f"{prefix}.{name}" if prefix else name, module, name
