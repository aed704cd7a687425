"""Nested Python values as JSON plus named tensors, and back, without pickle.

Every container and number comes back as it was: tuples as tuples, integer keys as integers, NaN as NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.errors import UserCodeError


def pack(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:  # noqa: PLR0911 - one return per type
    """Return `value` as JSON types; its tensors and arrays go to `tensors` under names that begin with `path`.

    Raises:
        UserCodeError: a value that is neither a tensor, an array nor plain; names where it stands.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return _pack_number(value)
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous().clone()
        return {"$": "tensor", "name": path, "device": value.device.type}
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        tensors[path] = torch.from_numpy(np.array(value)).clone()
        return {"$": "array", "name": path, "dtype": str(value.dtype), "scalar": isinstance(value, np.generic)}
    if isinstance(value, list | tuple):
        items = [pack(item, f"{path}/{place}", tensors) for place, item in enumerate(value)]
        return items if isinstance(value, list) else {"$": "tuple", "items": items}
    if isinstance(value, dict):
        return _pack_dict(value, path, tensors)
    if callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None)):
        return {"$": "state_dict", "of": pack(value.state_dict(), path, tensors)}
    raise UserCodeError(
        f"{path} holds a {type(value).__name__}, which cannot be checkpointed.",
        remedy="Keep tensors, arrays, numbers, text, lists and dicts in context.state, or objects with state_dict.",
    )


def _pack_number(value: float) -> Any:
    if type(value) not in {int, float}:  # an enum or a NumPy float64: its plain value is what counts
        value = float(value) if isinstance(value, float) else int(value)
    return value if isinstance(value, int) or math.isfinite(value) else {"$": "float", "is": repr(value)}


def _pack_dict(value: dict[Any, Any], path: str, tensors: dict[str, Tensor]) -> Any:
    items = [(key, pack(item, f"{path}/{key}", tensors)) for key, item in value.items()]
    if all(isinstance(key, str) for key, _ in items) and "$" not in value:
        return dict(items)
    return {"$": "dict", "items": [[pack(key, f"{path}/key", tensors), item] for key, item in items]}


def unpack(  # noqa: PLR0911 - one return per mark
    value: Any, tensors: dict[str, Tensor], device: torch.device | None = None
) -> Any:
    """Return what was packed. Objects with a state_dict come back as `SavedState`, for their owner to load."""
    if isinstance(value, list):
        return [unpack(item, tensors, device) for item in value]
    if not isinstance(value, dict):
        return value
    match value.get("$"):
        case None:
            return {key: unpack(item, tensors, device) for key, item in value.items()}
        case "tensor":
            tensor = tensors[value["name"]]
            return tensor.to(device) if device is not None and value["device"] != "cpu" else tensor
        case "array":
            array = tensors[value["name"]].numpy()
            return array[()] if value["scalar"] else array
        case "tuple":
            return tuple(unpack(item, tensors, device) for item in value["items"])
        case "dict":
            return {unpack(k, tensors, device): unpack(item, tensors, device) for k, item in value["items"]}
        case "float":
            return float(value["is"])
        case "state_dict":
            return SavedState(unpack(value["of"], tensors, device))
        case other:
            raise ValueError(f"unknown mark {other!r}")


class SavedState:
    """The saved state of an object that the user's build makes anew."""

    def __init__(self, state: Any) -> None:
        self.state = state


def load_into(present: dict[str, Any], saved: dict[str, Any]) -> None:
    """Bring a user's state back: plain values are replaced, objects load their state in place."""
    for key in [key for key in present if key not in saved]:
        del present[key]
    for key, value in saved.items():
        if isinstance(value, SavedState):
            present[key].load_state_dict(value.state)
        elif isinstance(value, dict) and isinstance(present.get(key), dict):
            load_into(present[key], value)
        else:
            present[key] = value
