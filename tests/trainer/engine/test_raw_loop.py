"""The engine adds evidence to training, not other numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.run.environment import launch_environment

pytestmark = pytest.mark.slow


@pytest.mark.requirement("TRAIN-1", "REPRO-1")
def test_the_engine_reproduces_a_raw_loop_bit_for_bit(tmp_path: Path, make_run: Any, work: Any) -> None:
    script = Path(__file__).parent.parent / "raw_loop.py"
    values = {
        "task": {"use": "raw_loop.py:build"},
        "loader": {"batch_size": 16},
        "optimizer": {"learning_rate": 2e-3},
        "schedule": {"warmup_steps": 3},
        "training": {"epochs": 3, "clip_norm": 0.5},
        "logging": {"tensorboard": False},
    }
    run = make_run(tmp_path / "engine", values, code_root=str(script.parent))
    assert work(run) == 0, run.log.read_text()
    environment = {**os.environ, **launch_environment(run.specification().config)}
    raw = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=True)
    wanted = [tuple(line.split()) for line in raw.stdout.splitlines()]
    store = run.metrics()
    losses, norms = store.series("train/loss"), store.series("train/gradient_norm")
    got = [(loss.value.hex(), norm.value.hex()) for loss, norm in zip(losses, norms, strict=True)]
    assert len(got) == 39
    assert got == wanted
