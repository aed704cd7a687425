"""A run without what Linux alone has; of a Mac's kernel nothing is shown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.only_linux import present

from trainwright.trainer.run import RunKind, RunState


def be_without() -> None:
    sys.platform = "darwin"
    for module, names in present().items():
        for name in names:
            delattr(sys.modules[module], name)


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("kind", [RunKind.SMOKE, pytest.param(RunKind.BASELINE, marks=pytest.mark.long)])
def test_a_run_is_trained_without_what_linux_alone_has(
    kind: RunKind, tmp_path: Path, work: Any, make_run: Any, digits: dict[str, Any]
) -> None:
    training = {"epochs": 1, "device": "cpu"}
    values = {**digits, "training": training, "loader": {"num_workers": 1}, "logging": {"tensorboard": False}}
    run = make_run(tmp_path / "run", values, kind=kind)
    assert work(run, be_without) == 0, run.log.read_text()
    assert run.status().state is RunState.COMPLETED
