"""User state between steps: the part that a resumed run can load, and how it is put back.

It is put back in place, container by container, tensor by tensor, object by object: the values in
context.state are often referred to by the user's functions too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.checkpoints.packing import SavedState, has_state, pack, restore_hidden_buffers, unpack

STATE = "context.state"
Kinds = dict[str, type]
"""By place, the type of each value that comes back only if `build` makes one like it."""


def kinds_of(state: dict[str, Any]) -> Kinds:
    """Return the kinds of `build`'s values that are not plain. Raises UserCodeError for a value that cannot be kept."""
    return dict(_special(state, STATE, {}))


def require_resumable(state: dict[str, Any], built: Kinds) -> None:
    """Check that a resumed run, whose `build` makes the same objects as here, can load the present state.

    Raises:
        UserCodeError: names the value that it could not, and the remedy.
    """
    for place, kind in kinds_of(state).items():
        if built.get(place) is kind:
            continue
        plain = next((base.__name__ for base in (dict, list, tuple) if issubclass(kind, base)), None)
        why = f"comes back from a checkpoint as a plain {plain}" if plain else "could not load its state"
        other = f", or keep a plain {plain}" if plain else ""
        raise UserCodeError(
            f"{place} holds a {kind.__name__} that `build` did not make: in a resumed run it {why}.",
            remedy=f"Create it in `build`, where context.state is there already{other}.",
        )


def _special(value: Any, place: str, seen: dict[int, str]) -> Iterator[tuple[str, type]]:
    kind = type(value)
    if has_state(value):
        yield place, kind
    elif isinstance(value, Tensor):
        _require_plain_tensor(value, place)
        pack(value[:0] if value.dim() else value, place, {})  # refuses a type that cannot be stored
    elif isinstance(value, dict | list | tuple):
        if kind not in {dict, list, tuple}:
            yield place, kind
        if not isinstance(value, tuple):
            _require_once(value, place, seen)
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if not isinstance(key, str | int):
                pack(key, f"a key of {place}", {})
            yield from _special(item, f"{place}[{key!r}]", seen)
    elif value is not None and not isinstance(value, bool | int | float | str):
        pack(value, place, {})  # refuses anything but arrays


def _require_plain_tensor(value: Tensor, place: str) -> None:
    if type(value) not in {Tensor, nn.Parameter}:
        raise UserCodeError(
            f"{place} holds a {type(value).__name__}, which comes back from a checkpoint as a plain tensor.",
            remedy="Keep value.as_subclass(torch.Tensor) there, and make the subclass of it where it is needed.",
        )


def _require_once(value: Any, place: str, seen: dict[int, str]) -> None:
    if id(value) in seen:
        raise UserCodeError(
            f"{place} holds the {type(value).__name__} that {seen[id(value)]} holds: in a resumed run they are two.",
            remedy="Keep it in context.state once.",
        )
    seen[id(value)] = place


@contextmanager
def unchanged(state: dict[str, Any], built: Kinds, device: torch.device) -> Iterator[None]:
    """Undo all changes of the state inside the context.

    Raises:
        UserCodeError: a value was added that no resumed run could load.
    """
    tensors: dict[str, Tensor] = {}
    saved = pack(state, STATE, tensors)
    yield
    require_resumable(state, built)
    load_into(state, unpack(saved, tensors, device))


def load_into(present: dict[str, Any], saved: dict[str, Any]) -> None:
    """Bring a user's state back. Raises UserCodeError for the state of an object that is not there."""
    _Loading().value(present, saved, STATE)


class _Loading:
    def __init__(self) -> None:
        self.filled: set[int] = set()
        """Objects filled in place, by id or by memory: one that was in two places before need not be now."""
        self.given: dict[int, Tensor] = {}
        """By the id of a saved tensor, its replacement."""

    def value(self, present: Any, saved: Any, place: str) -> Any:
        """Return the replacement of `saved`: `present` itself wherever it can hold the value."""
        if isinstance(saved, SavedState):
            return _with_state(present, saved, place)
        if isinstance(saved, Tensor):
            return self._tensor(present, saved)
        if isinstance(saved, dict):
            before = present if isinstance(present, dict) else {}
            held = {key: self.value(before.get(key), item, f"{place}[{key!r}]") for key, item in saved.items()}
            if isinstance(present, dict) and self._first(id(present)):
                present.clear()
                present.update(held)
                return present
            return held
        return self._sequence(present, saved, place) if isinstance(saved, list | tuple) else saved

    def _sequence(self, present: Any, saved: Any, place: str) -> Any:
        before = present[: len(saved)] if isinstance(present, list | tuple) else ()
        items = [self.value(b, s, f"{place}[{n}]") for n, (b, s) in enumerate(zip_longest(before, saved))]
        if isinstance(saved, tuple):
            return type(present)._make(items) if hasattr(present, "_make") else tuple(items)
        if isinstance(present, list) and self._first(id(present)):
            present[:] = items
            return present
        return items

    def _tensor(self, present: Any, saved: Tensor) -> Tensor:
        if id(saved) not in self.given:
            fits = isinstance(present, Tensor) and _alike(present, saved)
            if fits and self._first(present.untyped_storage().data_ptr()):
                with torch.no_grad():
                    present.copy_(saved)
                present.grad = saved.grad
            else:
                present = saved
            self.given[id(saved)] = present
        return self.given[id(saved)]

    def _first(self, key: int) -> bool:
        is_first = key not in self.filled
        self.filled.add(key)
        return is_first


def _alike(present: Tensor, saved: Tensor) -> bool:
    def form(tensor: Tensor) -> tuple[Any, ...]:
        of_gradients = tensor.requires_grad, tensor.is_leaf, tensor.is_inference()
        return type(tensor), tensor.dtype, tensor.device, tensor.shape, tensor.stride(), *of_gradients

    return form(present) == form(saved)


def _with_state(present: Any, saved: SavedState, place: str) -> Any:
    if not has_state(present):
        raise UserCodeError(
            f"The checkpoint holds the state of an object at {place}, where `build` made none.",
            remedy="Create it in `build`, under the same name, and start a new run: start_training(project, kind).",
        )
    present.load_state_dict(saved.state)
    if isinstance(present, nn.Module):
        restore_hidden_buffers(present, saved.hidden)
        for name, parameter in present.named_parameters():
            parameter.grad = saved.gradients.get(name)
    return present
