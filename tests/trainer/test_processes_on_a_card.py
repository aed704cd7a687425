"""Where tests compute on a card, workers are processes of their own: CUDA fails in a fork of a process that used it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests import cuda
from tests.tools.launchers.warm_starts import SHORT, ended
from tests.worlds.warm import trainwright_command, warm

from trainwright.server import cli
from trainwright.tools.launchers import LAUNCHERS, Launch
from trainwright.trainer import handover, worker
from trainwright.trainer.run import RunDirectory, RunKey, RunState
from trainwright.trainer.run.evidence import Environment


@pytest.fixture
def _on_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "_is_shown", True)


@pytest.mark.usefixtures("_on_a_card")
def test_the_fixture_that_forks_workers_starts_them(tmp_path: Path, make_run: Any, work: Any) -> None:
    run: RunDirectory = make_run(tmp_path / "run", SHORT)
    assert work(run) == 0, run.log.read_text()
    assert run.status().state is RunState.COMPLETED
    assert worker.__name__ in run.part(Environment).command_line
    with pytest.raises(AssertionError, match="use `started`"):
        work(run, lambda: None)


@pytest.mark.slow
@pytest.mark.usefixtures("_on_a_card")
def test_the_orchestrators_commands_start_interpreters(tmp_path: Path, make_run: Any) -> None:
    run: RunDirectory = make_run(tmp_path / "run", {**SHORT, "training": {"epochs": 50}})
    own: Any = LAUNCHERS["own"]
    with warm():
        launch = own.start(run, Launch(), RunKey.new())
    assert handover.__name__ in psutil.Process(launch.process.pid).cmdline()
    ended(run)
    assert trainwright_command(os.environ) == [sys.executable, "-P", "-m", cli.__name__]
