"""Imports that every run makes before its first step: in one place, so that a process can make them for many runs.

Cold and warm runs import the same before anything is seeded: some libraries draw from Python's generator while they
are imported. The compiler stays out (acceleration/compilation.py), so does what only some runs need, since a run's
evidence names the packages that it imported, and so does what begins a thread, which no fork survives (onnxruntime).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from trainwright.trainer.acceleration.compilation import defer_compiler
from trainwright.trainer.jobs import data_worker, train

LATE = (
    "multiprocessing.popen_fork", "multiprocessing.queues", "onnx", "scipy.spatial", "tensorboard",
    "torch.profiler._cupti_monitor", "torch.utils._device",
)  # fmt: skip
"""Modules that other imports leave until a run's data or first step needs them; torch's own may go in any version."""


def import_first(of_parts: Iterable[str] = ()) -> None:
    """Import them; what is missing or broken is left to whoever needs it, whose error says so.

    Args:
        of_parts: what the configured parts need besides (`first_modules`).
    """
    assert data_worker, train  # noqa: S101 - the engine itself
    defer_compiler()  # or libraries would import it
    for name in (*LATE, *of_parts):
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001, S112 - a broken installation fails in any way it likes
            continue
