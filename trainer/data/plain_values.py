"""Plain values of a sample: inputs and target as arrays, read by exact type and never through methods of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError

TARGET_KEYS = ("labels", "label", "targets", "target", "y")
"""Keys of a mapping that hold its target; the first that is there counts."""
MAX_NAME = 100
NUMBERS = (bool, int, float)
KINDS = "biufc"
"""Kinds of numbers that an array may hold."""


class PlainSample(NamedTuple):
    """Inputs by name, and the target where there is one."""

    inputs: dict[str, Array]
    target: Array | None

    @property
    def arrays(self) -> list[Array]:
        """Inputs in order, then the target."""
        return [*self.inputs.values(), *([] if self.target is None else [self.target])]


def input_name(number: int, count: int) -> str:
    """Return the name of a positional input: `input`, or `input_0`, `input_1` …"""
    return "input" if count == 1 else f"input_{number}"


def target_key(sample: Mapping[str, Any]) -> str | None:
    """Return the key of a mapping's target; None where it has none."""
    return next((name for name in TARGET_KEYS if name in sample), None)


def plain_sample(sample: Any) -> PlainSample:
    """Return the arrays of a sample; the last of several positional values is the target.

    Raises:
        DataError: a value is no number, array or tensor of exactly the library's type; it says what to change.
    """
    if type(sample) is dict:
        if not all(type(name) is str and 0 < len(name) <= MAX_NAME for name in sample):
            raise _not_plain("Names of a sample's values", "something else than short text", "Use text as keys.")
        key = target_key(sample)
        inputs = {name: _plain(value, f"`{name}`") for name, value in sample.items() if name != key}
        return PlainSample(inputs, None if key is None else _plain(sample[key], f"`{key}`"))
    if type(sample) not in (tuple, list):
        return PlainSample({"input": _plain(sample, "The sample")}, None)
    given, target = (sample[:-1], _plain(sample[-1], "The target")) if len(sample) > 1 else (sample, None)
    return PlainSample(_positional(given), target)


def _positional(given: Sequence[Any]) -> dict[str, Array]:
    names = [input_name(number, len(given)) for number in range(len(given))]
    return {name: _plain(value, f"The value `{name}`") for name, value in zip(names, given, strict=True)}


def plain_tensor(value: torch.Tensor) -> Array:
    """Return a dense tensor's numbers, (...) of any shape; bfloat16, which NumPy has not, as float32."""
    value = value.detach().cpu().resolve_conj().resolve_neg()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def _plain(value: Any, what: str) -> Array:
    kind = type(value)
    array = None
    if kind is torch.Tensor and value.layout is torch.strided and not value.is_quantized:
        array = plain_tensor(value)
    elif kind is np.ndarray:
        array = value
    elif kind in NUMBERS or (issubclass(kind, np.generic) and kind.__module__ == "numpy"):
        array = np.array(value)
    elif kind is list and value and all(type(each) in NUMBERS for each in value):
        array = np.array(value)  # a tokenised row of a data set of Hugging Face
    if array is not None and array.dtype.kind in KINDS:
        return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
    found = f"a {kind.__module__}.{kind.__qualname__}"[:160] if array is None else f"an array of {array.dtype}"
    raise _not_plain(what, found, _remedy_for(value))


def _remedy_for(value: Any) -> str:
    kind = type(value)
    if isinstance(value, torch.Tensor):
        return "Return plain dense tensors: value.as_subclass(torch.Tensor), or value.to_dense() of a sparse one."
    if isinstance(value, tuple | list | dict) or hasattr(value, "keys"):
        return "Return one flat tuple (inputs…, target) or one plain dict of tensors, not one inside another."
    if kind.__module__.startswith("PIL"):
        return "Turn the image into a tensor in the data set: torch.from_numpy(numpy.array(image))."
    if isinstance(value, str | bytes):
        return "Turn text into tensors of token numbers in the data set rather than in `collate` or the model."
    return "Return tensors, arrays or numbers from the data set, rather than objects."


def _not_plain(what: str, found: str, remedy: str) -> DataError:
    return DataError(f"{what} is {found}, which is no plain array.", remedy=remedy)
