"""Workers that are killed at a call of an engine function, which is named by itself and not by where it stands."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import trainwright


def kill_at_call(
    function: Callable[..., Any], number: int, sign: int = signal.SIGKILL, *, called_in: ModuleType | None = None
) -> Callable[[], None]:
    """Return a function that makes the `number`-th call of an engine function send the process a signal first.

    `called_in` counts the calls of one module only, to a function that others call too.
    """

    def arrange() -> None:
        calls = iter(range(1, 10_000))

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), sign)
            return function(*args, **kwargs)

        replaced = [_replace(place, function, wrapped) for place in ([called_in] if called_in else _places(function))]
        assert any(replaced), f"nothing calls {function.__qualname__} by its name"

    return arrange


def _places(function: Callable[..., Any]) -> list[Any]:
    """Return what may hold the function under its name: where it is defined, and the package's modules."""
    owner: Any = sys.modules[function.__module__]
    for name in function.__qualname__.split(".")[:-1]:
        owner = getattr(owner, name)
    package = f"{trainwright.__name__}."
    return [owner, *(module for name, module in list(sys.modules.items()) if name.startswith(package))]


def _replace(place: Any, function: Callable[..., Any], other: Callable[..., Any]) -> bool:
    name = function.__name__
    if vars(place).get(name) is not function:
        return False
    setattr(place, name, other)
    return True
