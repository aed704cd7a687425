"""A server killed while it orders a run leaves a folder that nothing knows of: the next one takes it away."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.server.context import AppContext
from trainwright.tools.launchers.local import Local
from trainwright.tools.training_orchestrator import launch as launching
from trainwright.tools.training_orchestrator import remove_abandoned, start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunDirectory, RunKind

pytestmark = pytest.mark.slow

NAME = "digits"


def start_and_die(workspace: Path) -> None:
    """Start a run in a forked server that is killed once the folder stands and before it commits."""
    child = os.fork()
    if child == 0:
        try:
            pytest.MonkeyPatch().setattr(
                launching, launching._record.__name__, lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            )
            start_run(Workspace.open(workspace), NAME, RunKind.BASELINE)
        finally:
            os._exit(70)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def folders(workspace: Workspace) -> list[Path]:
    return list((workspace.project_folder(NAME) / "runs").iterdir())


def told(workspace: Workspace) -> list[tuple[str, bool]]:
    findings = verify_workspace(workspace.path).findings
    return [(finding.what, finding.counts) for finding in findings if "the ledger never started it" in finding.what]


@pytest.mark.requirement("TRAIN-10", "GATE-3")
def test_verify_tells_of_it_and_the_next_server_removes_it(workspace: Workspace) -> None:
    start_and_die(workspace.path)
    (left,) = folders(workspace)
    (left / ".status.json.7.ab12.tmp").touch()
    ((what, counts),) = told(workspace)
    assert left.name in what
    assert "the next one that starts removes it" in what
    assert not counts
    app = AppContext(workspace.path)
    try:
        app.workspace()
    finally:
        app.close()
    assert folders(workspace) == []
    assert told(workspace) == []


@pytest.mark.requirement("TRAIN-10", "GATE-3", "GATE-5")
@pytest.mark.parametrize(
    "trace", ["run.lock", "worker.log", "checkpoints/step-1", "artifacts/summary.json", "notes.txt"]
)
def test_a_folder_that_a_worker_has_touched_stays_and_is_a_difference(workspace: Workspace, trace: str) -> None:
    start_and_die(workspace.path)
    (left,) = folders(workspace)
    (left / trace).touch()
    assert remove_abandoned(workspace) == []
    assert folders(workspace) == [left]
    assert [counts for _, counts in told(workspace)] == [True]


@pytest.mark.requirement("TRAIN-10", "GATE-3", "GATE-5")
def test_runs_that_rows_or_the_ledger_know_stay(
    workspace: Workspace, made_run: Callable[..., RunDirectory], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Local, Local.start.__name__, lambda *_: None)
    in_both = start_run(workspace, NAME, RunKind.BASELINE).run_id
    made = made_run()
    with workspace.session() as session:
        session.connection().exec_driver_sql(f"DELETE FROM runs WHERE id = '{in_both}'")  # the ledger knows it still
    assert remove_abandoned(workspace) == []
    assert sorted(folder.name for folder in folders(workspace)) == sorted([in_both, made.run_id])
