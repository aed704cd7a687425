"""Environment variables that must stand before Python starts. Light: the launcher imports it without torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from trainwright.trainer.errors import ReproducibilityError

if TYPE_CHECKING:
    from trainwright.trainer.config import TrainingConfig


def launch_environment(config: TrainingConfig) -> dict[str, str]:
    """Return the variables that the launcher sets for a worker of this configuration.

    Hash order, BLAS workspace and thread counts are read once by their libraries, so setting them later is too late.
    """
    threads = str(config.reproducibility.threads)
    return {
        "PYTHONHASHSEED": str(config.seed),
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "TF_DETERMINISTIC_OPS": "1",
    }


def verify_launch_environment(config: TrainingConfig) -> None:
    """Raise ReproducibilityError when this process was started without the launch environment."""
    wanted = launch_environment(config)
    wrong = {name: os.environ.get(name) for name, value in wanted.items() if os.environ.get(name) != value}
    if wrong:
        name = min(wrong)
        raise ReproducibilityError(
            f"The worker was started with {name}={wrong[name]!r}; it must be {wanted[name]!r} before Python starts.",
            remedy="Start workers through start_training, or with the variables of launch_environment(config).",
            details={"wrong": wrong, "wanted": wanted},
        )
