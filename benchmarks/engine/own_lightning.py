"""Lightning on the same work, handed over to our worker as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ours
import torch
from clock import Moment
from lightning_loop import parts
from workload import LOG_EVERY, Gathered, Workload, as_given

HELD_OUT = 64
_given: list[Workload] = []
"""The work of the present training: a factory takes plain arguments."""


def factory(number: int, folder: str) -> Any:
    """Return trainer and module, as a user's function does."""
    (workload,) = _given
    trainer, module, loader = parts(workload, number, Path(folder))
    rows = Gathered([tensor[:HELD_OUT] for tensor in workload.tensors])
    kind = type(module)

    class WithData(kind):  # type: ignore[misc, valid-type]
        """The module with its loaders."""

        def train_dataloader(self) -> Any:
            return loader

        def val_dataloader(self) -> Any:
            return torch.utils.data.DataLoader(rows, workload.batch_size, collate_fn=as_given)

        def validation_step(self, batch: Any, index: int) -> Any:  # noqa: ARG002 - the hook's form
            return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    module.__class__ = WithData
    return trainer, module


def train(workload: Workload, number: int) -> list[Moment]:
    """Train one epoch under our worker; return the moment after each step."""
    _given[:] = [workload]
    with tempfile.TemporaryDirectory() as scratch:
        values = {
            "trainer": {"use": "own_lightning.py:factory", "args": {"number": number, "folder": f"{scratch}/out"}},
            "logging": {"every_n_steps": LOG_EVERY, "tensorboard": True},
            "reproducibility": {"deterministic": False},
            "seed": number,
        }
        return ours.run(Path(scratch), values, Path(__file__).parent)
