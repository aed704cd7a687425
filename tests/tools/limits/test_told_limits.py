"""What a resumed worker was told that it may use, compared with what the ledger reserved for it."""

from __future__ import annotations

import json
import time

import pytest

from trainwright.tools.launchers import Launch, read_launch, write_launch
from trainwright.tools.training_orchestrator import resume_run, start_run, stop_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunDirectory, RunKind, RunState, RunStatus

pytestmark = pytest.mark.requirement("GATE-3", "GATE-4", "GATE-5")


def stopped_run(workspace: Workspace) -> RunDirectory:
    """Order a run and leave the record of a worker that was asked to stop."""
    run = workspace.run_directory("big", start_run(workspace, "big", RunKind.SMOKE).run_id)
    now = time.time()
    run.write_status(RunStatus(state=RunState.STOPPED, attempt=1, started_at=now - 5, heartbeat_at=now))
    return run


def told(workspace: Workspace) -> list[str]:
    return [what for what in verify_workspace(workspace.path).problems if "limits.json" in what]


def test_a_run_that_nothing_resumed_has_no_limits_of_its_own(workspace: Workspace) -> None:
    run = stopped_run(workspace)
    assert told(workspace) == []
    run.write_limits(run.limits().model_copy(update={"wall_clock_seconds": 1e6}))
    assert told(workspace) == [f"run {run.run_id}: limits.json was added; nothing resumed the run"]


def test_limits_raised_in_a_resumed_run_are_named_with_both_values(workspace: Workspace) -> None:
    run = stopped_run(workspace)
    resume_run(workspace, run.run_id)
    assert told(workspace) == []
    reserved = run.limits().wall_clock_seconds
    run.write_limits(run.limits().model_copy(update={"wall_clock_seconds": 1e6}))
    told_now = [
        f"run {run.run_id}: limits.json differs from what its resuming reserved: "
        f"wall_clock_seconds 1000000.0, reserved {reserved}"
    ]
    assert told(workspace) == told_now
    stop_run(workspace, run.run_id)
    assert told(workspace) == told_now  # sealed or not


def test_limits_that_were_removed_or_made_unreadable_are_named(workspace: Workspace) -> None:
    run = stopped_run(workspace)
    resume_run(workspace, run.run_id)
    path = run.path / "limits.json"
    path.write_text(json.dumps({"wall_clock_seconds": "for ever"}))
    assert ["cannot be read any more" in what for what in told(workspace)] == [True]
    path.unlink()
    assert ["wall_clock_seconds None, reserved" in what for what in told(workspace)] == [True]
    resume_limits = run.specification().limits
    run.write_limits(resume_limits)
    assert told(workspace) == []  # the same share as at the start


def test_a_launch_that_looks_cut_off_hides_no_limits_of_an_attempt_that_has_begun(workspace: Workspace) -> None:
    run = stopped_run(workspace)
    resume_run(workspace, run.run_id)
    run.write_limits(run.limits().model_copy(update={"wall_clock_seconds": 1e6}))
    launch = read_launch(run.path)
    assert launch is not None
    write_launch(run.path, launch.model_copy(update={"attempt": 9, "former": Launch(attempt=1)}))
    run.write_status(RunStatus(state=RunState.RUNNING, attempt=2, started_at=time.time(), heartbeat_at=time.time()))
    assert ["wall_clock_seconds 1000000.0" in what for what in told(workspace)] == [True]
