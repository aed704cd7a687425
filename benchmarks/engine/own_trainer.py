"""Hugging Face's Trainer on the same work, handed over to our worker as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ours
from clock import Moment
from huggingface import make_trainer
from workload import LOG_EVERY, Gathered, Workload

HELD_OUT = 64
_given: list[Workload] = []
"""The work of the present training: a factory takes plain arguments."""


def factory(number: int, folder: str) -> Any:
    """Return the trainer, as a user's function does."""
    (workload,) = _given
    rows = Gathered([tensor[:HELD_OUT] for tensor in workload.tensors])
    return make_trainer(workload, number, Path(folder), rows)


def train(workload: Workload, number: int) -> list[Moment]:
    """Train one epoch under our worker; return the moment after each step."""
    _given[:] = [workload]
    with tempfile.TemporaryDirectory() as scratch:
        values = {
            "trainer": {"use": "own_trainer.py:factory", "args": {"number": number, "folder": f"{scratch}/out"}},
            "logging": {"every_n_steps": LOG_EVERY, "tensorboard": True},
            "reproducibility": {"deterministic": False},
            "seed": number,
        }
        return ours.run(Path(scratch), values, Path(__file__).parent)
