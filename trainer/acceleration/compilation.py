"""Compilation by torch.compile, and runs that leave the compiler out.

Every `optimizer.step()` imports torch._dynamo to call `graph_break()`, which does nothing outside compiled code, and
four more methods of an optimizer import it to mark themselves with `disable` (torch/optim/optimizer.py, torch 2.13).
A placeholder provides these two; any other attribute imports the compiler.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch import nn

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.schema import CompileSection

GRAPHED = frozenset({"reduce-overhead", "max-autotune"})
"""Modes under which torch records CUDA graphs."""
SIZES = 32
"""Sizes of batches that are compiled, before the run is stopped."""
LIMITS = {
    ("recompile_limit", "cache_size_limit"): SIZES,
    ("accumulated_recompile_limit", "accumulated_cache_size_limit"): max(SIZES * 64, 4096),
    ("fail_on_recompile_limit_hit", "fail_on_cache_limit_hit"): True,
}
"""Settings of the compiler, each by its name and by the one that torch 2.6 has for it; before, it has no last one."""


def compile_model(model: nn.Module, section: CompileSection, device: torch.device) -> None:
    """Compile the model's forward with its first call.

    Each size of batch gets its own kernel (unless `dynamic`), regardless of earlier sizes: so a resumed run, which
    meets the sizes in another order, computes the same bits. A failed compilation is an error, never a quiet return
    to eager mode, whose bits differ.

    Raises:
        ConfigurationError: this machine has no compiler for the device, or torch would return to eager mode unasked.
    """
    require_compiler(device)
    import torch._dynamo as dynamo

    for names, limit in LIMITS.items():
        known = [name for name in names if hasattr(dynamo.config, name)]
        if not known:
            raise releases.needed("training.compile", releases.COMPILED, "Set training.compile null")
        setattr(dynamo.config, known[0], limit)
    dynamo.config.suppress_errors = False
    model.compile(mode=section.mode, dynamic=section.dynamic)
    if device.type == "cuda" and section.mode in GRAPHED:
        keep_outputs(model)


def keep_outputs(model: nn.Module) -> None:
    """Copy what the compiled forward returns: a CUDA graph writes its next outputs to the same memory.

    The engine keeps outputs until an epoch's metrics are computed (PyTorch documentation, CUDAGraph Trees: accessing an
    overwritten output is an error).
    """
    compiled: Callable[..., Any] = model._compiled_call_impl  # type: ignore[assignment]  # set by `compile`

    @functools.wraps(compiled)
    def copied(*args: Any, **kwargs: Any) -> Any:
        from torch.utils._pytree import tree_map_only

        return tree_map_only(torch.Tensor, torch.clone, compiled(*args, **kwargs))

    model._compiled_call_impl = copied


def require_compiler(device: torch.device) -> None:
    """Raise ConfigurationError when torch.compile cannot work here."""
    if device.type == "cuda":
        missing = None if importlib.util.find_spec("triton") is not None else "the package triton"
    else:
        compilers = (os.environ.get("CXX"), "g++", "clang++")
        missing = None if any(shutil.which(name) for name in compilers if name) else "a C++ compiler (g++ or clang++)"
    if missing is not None:
        raise ConfigurationError(
            f"`training.compile` needs {missing}, which this machine does not have.",
            remedy="Install it, or set training.compile to null.",
            document="configs/performance.md",
        )


COMPILER = "torch._dynamo"
OF_PACKAGE = "__path__"
"""Read when a module of the compiler is imported: its package has to be there by then."""


class _Placeholder(ModuleType):
    """The compiler before its import; after it, another name for it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != OF_PACKAGE:  # `inspect` and others read these of every module
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
