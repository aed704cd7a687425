"""Modules of other libraries that a run's parts need before its first step, read from its configuration.

A warm process imports them for its forks, a cold worker at the same moment of its start. Each part names its own
(`first_modules`); a module that begins a thread is never among them, since no fork survives that.
"""

from __future__ import annotations

from typing import Any

from trainwright.trainer.base.section import Entry
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.models import MODELS

TENSORBOARD = ("torch.utils.tensorboard", "tensorboard.plugins.hparams.metadata")


def first_modules(data: Entry | None, model: Entry | None, *, tensorboard: bool) -> tuple[str, ...]:
    """Return the full names of the modules for a configuration's data and model, in the order of their import.

    Args:
        tensorboard: whether that tracker is on.
    """
    found = [*_named(data, SOURCES), *_named(model, MODELS), *(TENSORBOARD if tensorboard else ())]
    return tuple(dict.fromkeys(found))


def _named(entry: Entry | None, registry: dict[str, Any]) -> tuple[str, ...]:
    if entry is None or entry.use not in registry:
        return ()
    names: tuple[str, ...] = registry[entry.use].first_modules(entry.args)
    return names
