"""Trainers of other libraries, run as they are: the seam (framework.py), and one file or folder for each library.

Light: a library is imported when its trainer was handed over, by the user's own code.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import ConfigurationError

if TYPE_CHECKING:
    from trainwright.trainer.frameworks.framework import Framework

LIGHTNING = ("lightning", "pytorch_lightning")
"""Both names under which Lightning's package is published."""
FRAMEWORKS: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (("transformers",), "Trainer", "hugging_face.trainer", "TransformersTrainer"),
    (LIGHTNING, "LightningModule", "lightning.trainer", "LightningTrainer"),
    (LIGHTNING, "LightningDataModule", "lightning.trainer", "LightningTrainer"),
    (LIGHTNING, "Trainer", "lightning.trainer", "LightningTrainer"),
)
"""Packages, the class's name in the ancestry of what is handed over, and the module here with its `Framework`."""
DOCUMENT = "configs/own_trainer.md"


def framework_of(handed: Any, what: str) -> type[Framework]:
    """Return the framework that runs what the user's function handed over: a trainer, or a tuple with one in it.

    Raises:
        ConfigurationError: none knows it.
    """
    parts = handed if isinstance(handed, tuple) else (handed,)
    for packages, name, module, framework in FRAMEWORKS:
        for ancestor in (each for part in parts for each in type(part).__mro__):
            if str(ancestor.__module__).partition(".")[0] in packages and ancestor.__name__ == name:
                found: type[Framework] = getattr(importlib.import_module(f"{__name__}.{module}"), framework)
                return found
    known = "transformers.Trainer, lightning.LightningModule"
    kinds = " and a ".join(type(part).__name__ for part in parts) or "empty tuple"
    raise ConfigurationError(
        f"{what} returned a {kinds}, which is no trainer that a run can drive.",
        remedy=f"Return one of {known}, or a subclass, before its train() was called; or hand over the parts: `task`.",
        document=DOCUMENT,
    )
