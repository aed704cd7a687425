"""Packing of state into JSON types and tensors, non-persistent buffers included.

Every container and number comes back as it was: tuples as tuples, integer keys as integers, NaN as NaN. A tensor in
two places is one tensor again; a leaf that requires a gradient does so again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor, nn

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError, UserCodeError

LATE = frozenset({torch.complex64, torch.uint16, torch.uint32, torch.uint64})
"""Types that older releases of safetensors do not have."""


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


def pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Return `value` as JSON types; its tensors and arrays go to `tensors` under names that begin with `path`.

    Raises:
        UserCodeError: a value that is neither a tensor, an array nor plain; names its place.
    """
    return _Packing(tensors).pack(value, path)


def has_state(value: Any) -> bool:
    """Return whether a value is an object with state_dict and load_state_dict."""
    methods = getattr(value, "state_dict", None), getattr(value, "load_state_dict", None)
    return not isinstance(value, type) and all(callable(method) for method in methods)


@cache
def is_storable(dtype: torch.dtype) -> bool:
    """Return whether safetensors has the type."""
    try:
        return bool(save({"x": torch.empty(0, dtype=dtype)}))
    except (KeyError, ValueError, TypeError, RuntimeError, SafetensorError):
        return False


def in_a_later_release(what: str, dtype: torch.dtype) -> ConfigurationError | None:
    """Return the refusal of a tensor whose type only a newer safetensors has; None where none has it."""
    if dtype not in LATE:
        return None
    return releases.needed(what, releases.OTHER_NUMBERS, "Keep it in another type, for example float32")


class _Packing:
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors
        self.packed: dict[int, tuple[Tensor, Any]] = {}
        """Packed form of each tensor by its id; the tensor is kept so that no other gets the id."""

    def pack(self, value: Any, path: str) -> Any:  # noqa: PLR0911 - one return per type
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | float):
            return _pack_number(value)
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
            name = self._keep(torch.from_numpy(_signed(np.array(value))).clone(), path)
            return {"$": "array", "name": name, "dtype": str(value.dtype), "scalar": isinstance(value, np.generic)}
        if has_state(value):
            return self._object(value, path)
        if isinstance(value, list | tuple):
            items = [self.pack(item, f"{path}/{place}") for place, item in enumerate(value)]
            return items if isinstance(value, list) else {"$": "tuple", "items": items}
        if isinstance(value, dict):
            return self._dict(value, path)
        raise UserCodeError(
            f"{path} holds a {type(value).__name__}, which cannot be checkpointed.",
            remedy="Keep tensors, arrays, numbers, text, lists and dicts in context.state, or objects with state_dict.",
        )

    def _keep(self, tensor: Tensor, path: str) -> str:
        name = path
        while name in self.tensors:  # {"a/b": ...} beside {"a": {"b": ...}}, 1 beside "1"
            name += "'"
        self.tensors[name] = tensor
        return name

    def _tensor(self, value: Tensor, path: str) -> Any:
        if id(value) in self.packed:
            return self.packed[id(value)][1]
        if not is_storable(value.dtype):
            raise in_a_later_release(f"{path}, a tensor of {value.dtype},", value.dtype) or UserCodeError(
                f"{path} holds a tensor of {value.dtype}, which cannot be checkpointed.",
                remedy="Keep it in a type that safetensors has, for example torch.complex64.",
            )
        name = self._keep(value.detach().cpu().contiguous().clone(), path)
        packed: dict[str, Any] = {"$": "tensor", "name": name, "device": value.device.type}
        if isinstance(value, nn.Parameter) or (value.requires_grad and value.is_leaf):
            packed |= {"parameter": isinstance(value, nn.Parameter), "requires_grad": value.requires_grad}
            packed["grad"] = self.pack(value.grad, f"{path}/grad")
        self.packed[id(value)] = value, packed
        return packed

    def _object(self, value: Any, path: str) -> Any:
        packed = {"$": "state_dict", "of": self.pack(value.state_dict(), path)}
        if isinstance(value, nn.Module):
            gradients = {name: p.grad for name, p in value.named_parameters() if p.grad is not None}
            packed["gradients"] = self.pack(gradients, f"{path}/gradients")
            packed["hidden"] = self.pack(hidden_buffers(value), f"{path}/hidden")
        return packed

    def _dict(self, value: dict[Any, Any], path: str) -> Any:
        items = [(key, self.pack(item, f"{path}/{key}")) for key, item in value.items()]
        if all(isinstance(key, str) for key, _ in items) and "$" not in value:
            return dict(items)
        return {"$": "dict", "items": [[self.pack(key, f"{path}/key"), item] for key, item in items]}


def _signed(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array's bytes as a type that each release of safetensors has: before 0.6 none writes unsigned ones."""
    is_wide = array.dtype.kind == "u" and array.dtype.itemsize > 1
    return array.view(f"i{array.dtype.itemsize}") if is_wide else array


def _pack_number(value: float) -> Any:
    if type(value) not in {int, float}:  # an enum or a NumPy float64: only its plain value counts
        value = float(value) if isinstance(value, float) else int(value)
    return value if isinstance(value, int) or math.isfinite(value) else {"$": "float", "is": repr(value)}


def unpack(value: Any, tensors: dict[str, Tensor], device: torch.device | None = None) -> Any:
    """Return the packed value. Objects with a state_dict come back as `SavedState`, for their owner to load."""
    return _Unpacking(tensors, device).unpack(value)


class SavedState:
    """The saved state of an object that the user's build makes anew."""

    def __init__(self, state: Any, gradients: dict[str, Tensor], hidden: dict[str, Tensor]) -> None:
        self.state, self.gradients, self.hidden = state, gradients, hidden


class _Unpacking:
    def __init__(self, tensors: dict[str, Tensor], device: torch.device | None) -> None:
        self.tensors, self.device = tensors, device
        self.made: dict[str, Tensor] = {}

    def unpack(self, value: Any) -> Any:  # noqa: PLR0911 - one return per mark
        if isinstance(value, list):
            return [self.unpack(item) for item in value]
        if not isinstance(value, dict):
            return value
        match value.get("$"):
            case None:
                return {key: self.unpack(item) for key, item in value.items()}
            case "tensor":
                return self._tensor(value)
            case "array":
                array = self.tensors[value["name"]].numpy().view(value["dtype"])
                return array[()] if value["scalar"] else array
            case "tuple":
                return tuple(self.unpack(item) for item in value["items"])
            case "dict":
                return {self.unpack(key): self.unpack(item) for key, item in value["items"]}
            case "float":
                return float(value["is"])
            case "state_dict":
                beside = [self.unpack(value.get(name, {})) for name in ("gradients", "hidden")]
                return SavedState(self.unpack(value["of"]), *beside)
            case other:
                raise ValueError(f"unknown mark {other!r}")

    def _tensor(self, packed: dict[str, Any]) -> Tensor:
        name = packed["name"]
        if name not in self.made:
            tensor = self.tensors[name].clone()  # its offset in a file decides how a dot product is rounded
            if self.device is not None and packed["device"] != "cpu":
                tensor = tensor.to(self.device)
            if "grad" in packed:
                tensor = nn.Parameter(tensor, requires_grad=False) if packed["parameter"] else tensor
                tensor.requires_grad_(packed["requires_grad"]).grad = self.unpack(packed["grad"])
            self.made[name] = tensor
        return self.made[name]
