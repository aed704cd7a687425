"""Settings under which equal inputs give equal bits, and the error for an operation that cannot (REPRO-2)."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from trainwright.trainer.base.errors import ReproducibilityError
from trainwright.trainer.config.schema import ReproducibilitySection

_LACKS = "( does not have a deterministic implementation| defaults to a non-deterministic algorithm)"
"""What torch says of operations under deterministic algorithms; of attention on CUDA, while it only warns."""


def apply_settings(section: ReproducibilitySection, exemptions: Sequence[str] = ()) -> None:
    """Set thread counts and deterministic algorithms for this process.

    Args:
        exemptions: operations that the workspace's owner allows all the same; any other one is still an error. torch
            only knows to warn of all operations, so the warnings of the others are made errors. Attention's own kernels
            on CUDA are non-deterministic while torch only warns, so the plain one takes their place.
    """
    torch.set_num_threads(section.threads)
    # The same switch as use_deterministic_algorithms, which imports the compiler as well (1.5 s).
    strict = "warn" if exemptions else "error"
    torch.set_deterministic_debug_mode(strict if section.deterministic else "default")
    if exemptions:
        warnings.filterwarnings("error", message=rf"(?s).*{_LACKS}")
        for operation in exemptions:
            warnings.filterwarnings("ignore", message=rf"(?s)(.*\s)?{re.escape(operation)}(\s.*)?{_LACKS}")
        if torch.cuda.is_available():
            torch.backends.cuda.enable_flash_sdp(False)
            torch.backends.cuda.enable_mem_efficient_sdp(False)
            torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cudnn.deterministic = section.deterministic
    torch.backends.cudnn.benchmark = False


def present_settings() -> dict[str, Any]:
    """Return the present settings, read back from torch and the environment."""
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "warns_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cublas_workspace_config": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        "pythonhashseed": os.environ.get("PYTHONHASHSEED"),
        "threads": torch.get_num_threads(),
    }


def settings_for(section: ReproducibilitySection, exemptions: Sequence[str] = ()) -> dict[str, Any]:
    """Return the `present_settings` after `apply_settings` with the same arguments, the environment aside."""
    return {
        "deterministic_algorithms": section.deterministic,
        "warns_only": section.deterministic and bool(exemptions),
        "cudnn_deterministic": section.deterministic,
        "cudnn_benchmark": False,
        "threads": section.threads,
    }


def require_applied(section: ReproducibilitySection, exemptions: Sequence[str] = ()) -> None:
    """Hold this process to the settings that were applied, which the user's code may have switched since.

    Raises:
        ReproducibilityError: one has changed; names it, with both values.
    """
    present = present_settings()
    wanted = settings_for(section, exemptions)
    wrong = {name: present[name] for name, value in wanted.items() if present[name] != value}
    if wrong:
        changed = ", ".join(f"{name} is {value}, it was {wanted[name]}" for name, value in wrong.items())
        raise ReproducibilityError(
            f"The deterministic settings were switched while the run worked: {changed}.",
            remedy="Remove the call in your code, or in a library that it uses, that switches them (torch.use_"
            "deterministic_algorithms, torch.backends.cudnn, torch.set_num_threads); the section reproducibility of "
            "the configuration sets them.",
            document="reproducibility/determinism.md",
            details={"wrong": wrong, "wanted": {name: wanted[name] for name in wrong}},
        )
