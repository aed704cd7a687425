"""DeepSpeed's package, loaded for one type of device before a group meets."""

from __future__ import annotations

import os
import warnings
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError


def load_deepspeed(device: str) -> Any:
    """Import DeepSpeed for a type of device.

    Raises:
        ConfigurationError: it is not installed, or does not load here.
    """
    os.environ.setdefault("DS_ACCELERATOR", device)
    try:
        import deepspeed
    except (ImportError, OSError, RuntimeError) as error:
        raise ConfigurationError(
            f"`distributed.strategy` = 'deepspeed' needs the package deepspeed, which does not load here: {error}.",
            remedy="Install it beside Trainwright (pip install 'trainwright[deepspeed]'), or set distributed.strategy "
            "ddp, or fsdp2 where the model does not fit.",
            document="configs/distributed.md",
        ) from error
    # A kernel for inference on the CPU would be compiled, whose shared memory all runs of a machine have in common.
    deepspeed.ops.__compatible_ops__ = {}
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.distributed\.")  # its calls of torch
    return deepspeed
