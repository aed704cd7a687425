"""Deferred import of torch's compiler: over a second, and memory, that a run which compiles nothing need not spend.

Every `optimizer.step()` imports torch._dynamo to call `graph_break()`, which does nothing outside compiled code, and
four more methods of an optimizer import it to mark themselves with `disable` (torch/optim/optimizer.py, torch 2.13).
A placeholder answers these two; whoever asks it for anything else gets the compiler, imported then.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

COMPILER = "torch._dynamo"
OF_PACKAGE = "__path__"
"""Asked for when a module of the compiler is imported: its package has to be there by then."""


class _Placeholder(ModuleType):
    """The compiler before its import; after it, another name for it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != OF_PACKAGE:  # asked of every module, by `inspect` and the like
            raise AttributeError(name)
        return getattr(_imported(self), name)

    @staticmethod
    def graph_break(msg: str = "") -> None:
        """Nothing: this is not compiled code."""

    def disable(self, function: Callable[..., Any], *given: Any, **options: Any) -> Callable[..., Any]:
        """Return the function; once the compiler is imported, as the compiler disables it."""

        @functools.wraps(function)
        def plain_until_imported(*args: Any, **kwargs: Any) -> Any:
            compiler = sys.modules.get(COMPILER)
            if compiler is None or compiler is self:
                return function(*args, **kwargs)
            return disabled(compiler)(*args, **kwargs)

        @functools.cache
        def disabled(compiler: ModuleType) -> Callable[..., Any]:
            return compiler.disable(function, *given, **options)  # type: ignore[no-any-return]

        return plain_until_imported


def defer_compiler() -> None:
    """Put the placeholder where torch looks for its compiler. No effect once that is imported."""
    if COMPILER in sys.modules:
        return
    spec = importlib.util.find_spec(COMPILER)
    if spec is None:
        return
    placeholder = _Placeholder(COMPILER)
    placeholder.__file__, placeholder.__spec__ = spec.origin, spec
    sys.modules[COMPILER] = placeholder


def _imported(placeholder: ModuleType) -> ModuleType:
    if sys.modules.get(COMPILER) is placeholder:
        del sys.modules[COMPILER]
    return importlib.import_module(COMPILER)
