"""torch.compile of the model, in place: names in the state stay, so checkpoints fit compiled and eager models alike."""

from __future__ import annotations

import os
import shutil

import torch
from torch import nn

from trainwright.trainer.config.performance import CompileSection
from trainwright.trainer.errors import ConfigurationError

SIZES = 32
"""Sizes of batches that get a kernel of their own, before the run is stopped."""


def compile_model(model: nn.Module, section: CompileSection, device: torch.device) -> None:
    """Compile the model's forward with its first call.

    Each size of batch gets a kernel of its own (unless `dynamic`), whatever came before it: so a resumed run, which
    meets the sizes in another order, computes the same bits. What does not compile is an error, never a quiet
    return to eager mode, which would be other bits again.

    Raises:
        ConfigurationError: this machine has no compiler for the device.
    """
    require_compiler(device)
    import torch._dynamo as dynamo

    dynamo.config.recompile_limit = SIZES
    dynamo.config.accumulated_recompile_limit = max(SIZES * 64, 4096)
    dynamo.config.fail_on_recompile_limit_hit = True
    dynamo.config.suppress_errors = False
    model.compile(mode=section.mode, dynamic=section.dynamic)


def require_compiler(device: torch.device) -> None:
    """Raise ConfigurationError when torch.compile cannot work here."""
    if device.type == "cuda":
        missing = None if _has_triton() else "the package triton"
    else:
        compilers = (os.environ.get("CXX"), "g++", "clang++")
        missing = None if any(shutil.which(name) for name in compilers if name) else "a C++ compiler (g++ or clang++)"
    if missing is not None:
        raise ConfigurationError(
            f"`training.compile` needs {missing}, which this machine does not have.",
            remedy="Install it, or set training.compile to null.",
            document="configs/performance.md",
        )


def _has_triton() -> bool:
    import importlib.util

    return importlib.util.find_spec("triton") is not None
