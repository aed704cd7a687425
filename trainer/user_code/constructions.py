"""Calls with which user code made its modules, as plain values: a model built with its data can be built again by them.

A constructor is met where it reaches torch's own `__init__`; its arguments are those of the outermost `__init__` of the
same object, as Lightning's `save_hyperparameters` finds them.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError

CALL = "__call__"
"""Key of a call among plain values: {CALL: "module:name", "args": [...], "options": {...}}."""
Plain = dict[str, Any]
Given = dict[str, Any]
_KNOWN: WeakKeyDictionary[nn.Module, Plain | str] = WeakKeyDictionary()
"""Of a model its call, or why there is none in words: an error would hold what it came from, and that the model."""


@dataclass(frozen=True)
class _Made:
    """A module that was made, which keeps its id from being another's, and what its class was given."""

    module: nn.Module
    args: list[Any]
    options: Given


@contextmanager
def remembered() -> Iterator[Any]:
    """Give a function that keeps, of a model made inside, the call that made it: see `made_with`."""
    found: dict[int, _Made] = {}
    original = nn.Module.__init__

    @functools.wraps(original)
    def initialise(self: nn.Module, *args: Any, **options: Any) -> None:
        frame = _constructor(self, sys._getframe(1))
        given = ([*args], options) if frame is None else _arguments(frame)
        found[id(self)] = _Made(self, *given)
        original(self, *args, **options)

    def keep(model: Any) -> None:
        if isinstance(model, nn.Module) and type(model).__hash__ is not None:
            try:
                _KNOWN[model] = _call_of(found, model)
            except ConfigurationError as error:
                _KNOWN[model] = error.message

    nn.Module.__init__ = initialise  # type: ignore[method-assign]
    try:
        yield keep
    finally:
        nn.Module.__init__ = original  # type: ignore[method-assign]


def made_with(model: nn.Module) -> Plain | None:
    """Return the call that made a model, of plain values and calls; None where nothing is known of it.

    Raises:
        ConfigurationError: an argument is no plain value; names it.
    """
    found = _KNOWN.get(model) if type(model).__hash__ is not None else None
    if isinstance(found, str):
        raise ConfigurationError(found, remedy="load.py calls the model's class with plain values.")
    return found


def _constructor(module: nn.Module, frame: FrameType | None) -> FrameType | None:
    """Return the frame of the outermost `__init__` of a module; None where there is none but torch's."""
    found = None
    while frame is not None and frame.f_code.co_argcount and frame.f_locals.get(frame.f_code.co_varnames[0]) is module:
        found = frame if frame.f_code.co_name == "__init__" else found
        frame = frame.f_back
    return found


def _arguments(frame: FrameType) -> tuple[list[Any], Given]:
    """Return what an `__init__` got, by position only before a `*args`."""
    code, held = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    first, beside = names[1 : code.co_argcount], list(code.co_varnames[len(names) :])
    several = held.get(beside.pop(0), ()) if code.co_flags & inspect.CO_VARARGS else None
    more = held.get(beside.pop(0), {}) if code.co_flags & inspect.CO_VARKEYWORDS else {}
    by_place = [] if several is None else [*(held[name] for name in first if name in held), *several]
    by_name = names[code.co_argcount :] if several is not None else names[1:]
    return by_place, {**{name: held[name] for name in by_name if name in held}, **more}


def _call_of(found: Mapping[int, _Made], module: nn.Module) -> Plain:
    """Return the call that made a module. Raises ConfigurationError where an argument is no plain value."""
    kind, made = type(module), found.get(id(module))
    if made is None or made.module is not module:
        raise _unknown(f"{kind.__name__} was not made by calling its class")
    if "<locals>" in kind.__qualname__:
        raise _unknown(f"{kind.__name__} is defined inside a function: define it at the top of a file")
    defaults = {name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()}
    options = {name: value for name, value in made.options.items() if value is not defaults.get(name, _Made)}
    return {
        CALL: f"{kind.__module__}:{kind.__qualname__}",
        "args": [_plain(found, value, kind, f"number {place}") for place, value in enumerate(made.args)],
        "options": {name: _plain(found, value, kind, f"`{name}`") for name, value in options.items()},
    }


def _plain(found: Mapping[int, _Made], value: Any, kind: type, what: str) -> Any:
    """Return a value as JSON has it, and a module as the call that made it."""
    if isinstance(value, nn.Module):
        return _call_of(found, value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list | tuple):
        return [_plain(found, one, kind, what) for one in value]
    if isinstance(value, Mapping) and CALL not in value and all(isinstance(name, str) for name in value):
        return {name: _plain(found, one, kind, what) for name, one in value.items()}
    raise _unknown(
        f"{kind.__name__} was called with argument {what}, a {type(value).__name__}, which is no number, word or list: "
        "give it sizes in place of it"
    )


def _unknown(why: str) -> ConfigurationError:
    return ConfigurationError(f"{why}.", remedy="It is kept as words.")
