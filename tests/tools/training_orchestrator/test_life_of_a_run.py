"""Real workers: they outlive their server, and whoever comes back goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from tests.function_text import body_of

from trainwright.tools.projects import configure
from trainwright.tools.training_orchestrator import (
    RunView,
    resume_run,
    start_run,
    stop_and_follow,
    stop_run,
    wait_for_run,
)
from trainwright.trainer.base.errors import ConflictError
from trainwright.trainer.run import RunDirectory, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.workspace import Workspace

    Entries = Callable[[str], list[tuple[str, dict[str, Any]]]]

pytestmark = pytest.mark.slow


def start_a_run_and_die() -> None:
    import os
    import signal
    import sys
    from pathlib import Path

    from trainwright.tools.training_orchestrator import start_run
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunKind

    workspace = Workspace.open(Path(sys.argv[1]))
    view = start_run(workspace, "digits", RunKind.BASELINE)
    heavy = {"torch", "transformers", "optuna", "matplotlib", "sklearn"}
    print(view.run_id, sorted(heavy & sys.modules.keys()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def until_ended(workspace: Workspace, run_id: str) -> RunView:
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    return view


def until_past(workspace: Workspace, run_id: str, step: int) -> RunView:
    while (view := wait_for_run(workspace, run_id, after_step=step)).step <= step:
        assert not view.is_ended, view.failure
    return view


def worker_of(directory: RunDirectory) -> int:
    process = directory.status().process
    assert process is not None
    return process.pid


@pytest.mark.requirement("TRAIN-10", "MCP-3", "GATE-3")
def test_training_survives_the_server_and_a_new_server_follows_it(workspace: Workspace, entries_of: Entries) -> None:
    command = [sys.executable, "-P", "-c", body_of(start_a_run_and_die), str(workspace.path)]
    server = subprocess.run(command, capture_output=True, text=True, check=False)
    assert server.returncode == -signal.SIGKILL, server.stderr
    run_id, heavy = server.stdout.strip().split(" ", 1)
    assert heavy == "[]"
    view = until_ended(workspace, run_id)
    assert (view.state, view.stop_reason, view.epoch) == (RunState.COMPLETED, "completed", 3), view.failure
    assert view.best is not None
    assert view.best["value"] == pytest.approx(view.metrics["validation/accuracy"], abs=0.5)
    assert len(view.model_dump_json()) < 4000
    assert [kind for kind, _ in entries_of(run_id)] == ["run_started", "run_sealed"]
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.requirement("TRAIN-10", "CKPT-1", "MCP-3")
@pytest.mark.usefixtures("warm_start")
def test_a_run_that_was_stopped_then_killed_goes_on_to_its_end(workspace: Workspace, entries_of: Entries) -> None:
    changes = {"training.epochs": 25, "early_stopping.enabled": False}
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes=changes).run_id
    directory = workspace.run_directory("digits", run_id)
    until_past(workspace, run_id, 40)
    stop_run(workspace, run_id)
    stopped = until_ended(workspace, run_id)
    assert (stopped.state, stopped.stop_reason) == (RunState.STOPPED, "requested")
    assert stopped.next is not None
    assert stopped.next.tool == "resume_training"
    with pytest.raises(ConflictError, match="nothing to stop"):
        stop_run(workspace, run_id)

    resumed = resume_run(workspace, run_id)
    assert resumed.state in {RunState.CREATED, RunState.STARTING}, "its worker may have begun"
    assert resumed.attempt == 2
    with pytest.raises(ConflictError, match="nothing to resume"):
        resume_run(workspace, run_id)
    while not directory.events("resumed"):  # the rest of its epochs are still to come
        view = wait_for_run(workspace, run_id, 0.01)
        assert not view.is_ended, view.failure
    os.kill(worker_of(directory), signal.SIGKILL)
    lost = until_ended(workspace, run_id)
    assert lost.state is RunState.INTERRUPTED
    assert lost.failure is not None
    assert "without a last record" in lost.failure.message

    resume_run(workspace, run_id)
    done = until_ended(workspace, run_id)
    assert (done.state, done.attempt, done.epoch) == (RunState.COMPLETED, 3, 25), done.failure
    story = [(kind, body.get("state")) for kind, body in entries_of(run_id)]
    assert story == [
        ("run_started", None),
        ("run_sealed", "stopped"),
        ("run_resumed", "stopped"),
        ("run_sealed", "interrupted"),
        ("run_resumed", "interrupted"),
        ("run_sealed", "completed"),
    ]
    assert not [child for child in psutil.Process().children() if child.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.requirement("MCP-3")
@pytest.mark.usefixtures("warm_start")
def test_code_that_kills_its_own_process_is_told_with_what_it_printed_last(
    workspace: Workspace, make_user_project: Callable[[str, str], None]
) -> None:
    source = (
        "import os, signal\nprint('last words', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\ndef build(): ...\n"
    )
    make_user_project("selfkiller", source)
    view = until_ended(workspace, start_run(workspace, "selfkiller", RunKind.SMOKE).run_id)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert view.failure.last_lines[-1] == "last words"


@pytest.mark.usefixtures("warm_start")
def test_code_that_raises_is_told_with_its_line(
    workspace: Workspace, make_user_project: Callable[[str, str], None]
) -> None:
    make_user_project("raiser", "def build(**args):\n    raise ValueError('no such layer')\n")
    view = until_ended(workspace, start_run(workspace, "raiser", RunKind.SMOKE).run_id)
    assert view.state is RunState.FAILED
    assert view.failure is not None
    assert view.failure.category == "user_code"
    assert "no such layer" in view.failure.message
    assert view.failure.remedy
    assert view.failure.traceback is not None
    assert "raiser_model.py" in view.failure.traceback
    assert view.next is not None
    assert view.next.tool == "diagnose_run"
    with pytest.raises(ConflictError, match="would fail again"):
        resume_run(workspace, view.run_id)


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10")
@pytest.mark.usefixtures("warm_start")
def test_code_that_holds_the_interpreter_is_ended_by_the_server_and_the_answer_says_so(
    workspace: Workspace, make_user_project: Callable[[str, str], None]
) -> None:
    make_user_project("deaf", "def build(**args):\n    print('here', flush=True)\n    return sum(range(10**15))\n")
    run_id = start_run(workspace, "deaf", RunKind.SMOKE).run_id
    directory = workspace.run_directory("deaf", run_id)
    while "here" not in (directory.log.read_text() if directory.log.exists() else ""):
        assert not wait_for_run(workspace, run_id, 0.05).is_ended
    changed = configure(workspace, "deaf", changes={"training.epochs": 9})
    assert changed.under_way == [run_id]
    worker = psutil.Process(worker_of(directory))
    view = stop_and_follow(workspace, run_id, project="deaf")
    assert (view.state, view.stop_reason) == (RunState.INTERRUPTED, "requested")
    assert view.failure is not None
    assert "asked to stop (requested)" in view.failure.message
    assert not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE
