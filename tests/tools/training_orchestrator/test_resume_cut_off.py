"""A resuming that an error or a kill cuts off anywhere has not happened, or can be made again; nobody is accused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.tools.killed_server import call_and_die, die

from trainwright.server.context import AppContext
from trainwright.tools.launchers import Launch, local, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.training_orchestrator import put_back_all, refresh_run, resume_run, start_run
from trainwright.tools.training_orchestrator import resume as resuming
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import StorageError
from trainwright.trainer.run import RunDirectory, RunKey, RunKind, RunState, RunStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    Break = Callable[[pytest.MonkeyPatch, Callable[..., Any]], None]

pytestmark = [pytest.mark.slow, pytest.mark.requirement("TRAIN-10", "GATE-3")]


def fail(*_: object, **__: object) -> None:
    raise StorageError("Could not write: the disk is full.", remedy="Free disk space.")


def before_the_launch(patch: pytest.MonkeyPatch, end: Callable[..., Any]) -> None:
    patch.setattr(resuming, "write_launch", end)


def before_the_commit(patch: pytest.MonkeyPatch, end: Callable[..., Any]) -> None:
    written = resuming.write_launch

    def write(*arguments: Any) -> None:
        written(*arguments)
        end()

    patch.setattr(resuming, "write_launch", write)


def before_the_limits(patch: pytest.MonkeyPatch, end: Callable[..., Any]) -> None:
    patch.setattr(RunDirectory, "write_limits", end)


def before_the_reason_goes(patch: pytest.MonkeyPatch, end: Callable[..., Any]) -> None:
    written = RunDirectory.write_limits

    def write(*arguments: Any) -> None:
        written(*arguments)
        end()

    patch.setattr(RunDirectory, "write_limits", write)


def before_the_worker(patch: pytest.MonkeyPatch, end: Callable[..., Any]) -> None:
    patch.setattr(Local, Local.start.__name__, end)


UNCOMMITTED = [before_the_launch, before_the_commit]
COMMITTED = [before_the_limits, before_the_reason_goes, before_the_worker]


@pytest.fixture
def stopped(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run that was asked to stop and did, by its record; no process works on it, now or later."""
    keys: list[RunKey] = []

    def start(_: Local, run: RunDirectory, launch: Launch, key: RunKey) -> Launch:
        keys.append(key)
        return write_launch(run.path, launch)

    monkeypatch.setattr(Local, Local.start.__name__, start)
    path = workspace.run_directory("digits", start_run(workspace, "digits", RunKind.BASELINE).run_id).path
    run, now = RunDirectory(path, keys[0]), time.time()
    (run.path / "stop_reason").write_text("requested")
    stopped = {"state": RunState.STOPPED, "stop_reason": "requested"}
    run.write_last_status(RunStatus(attempt=1, started_at=now - 5, heartbeat_at=now, **stopped))  # type: ignore[arg-type]
    assert refresh_run(workspace, run.run_id).sealed
    return run


def resume_and_die(workspace: Workspace, run: RunDirectory, where: Break) -> None:
    """Resume in a forked server that is killed where `where` says."""
    call_and_die(lambda patch: where(patch, die), lambda: resume_run(Workspace.open(workspace.path), run.run_id))


def next_server(workspace: Workspace) -> None:
    app = AppContext(workspace.path)
    app.workspace()
    app.close()


def told(workspace: Workspace, run: RunDirectory) -> list[str]:
    """What `verify` holds against the run; planning is another area's matter, and was only written down here."""
    return [problem for problem in verify_workspace(workspace.path).problems if run.run_id in problem]


def assert_resumes(workspace: Workspace, run: RunDirectory) -> None:
    view = resume_run(workspace, run.run_id)
    assert (view.state, view.attempt) == (RunState.CREATED, 2)
    assert not (run.path / "stop_reason").exists()
    launch = read_launch(run.path)
    assert launch is not None
    assert (launch.attempt, launch.former) == (2, None)
    assert told(workspace, run) == []


@pytest.mark.parametrize("ending", ["error", "kill"])
@pytest.mark.parametrize("where", UNCOMMITTED)
def test_a_resuming_that_ends_before_its_commit_leaves_the_run_as_it_was(
    workspace: Workspace, stopped: RunDirectory, where: Break, ending: str
) -> None:
    before = {path.name: path.read_bytes() for path in stopped.path.iterdir() if path.is_file()}
    if ending == "kill":
        resume_and_die(workspace, stopped, where)
        assert told(workspace, stopped) == []
        next_server(workspace)
    else:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError):
            where(patch, fail)
            resume_run(workspace, stopped.run_id)
    assert {path.name: path.read_bytes() for path in stopped.path.iterdir() if path.is_file()} == before
    view = refresh_run(workspace, stopped.run_id)
    assert (view.state, view.stop_reason, view.sealed) == (RunState.STOPPED, "requested", True)
    assert told(workspace, stopped) == []
    assert_resumes(workspace, stopped)


def test_a_server_that_was_there_before_resumes_at_once_what_another_left(
    workspace: Workspace, stopped: RunDirectory
) -> None:
    resume_and_die(workspace, stopped, before_the_commit)
    assert_resumes(workspace, stopped)


@pytest.mark.parametrize("ending", ["error", "kill"])
@pytest.mark.parametrize("where", COMMITTED)
def test_a_resuming_that_ends_after_its_commit_is_made_again(
    workspace: Workspace, stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch, where: Break, ending: str
) -> None:
    if ending == "kill":
        resume_and_die(workspace, stopped, where)
        next_server(workspace)
    else:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError):
            where(patch, fail)
            resume_run(workspace, stopped.run_id)
    assert told(workspace, stopped) == []
    monkeypatch.setattr(local, "UNCLAIMED_SECONDS", 0.0)
    view = refresh_run(workspace, stopped.run_id)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "never began" in view.failure.message
    assert told(workspace, stopped) == []
    resume_run(workspace, stopped.run_id)
    monkeypatch.setattr(local, "UNCLAIMED_SECONDS", 30.0)
    assert refresh_run(workspace, stopped.run_id).state is RunState.CREATED
    assert not (stopped.path / "stop_reason").exists()
    assert told(workspace, stopped) == []


def test_what_a_server_puts_back_is_no_resuming_that_was_committed(
    workspace: Workspace, stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "_tell", lambda *_: put_back_all(workspace))  # another server starts just then
    resume_run(workspace, stopped.run_id)
    launch = read_launch(stopped.path)
    assert launch is not None
    assert launch.attempt == 2
