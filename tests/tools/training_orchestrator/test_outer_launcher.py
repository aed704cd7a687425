"""Runs that an outer launcher takes up: written under the same permit, waited for, stopped through their directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

import pytest

from trainwright.tools.launchers import read_launch, write_launch
from trainwright.tools.launchers.local import UNCLAIMED_SECONDS
from trainwright.tools.training_orchestrator import refresh_run, resume_run, start_run, stop_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer import worker
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind, RunState

pytestmark = pytest.mark.slow

OUTER: dict[str, Any] = {
    "distributed.processes": 2,
    "distributed.launcher": "outer",
    "training.epochs": 100_000,
    "early_stopping.enabled": False,
    "training.validate_every_n_epochs": 1000,
}


def awaited(workspace: Workspace) -> Any:
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("outer_launcher: false", "outer_launcher: true"))
    workspace.refreshed()
    view = start_run(workspace, "digits", RunKind.BASELINE, changes=OUTER)
    return workspace.run_directory("digits", view.run_id)


@pytest.mark.requirement("TRAIN-6", "GATE-5")
def test_an_outer_launcher_needs_the_owners_consent(workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="nothing signs what it records") as caught:
        start_run(workspace, "digits", RunKind.BASELINE, changes=OUTER)
    assert "outer_launcher: true in settings.yaml" in caught.value.remedy


@pytest.mark.requirement("TRAIN-6")
def test_a_run_for_an_outer_launcher_waits_as_long_as_it_takes_and_can_be_withdrawn(workspace: Workspace) -> None:
    directory = awaited(workspace)
    launch = read_launch(directory.path)
    assert launch is not None
    assert (launch.launcher, launch.process) == ("outer", None)
    write_launch(directory.path, launch.model_copy(update={"launched_at": time.time() - 10 * UNCLAIMED_SECONDS}))
    assert refresh_run(workspace, directory.run_id).state is RunState.CREATED
    assert stop_run(workspace, directory.run_id).run_id == directory.run_id
    view = refresh_run(workspace, directory.run_id)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "withdrawn before an outer launcher" in view.failure.message
    assert resume_run(workspace, directory.run_id).state is RunState.CREATED
    again = read_launch(directory.path)
    assert again is not None
    assert again.launcher == "outer"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-6", "MCP-3")
def test_a_run_under_torchrun_is_followed_and_stopped_through_its_directory(workspace: Workspace) -> None:
    directory = awaited(workspace)
    command = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    with (directory.path / "launcher.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "-m", worker.__name__, str(directory.path)],
            stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ), start_new_session=True,
        )  # fmt: skip
    try:
        view = wait_for_run(workspace, directory.run_id, 50.0, after_step=1)
        assert view.state is RunState.RUNNING, (directory.path / "launcher.log").read_text()
        stop_run(workspace, directory.run_id)
        view = wait_for_run(workspace, directory.run_id, 50.0)
        assert view.state is RunState.STOPPED
        assert process.wait(60) == 0
    finally:
        process.terminate()
        process.wait(60)
