"""Groups of two processes, forked from the test process: a run takes about two seconds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROJECTS = Path(__file__).parent.parent / "projects"
NOISY: dict[str, Any] = {
    "task": {"use": "noisy.py:build"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 8},
    "training": {"epochs": 3, "accumulation_steps": 2, "clip_norm": 1.0},
    "checkpoints": {"checkpoint_every_n_epochs": 2},
    "logging": {"every_n_steps": 3, "tensorboard": False},
    "distributed": {"processes": 2, "restarts": 1},
}
IRIS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16, 12], "norm": "layer"}},
    "data": {"use": "iris", "split": {"test": 0.155}},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 8},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
    "distributed": {"processes": 2},
}


@pytest.fixture(scope="session")
def noisy() -> dict[str, Any]:
    """Dropout, batch normalisation, augmentation and carried state, by two processes."""
    return NOISY


@pytest.fixture(scope="session")
def iris() -> dict[str, Any]:
    """Nothing random but the order, by two processes: 105 samples in batches of 8, so the last batch has one row."""
    return IRIS


@pytest.fixture(scope="session")
def group_work(work: Any) -> Any:
    """`work`, with what groups need imported once."""
    import torch.distributed.fsdp

    from trainwright.trainer.evidence.environment import import_test
    from trainwright.trainer.strategies import parallel

    assert import_test()[0]
    assert parallel.DistributedDataParallel
    assert torch.distributed.fsdp.__name__
    return work


@pytest.fixture(scope="session")
def at_step() -> Callable[..., Callable[[], None]]:
    """`at_step(number, do, rank)` returns a function that arranges for `do()` in one rank, once in the run's life."""

    def arranged(number: int, do: Callable[[], None], rank: int, flag: Path) -> Callable[[], None]:
        def arrange() -> None:
            from trainwright.trainer.engine.observers.recorder import Recorder

            real = Recorder.step

            def step(self: Any, session: Any, result: Any) -> None:
                if result.step == number and os.environ.get("RANK") == str(rank) and not flag.exists():
                    flag.touch()
                    do()
                real(self, session, result)

            Recorder.step = step  # type: ignore[method-assign]

        return arrange

    return arranged
